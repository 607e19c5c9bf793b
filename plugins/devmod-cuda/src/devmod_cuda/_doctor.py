"""The check of devmod-cuda for `devmod.doctor`: the library of NVIDIA's driver."""

from __future__ import annotations

from pluggy import HookimplMarker

from devmod_cuda._device import LIBRARY
from devmod_runtime import driver_row, open_library, permission_rows


@HookimplMarker("devmod")
def devmod_doctor() -> list[tuple[str, str, str]]:
    """Return where the library of NVIDIA's driver was looked for, and the devices that the user may not open."""
    return [driver_row(open_library([LIBRARY])), *permission_rows("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia[0-9]*")]
