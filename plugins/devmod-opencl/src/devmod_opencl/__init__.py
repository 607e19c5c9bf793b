"""devmod-opencl: its list of devices, and the devices over objects of pyopencl. Importing it loads
no driver and no driver library.

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


def adopt(handle: object) -> Device | None:
    """Entry point ``devmod.adopt.opencl``: return the device over a CommandQueue, a Context or a
    Device of pyopencl; None for another object.
    """
    if not any(each.__module__.startswith("pyopencl") for each in type(handle).__mro__):
        return None
    from devmod_opencl._adopt import adopt as adopt_handle

    return adopt_handle(handle)
