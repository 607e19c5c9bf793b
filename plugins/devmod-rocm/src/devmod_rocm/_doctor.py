"""The check of devmod-rocm for `devmod.doctor`: HIP's runtime."""

from __future__ import annotations

from pluggy import HookimplMarker

from devmod_rocm._device import places
from devmod_runtime import RENDER_NODES, driver_row, open_library, permission_rows


@HookimplMarker("devmod")
def devmod_doctor() -> list[tuple[str, str, str]]:
    """Return where HIP's runtime was looked for, and the devices that the user may not open."""
    return [driver_row(open_library(places())), *permission_rows("/dev/kfd", RENDER_NODES)]
