"""devmod-webgpu: its list of devices. Importing it loads no driver and no driver library.

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
