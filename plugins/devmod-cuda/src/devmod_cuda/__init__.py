"""devmod-cuda: the functions that its entry points name. Importing it loads no driver and no driver library."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import Device, FunctionInfo, Module


def create(code: bytes | memoryview, fmt: str, fmap: Mapping[str, FunctionInfo], source: Mapping[str, str | bytes] | None) -> Module:
    """Entry point ``devmod.create.cuda``: return the module of a payload."""
    from devmod_cuda._module import CudaModule

    return CudaModule.create(code, fmt, fmap, source)


def load_from_bytes(data: memoryview) -> Module:
    """Entry point ``devmod.load_from_bytes.cuda``: return the module that the bytes contain."""
    from devmod_cuda._module import CudaModule

    return CudaModule.load(data)


def load_from_file(path: str, fmt: str) -> Module:
    """Entry point ``devmod.load_from_file.{cuda,ptx,cubin,fatbin}``: return the module of a payload file and its metadata file."""
    from devmod_cuda._module import CudaModule

    return CudaModule.read(path, fmt)


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.cuda``: return the CUDA devices in the driver's order."""
    from devmod_cuda._device import devices as list_devices

    return list_devices()
