"""devmod-opencl: what its entry points name, and nothing else. Importing it opens no driver and imports no driver's library."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import Device, FunctionInfo, Module


def create(code: bytes | memoryview, fmt: str, fmap: Mapping[str, FunctionInfo], source: Mapping[str, str | bytes] | None) -> Module:
    """``devmod.create.opencl``: the module of a payload."""
    from devmod_opencl._module import OpenCLModule

    return OpenCLModule.create(code, fmt, fmap, source)


def load_from_bytes(data: memoryview) -> Module:
    """``devmod.load_from_bytes.opencl``: the module in its bytes."""
    from devmod_opencl._module import OpenCLModule

    return OpenCLModule.load(data)


def load_from_file(path: str, fmt: str) -> Module:
    """``devmod.load_from_file.{cl,clbin,xclbin,awsxclbin,aocx}``: the module of a payload file and its metadata file."""
    from devmod_opencl._module import OpenCLModule

    return OpenCLModule.read(path, fmt)


def devices() -> Sequence[Device]:
    """``devmod.device.opencl``: the devices of all platforms, GPUs and accelerators before CPUs."""
    from devmod_opencl._device import devices as found

    return found()
