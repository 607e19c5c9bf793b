"""The environment variables of devmod-rocm, each with what it does. docs/plugins.md has the same rows."""

from __future__ import annotations

VARIABLES = {
    "DEVMOD_ROCM_DRIVER": "`ctypes` or `hip-python`: how the HIP runtime is called; by default by hip-python if it is installed, else by "
    "ctypes; read once, when the driver is opened",
}
