"""The environment variables of devmod-opencl and their effects. docs/plugins.md has the same rows."""

from __future__ import annotations

VARIABLES = {
    "DEVMOD_OPENCL_POCL_CPU": "neither empty nor `0` nor `false` (in any case): on a processor that PoCL's LLVM does not know, devmod "
    "writes the name of its level of x86-64 into PoCL's record of the device",
    "DEVMOD_OPENCL_TRIAL": "`0` or `false` (in any case): no trial in another process, of OpenCL binaries and of PoCL's linker",
}
