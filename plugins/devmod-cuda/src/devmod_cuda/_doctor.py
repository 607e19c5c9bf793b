"""The check of devmod-cuda for `devmod.doctor`: the library of NVIDIA's driver, or the simulated
one.
"""

from __future__ import annotations

from pluggy import HookimplMarker

from devmod.errors import DeviceNotFoundError
from devmod_cuda._device import LIBRARY, find_library
from devmod_runtime import Attempt, driver_row, permission_rows


@HookimplMarker("devmod")
def devmod_doctor() -> list[tuple[str, str, str]]:
    """Return where the library of NVIDIA's driver was looked for, and the devices that the user may
    not open.
    """
    try:
        attempt = find_library()
    except DeviceNotFoundError as error:
        attempt = Attempt(LIBRARY, problem=str(error))
    return [
        driver_row([attempt]),
        *permission_rows("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia[0-9]*"),
    ]
