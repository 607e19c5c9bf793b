"""The environment variables of devmod-opencl and their effects. docs/plugins.md has the same rows."""

from __future__ import annotations

VARIABLES = {
    "DEVMOD_OPENCL_TRIAL": "`0` or `false` (in any case): OpenCL binaries are loaded without a trial in another process",
}
