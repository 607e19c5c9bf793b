"""The environment variables of devmod-runtime, each with what it does. docs/plugins.md has the same rows."""

from __future__ import annotations

VARIABLES = {
    "DEVMOD_GUARD": "a number of bytes such as `4096`: the whole program runs in [`devmod.guard(bytes)`](find-out-what-is-wrong.md), "
    "which finds writes outside of arrays",
}
