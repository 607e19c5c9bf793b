"""The environment variables of devmod-cuda, each with what it does. docs/plugins.md has the same rows."""

from __future__ import annotations

VARIABLES = {
    "DEVMOD_CUDA_DRIVER": "`cuda-bindings` or `pycuda`: the package that calls CUDA's driver; by default pycuda if it is installed, else "
    "cuda-bindings; read once, when the driver is opened",
}
