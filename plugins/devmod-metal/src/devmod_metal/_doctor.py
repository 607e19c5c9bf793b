"""The check of devmod-metal for `devmod.doctor`: the framework Metal."""

from __future__ import annotations

from pluggy import HookimplMarker

from devmod_runtime import driver_row, open_library

#: macOS opens it from its cache of libraries; there is no such file.
_FRAMEWORK = "/System/Library/Frameworks/Metal.framework/Metal"


@HookimplMarker("devmod")
def devmod_doctor() -> list[tuple[str, str, str]]:
    """Return where the framework was looked for."""
    return [driver_row(open_library([_FRAMEWORK]))]
