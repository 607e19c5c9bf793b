"""devmod-rocm: its list of devices. Importing it loads no driver and no driver library.

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
