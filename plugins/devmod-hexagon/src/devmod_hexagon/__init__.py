"""devmod-hexagon: the functions that its entry points name. Importing it starts no process and reads no file.

docs/design/hexagon.md has the reasons.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import Device, FunctionInfo, Module


def create(code: bytes | memoryview, fmt: str, fmap: Mapping[str, FunctionInfo], source: Mapping[str, str | bytes] | None) -> Module:
    """Entry point ``devmod.create.hexagon``: return the module of a payload."""
    from devmod_hexagon._module import HexagonModule

    return HexagonModule.create(code, fmt, fmap, source)


def load_from_bytes(data: memoryview) -> Module:
    """Entry point ``devmod.load_from_bytes.hexagon``: return the module that the bytes contain."""
    from devmod_hexagon._module import HexagonModule

    return HexagonModule.load(data)


def load_from_file(path: str, _fmt: str) -> Module:
    """Entry point ``devmod.load_from_file.so_hexagon``: return the module of a shared object and its metadata file."""
    from devmod_hexagon._module import HexagonModule

    return HexagonModule.read(path, "so")


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.hexagon``: return the devices, each with a runner of its own."""
    from devmod_hexagon._device import devices as list_devices

    return list_devices()
