"""devmod-opencl: its list of devices. Importing it loads no driver and no driver library.

docs/design/opencl.md has the reasons.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import Device


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.opencl``: return the devices of all platforms, GPUs and
    accelerators before CPUs, PoCL's last.
    """
    from devmod_opencl._device import devices as list_devices

    return list_devices()
