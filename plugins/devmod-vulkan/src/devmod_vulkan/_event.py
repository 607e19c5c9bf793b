"""Events: values of a stream's semaphore, and timestamps."""

from __future__ import annotations

from devmod import Event
from devmod.errors import LaunchError
from devmod_runtime import check_earlier_event
from devmod_vulkan._driver import ffi, vk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_vulkan._commands import Timer
    from devmod_vulkan._device import VulkanDevice
    from devmod_vulkan._stream import VulkanStream


class VulkanEvent(Event):
    """A value of a stream's semaphore, and a timestamp if the device supports timestamps."""

    __slots__ = ("stream", "timer", "value")

    def __init__(self, stream: VulkanStream, value: int, timer: Timer | None) -> None:
        self.stream = stream
        self.value = value
        self.timer = timer

    @property
    def device(self) -> VulkanDevice:
        """The device of the stream."""
        return self.stream.device

    def synchronize(self) -> None:
        self.stream.wait_until(self.value)

    def elapsed(self, earlier: Event) -> float:
        earlier = check_earlier_event(earlier, VulkanEvent, self.device)
        if self.timer is None or earlier.timer is None:
            raise LaunchError(f"{self.device} does not support timestamps, so the time between events is unknown", kind="vulkan")
        earlier.synchronize()
        self.synchronize()
        return ticks_between(self.stream, earlier.timer, self.timer)

    def __repr__(self) -> str:
        return f"<Event of {self.device}>"


def ticks_between(stream: VulkanStream, before: Timer, after: Timer) -> float:
    """Return the seconds between two written timestamps."""
    logical, physical = stream.logical, stream.device.physical
    logical.check_open()
    values = []
    out = ffi.new("uint64_t *")
    flags = vk.VK_QUERY_RESULT_64_BIT | vk.VK_QUERY_RESULT_WAIT_BIT
    for timer in (before, after):
        code = logical.calls.vkGetQueryPoolResults(logical.handle, timer.pool, timer.number, 1, 8, out, 8, flags)
        logical.check(code, "cannot read the time of an event")
        values.append(out[0])
    ticks = values[1] - values[0]
    # The counter wraps around after this many ticks.
    span = 1 << physical.timestamp_bits
    ticks = (ticks + span // 2) % span - span // 2
    return float(ticks * physical.timestamp_period * 1e-9)
