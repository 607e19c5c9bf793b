"""The environment variables of devmod-targets, each with what it does. docs/plugins.md has the same rows."""

from __future__ import annotations

VARIABLES = {
    "DEVMOD_BUILD_CACHE": "the folder or the URL of the cache of `devmod build`; by default the folder of caches",
    "DEVMOD_CLANG": "the clang that compiles for ROCm and Hexagon, as a path or as a name in `PATH`; by default that of the wheel ziglang",
    "DEVMOD_ROCM_DEVICE_LIBS": "the folder of ROCm's device library (`ocml.bc`, `ockl.bc`), for functions that AMD GPUs do not compute by "
    "themselves; by default none",
}
