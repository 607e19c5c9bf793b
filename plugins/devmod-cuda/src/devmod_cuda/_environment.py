"""The environment variables of devmod-cuda, each with what it does. docs/plugins.md has the same rows."""

from __future__ import annotations

VARIABLES = {
    "DEVMOD_CUDA_DRIVER": "`ctypes` (the default) or `pycuda`: with `pycuda`, pycuda initializes CUDA's driver and has the contexts; read "
    "once, when the driver is opened",
}
