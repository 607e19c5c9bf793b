"""The environment variables of devmod-opencl and their effects. docs/plugins.md has the same rows."""

from __future__ import annotations

VARIABLES = {
    "DEVMOD_OPENCL_TRIAL": "`0` or `false` (in any case): no trial in another process, of OpenCL binaries and of PoCL's linker",
}
