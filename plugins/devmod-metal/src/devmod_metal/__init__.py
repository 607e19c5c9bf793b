"""devmod-metal: what its entry points name, and nothing else. Importing it opens no driver and imports no driver's library."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import Device, FunctionInfo, Module


def create(
    code: Mapping[str, bytes | memoryview], fmt: str, fmap: Mapping[str, FunctionInfo], source: Mapping[str, str | bytes] | None
) -> Module:
    """``devmod.create.metal``: the module of a payload."""
    from devmod_metal._module import MetalModule

    return MetalModule.create(code, fmt, fmap, source)


def load_from_bytes(data: memoryview) -> Module:
    """``devmod.load_from_bytes.metal``: the module in its bytes."""
    from devmod_metal._module import MetalModule

    return MetalModule.load(data)


def load_from_file(path: str, fmt: str) -> Module:
    """``devmod.load_from_file.{metal,metallib}``: the module of a payload file and its metadata file."""
    from devmod_metal._module import MetalModule

    return MetalModule.read(path, fmt)


def devices() -> Sequence[Device]:
    """``devmod.device.metal``: the Mac's GPUs."""
    from devmod_metal._device import devices as found

    return found()
