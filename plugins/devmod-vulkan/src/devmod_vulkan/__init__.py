"""devmod-vulkan: its list of devices. Importing it loads no driver and no driver library.

docs/design/vulkan.md has the reasons.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import Device


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.vulkan``: return the devices, that of ``DEVMOD_VULKAN_DEVICE``
    first, then GPUs before CPUs.
    """
    from devmod_vulkan._device import devices as list_devices

    return list_devices()
