"""The check of devmod-rocm for `devmod.doctor`: HIP's runtime."""

from __future__ import annotations

from pluggy import HookimplMarker

from devmod_rocm._device import places
from devmod_runtime import driver_row, open_library


@HookimplMarker("devmod")
def devmod_doctor() -> list[tuple[str, str, str]]:
    """Return where HIP's runtime was looked for."""
    return [driver_row(open_library(places()))]
