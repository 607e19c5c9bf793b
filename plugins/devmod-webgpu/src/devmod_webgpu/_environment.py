"""The environment variables of devmod-webgpu, each with what it does. docs/plugins.md has the same rows."""

from __future__ import annotations

VARIABLES = {
    "DEVMOD_WEBGPU_TRIAL": "`0` or `false` (in any case): new WebGPU shaders are not first compiled in another process",
}
