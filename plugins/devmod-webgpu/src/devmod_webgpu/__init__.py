"""devmod-webgpu: its list of devices, and the devices over objects of wgpu. Importing it loads no
driver and no driver library.

docs/design/webgpu.md has the reasons.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import Device


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.webgpu``: return the devices of this machine, GPUs before
    CPUs.
    """
    from devmod_webgpu._device import devices as list_devices

    return list_devices()


def adopt(handle: object) -> Device | None:
    """Entry point ``devmod.adopt.webgpu``: return the device over a GPUDevice or a GPUQueue of
    wgpu; None for another object.
    """
    if not any(each.__module__.startswith("wgpu") for each in type(handle).__mro__):
        return None
    from devmod_webgpu._device import adopt as adopt_handle

    return adopt_handle(handle)
