"""devmod-rocm: the functions that its entry points name. Importing it loads no driver and no driver library.

docs/design/rocm.md has the reasons.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import Device, FunctionInfo, Module


def create(code: bytes | memoryview, fmt: str, fmap: Mapping[str, FunctionInfo], source: Mapping[str, str | bytes] | None) -> Module:
    """Entry point ``devmod.create.rocm``: return the module of a payload."""
    from devmod_rocm._module import RocmModule

    return RocmModule.create(code, fmt, fmap, source)


def load_from_bytes(data: memoryview) -> Module:
    """Entry point ``devmod.load_from_bytes.{rocm,hsaco,hip}``: return the module that the bytes contain."""
    from devmod_rocm._module import RocmModule

    return RocmModule.load(data)


def load_from_file(path: str, fmt: str) -> Module:
    """Entry point ``devmod.load_from_file.{hsaco,hip}``: return the module of a payload file and its metadata file."""
    from devmod_rocm._module import RocmModule

    return RocmModule.read(path, fmt)


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.rocm``: return the ROCm devices in the driver's order."""
    from devmod_rocm._device import devices as list_devices

    return list_devices()
