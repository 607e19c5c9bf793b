"""Vulkan devices: found once, opened when first used."""

from __future__ import annotations

import os

from devmod import Device, Stream
from devmod.backend import Once
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
        What is known of it.
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
        self._made = Once()

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
            The driver does not open it.
        """
        made: Logical = self._made.get("logical", lambda: Logical(self))
        return made

    @property
    def default_stream(self) -> VulkanStream:
        made: VulkanStream = self._made.get("stream", self.stream)
        return made

    def stream(self) -> VulkanStream:
        return VulkanStream(self, self.logical)

    def synchronize(self) -> None:
        if "logical" in self._made:
            self.logical.finish()

    def allocate(self, nbytes: int) -> Memory:
        return self.logical.local.allocate(nbytes)

    def write(self, memory: Any, data: memoryview, stream: Stream) -> None:
        assert isinstance(stream, VulkanStream)
        _copy.write(memory, data, stream)

    def read(self, memory: Any, out: memoryview, stream: Stream) -> None:
        assert isinstance(stream, VulkanStream)
        _copy.read(memory, out, stream)


def devices() -> list[VulkanDevice]:
    """All devices, the same objects each time; they are looked for until there is one.

    Raises
    ------
    DeviceNotFoundError
        There is none, or none that ``DEVMOD_VULKAN_DEVICE`` means.
    """
    found: list[VulkanDevice] = _once.get(
        "devices", lambda: [VulkanDevice(physical, index) for index, physical in enumerate(_chosen_first(physical_devices()))]
    )
    return found


def _chosen_first(found: list[Physical]) -> list[Physical]:
    """The devices, that one first which ``DEVMOD_VULKAN_DEVICE`` names: by its number in the order of choice, or by a part of its name."""
    chosen = os.environ.get("DEVMOD_VULKAN_DEVICE", "").strip()
    if not chosen:
        return found
    if chosen.isascii() and chosen.isdigit():
        matching = found[int(chosen) : int(chosen) + 1] if len(chosen) < 6 else []
    else:
        matching = [each for each in found if chosen.lower() in each.name.lower()]
    if not matching:
        listed = "; ".join(f"{number} {each.name}" for number, each in enumerate(found))
        raise DeviceNotFoundError(
            f"DEVMOD_VULKAN_DEVICE is {chosen!r}, which is neither the number nor a part of the name of a Vulkan device; there are: "
            f"{listed}",
            kind="vulkan",
        )
    return [matching[0], *(each for each in found if each is not matching[0])]
