"""devmod-vulkan: what its entry points name, and nothing else. Importing it opens no driver and imports no driver's library."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import Device, FunctionInfo, Module


def create(
    code: Mapping[str, bytes | memoryview], fmt: str, fmap: Mapping[str, FunctionInfo], source: Mapping[str, str | bytes] | None
) -> Module:
    """``devmod.create.vulkan``: the module of a payload."""
    from devmod_vulkan._module import VulkanModule

    return VulkanModule.create(code, fmt, fmap, source)


def load_from_bytes(data: memoryview) -> Module:
    """``devmod.load_from_bytes.vulkan``: the module in its bytes."""
    from devmod_vulkan._module import VulkanModule

    return VulkanModule.load(data)


def load_from_file(path: str, fmt: str) -> Module:
    """``devmod.load_from_file.spv``: the module of a payload file and its metadata file."""
    from devmod_vulkan._module import VulkanModule

    return VulkanModule.read(path, fmt)


def devices() -> Sequence[Device]:
    """``devmod.device.vulkan``: the devices, the one that ``DEVMOD_VULKAN_DEVICE`` names first, then GPUs before CPUs."""
    from devmod_vulkan._device import devices as found

    return found()
