"""devmod-hexagon: its list of devices, and the loader of its files. Importing it starts no process
and reads no file.

docs/design/hexagon.md has the reasons.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import Device, Module


def load_from_file(path: str, _fmt: str) -> Module:
    """Entry point ``devmod.load_from_file.so_hexagon``: return the module of a shared object and
    its metadata file.
    """
    from devmod_hexagon._module import HexagonModule

    return HexagonModule.read(path, "so")


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.hexagon``: return the devices, each with a runner of its own."""
    from devmod_hexagon._device import devices as list_devices

    return list_devices()
