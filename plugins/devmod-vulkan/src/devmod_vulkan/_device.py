"""Vulkan devices. They are listed once, and each is opened at its first use."""

from __future__ import annotations

from devmod import Device, Stream
from devmod.backend import Once, environment_text
from devmod.errors import DeviceNotFoundError
from devmod_vulkan import _copy
from devmod_vulkan._logical import Logical
from devmod_vulkan._physical import Physical, physical_devices
from devmod_vulkan._stream import VulkanStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from devmod_vulkan._memory import Memory

#: DLPack's kDLVulkan.
_DLPACK_VULKAN = 7
_once = Once()


class VulkanDevice(Device):
    """A Vulkan device.

    Parameters
    ----------
    physical
        The properties that the driver reports.
    index
        Its number.
    """

    kind = "vulkan"
    dlpack_type = _DLPACK_VULKAN

    def __init__(self, physical: Physical, index: int) -> None:
        self.physical = physical
        self.index = index
        self.name = physical.name
        self.vendor = physical.vendor
        self.driver_version = physical.driver_version
        self.memory = physical.memory
        self.arch = physical.arch
        self._once = Once()

    @property
    def limits(self) -> Mapping[str, int]:  # type: ignore[override]
        """The device's limits, named as in Vulkan."""
        return self.physical.limits

    @property
    def logical(self) -> Logical:
        """The open device.

        Raises
        ------
        DeviceNotFoundError
            The driver cannot open it.
        """
        logical: Logical = self._once.get("logical", lambda: Logical(self))
        return logical

    @property
    def default_stream(self) -> VulkanStream:
        stream: VulkanStream = self._once.get("stream", self.stream)
        return stream

    def stream(self) -> VulkanStream:
        return VulkanStream(self, self.logical)

    def synchronize(self) -> None:
        if "logical" in self._once:
            self.logical.finish()

    def allocate(self, nbytes: int) -> Memory:
        return self.logical.local.allocate(nbytes)

    def write(self, memory: Any, data: memoryview, stream: Stream) -> None:
        assert isinstance(stream, VulkanStream)
        _copy.write(memory, data, stream)

    def read(self, memory: Any, out: memoryview, stream: Stream) -> None:
        assert isinstance(stream, VulkanStream)
        _copy.read(memory, out, stream)

    def start_write(self, memory: Any, data: memoryview, stream: Stream) -> None:
        assert isinstance(stream, VulkanStream)
        _copy.start_write(memory, data, stream)

    def start_read(self, memory: Any, out: memoryview, stream: Stream) -> None:
        assert isinstance(stream, VulkanStream)
        _copy.start_read(memory, out, stream)

    def copy(self, source: Any, target: Any, nbytes: int, stream: Stream) -> None:
        assert isinstance(stream, VulkanStream)
        _copy.copy(source, target, nbytes, stream)

    def clear(self, memory: Any, nbytes: int, stream: Stream) -> None:
        assert isinstance(stream, VulkanStream)
        _copy.clear(memory, nbytes, stream)

    def slice(self, memory: Memory, offset: int, nbytes: int) -> Memory:
        self.logical.check_open()
        return memory.part(offset, nbytes)

    def free_memory(self) -> int | None:
        return self.physical.free_memory()


def devices() -> list[VulkanDevice]:
    """Return all devices, the same objects each time. An empty list is not cached.

    Raises
    ------
    DeviceNotFoundError
        There is no device, or none matches ``DEVMOD_VULKAN_DEVICE``.
    """
    items: list[VulkanDevice] = _once.get(
        "devices", lambda: [VulkanDevice(physical, index) for index, physical in enumerate(preferred_first(physical_devices()))]
    )
    return items


def preferred_first(devices: list[Physical]) -> list[Physical]:
    """Return the devices with that of ``DEVMOD_VULKAN_DEVICE`` first. The variable is an index into `devices`, or a part of a name."""
    preferred = environment_text("DEVMOD_VULKAN_DEVICE")
    if not preferred:
        return devices
    if preferred.isascii() and preferred.isdigit():
        matching = devices[int(preferred) : int(preferred) + 1] if len(preferred) < 6 else []
    else:
        matching = [each for each in devices if preferred.lower() in each.name.lower()]
    if not matching:
        text = "; ".join(f"{number} {each.name}" for number, each in enumerate(devices))
        raise DeviceNotFoundError(
            f"DEVMOD_VULKAN_DEVICE is {preferred!r}: expected the number of a Vulkan device, or a part of its name. Devices: {text}",
            kind="vulkan",
        )
    return [matching[0], *(each for each in devices if each is not matching[0])]
