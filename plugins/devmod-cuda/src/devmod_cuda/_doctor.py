"""The check of devmod-cuda for `devmod.doctor`: the library of NVIDIA's driver."""

from __future__ import annotations

from pluggy import HookimplMarker

from devmod_cuda._device import LIBRARY
from devmod_runtime import driver_row, open_library


@HookimplMarker("devmod")
def devmod_doctor() -> list[tuple[str, str, str]]:
    """Return where the library of NVIDIA's driver was looked for."""
    return [driver_row(open_library([LIBRARY]))]
