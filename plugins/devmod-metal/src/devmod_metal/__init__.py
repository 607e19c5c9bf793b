"""devmod-metal: the functions that its entry points name. Importing it loads no driver and no driver library.

docs/design/metal.md has the reasons.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import Device, FunctionInfo, Module


def create(
    code: Mapping[str, bytes | memoryview], fmt: str, fmap: Mapping[str, FunctionInfo], source: Mapping[str, str | bytes] | None
) -> Module:
    """Entry point ``devmod.create.metal``: return the module of a payload."""
    from devmod_metal._module import MetalModule

    return MetalModule.create(code, fmt, fmap, source)


def load_from_bytes(data: memoryview) -> Module:
    """Entry point ``devmod.load_from_bytes.metal``: return the module that the bytes contain."""
    from devmod_metal._module import MetalModule

    return MetalModule.load(data)


def load_from_file(path: str, fmt: str) -> Module:
    """Entry point ``devmod.load_from_file.{metal,metallib}``: return the module of a payload file and its metadata file."""
    from devmod_metal._module import MetalModule

    return MetalModule.read(path, fmt)


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.metal``: return the Mac's GPUs."""
    from devmod_metal._device import devices as list_devices

    return list_devices()
