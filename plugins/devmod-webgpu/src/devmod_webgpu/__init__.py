"""devmod-webgpu: the functions that its entry points name. Importing it loads no driver and no driver library.

docs/design/webgpu.md has the reasons.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import Device, FunctionInfo, Module


def create(
    code: Mapping[str, bytes | memoryview], fmt: str, fmap: Mapping[str, FunctionInfo], source: Mapping[str, str | bytes] | None
) -> Module:
    """Entry point ``devmod.create.webgpu``: return the module of a payload."""
    from devmod_webgpu._module import WebGPUModule

    return WebGPUModule.create(code, fmt, fmap, source)


def load_from_bytes(data: memoryview) -> Module:
    """Entry point ``devmod.load_from_bytes.webgpu``: return the module that the bytes contain."""
    from devmod_webgpu._module import WebGPUModule

    return WebGPUModule.load(data)


def load_from_file(path: str, fmt: str) -> Module:
    """Entry point ``devmod.load_from_file.wgsl``: return the module of a payload file and its metadata file."""
    from devmod_webgpu._module import WebGPUModule

    return WebGPUModule.read(path, fmt)


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.webgpu``: return the devices of this machine, GPUs before CPUs."""
    from devmod_webgpu._device import devices as list_devices

    return list_devices()
