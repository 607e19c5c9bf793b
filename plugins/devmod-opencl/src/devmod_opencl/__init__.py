"""devmod-opencl: the functions that its entry points name. Importing it loads no driver and no driver library.

docs/design/opencl.md has the reasons.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import Device, FunctionInfo, Module


def create(code: bytes | memoryview, fmt: str, fmap: Mapping[str, FunctionInfo], source: Mapping[str, str | bytes] | None) -> Module:
    """Entry point ``devmod.create.opencl``: return the module of a payload."""
    from devmod_opencl._module import OpenCLModule

    return OpenCLModule.create(code, fmt, fmap, source)


def load_from_bytes(data: memoryview) -> Module:
    """Entry point ``devmod.load_from_bytes.opencl``: return the module that the bytes contain."""
    from devmod_opencl._module import OpenCLModule

    return OpenCLModule.load(data)


def load_from_file(path: str, fmt: str) -> Module:
    """Entry point ``devmod.load_from_file.{cl,il,clbin,xclbin,awsxclbin,aocx}``: return the module of a payload file."""
    from devmod_opencl._module import OpenCLModule

    return OpenCLModule.read(path, fmt)


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.opencl``: return the devices of all platforms, GPUs and accelerators before CPUs, PoCL's last."""
    from devmod_opencl._device import devices as list_devices

    return list_devices()
