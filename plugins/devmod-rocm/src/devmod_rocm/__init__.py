"""devmod-rocm: its list of devices, and devices over streams of other libraries. Importing it loads
no driver and no driver library.

docs/design/rocm.md has the reasons.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import Device


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.rocm``: return the ROCm devices in the driver's order."""
    from devmod_rocm._device import devices as list_devices

    return list_devices()


def adopt(handle: object) -> Device | None:
    """Entry point ``devmod.adopt.rocm``: return the device over a stream of another library; None
    for other objects.
    """
    from devmod_driver_api import is_for_hip

    package = type(handle).__module__.partition(".")[0]
    if package not in ("hip", "rocm") and not is_for_hip(package):
        return None
    from devmod_rocm._launch import ADOPTION

    return ADOPTION.adopt_device(handle)
