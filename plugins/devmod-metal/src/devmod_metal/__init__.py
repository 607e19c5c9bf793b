"""devmod-metal: its list of devices. Importing it loads no driver and no driver library.

docs/design/metal.md has the reasons.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import Device


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.metal``: return the Mac's GPUs."""
    from devmod_metal._device import devices as list_devices

    return list_devices()
