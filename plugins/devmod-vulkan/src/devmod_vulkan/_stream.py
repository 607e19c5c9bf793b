"""Streams. A stream has a timeline semaphore that counts its submissions; an event is a value of it.

Several streams may share a queue of the device. Submissions to one stream run in order, because every command buffer begins and
ends with a barrier.
"""

from __future__ import annotations

from collections import deque

from devmod import Event, Stream
from devmod.errors import LaunchError
from devmod_runtime import Batch, check_earlier_event, check_event, lend
from devmod_vulkan._driver import array, ffi, make, vk
from devmod_vulkan._wait import Waiter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from devmod_vulkan._commands import Timer
    from devmod_vulkan._copy import Download
    from devmod_vulkan._device import VulkanDevice
    from devmod_vulkan._logical import Logical


#: The number of submissions after which the stream releases the finished ones.
_RELEASE_EVERY = 32
_ALL_STAGES = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT


class VulkanStream(Stream):
    """A Vulkan stream.

    Attributes
    ----------
    number : int
        Its number among all streams created on the device.
    semaphore
        The timeline semaphore.
    pending
        The submissions that may not be done: value, resources, callback.
    """

    device: VulkanDevice

    def __init__(self, device: VulkanDevice, logical: Logical) -> None:
        self.device = device
        self.logical = logical
        self.number, queue = logical.next_queue()
        self._queue, self._lock = queue.handle, queue.lock
        self._submit = logical.calls.vkQueueSubmit
        self._validating = logical.validating
        self.semaphore, self._value = logical.take_semaphore()
        self.pending: deque[tuple[int, Any, Callable[[Any], object] | None]] = deque()
        # Every submission points to these. The value that it sets is written into the cell under the queue's lock.
        self._cell = ffi.new("uint64_t *", self._value)
        self._semaphores = ffi.new("VkSemaphore *", self.semaphore)
        self._timeline = make("VkTimelineSemaphoreSubmitInfo", signalSemaphoreValueCount=1, pSignalSemaphoreValues=self._cell)
        self._waiters: list[Waiter] = []
        self._waits: list[tuple[Any, int, Any]] = []
        self._gathered: list[tuple[Any, Any, Callable[[Any], object] | None]] = []
        #: The active batches.
        self._batches: set[object] = set()
        #: Whether submissions take the slow path: there are waits, or a batch gathers.
        self._special = False
        self._downloads: dict[int, Download] = {}
        lease = lend(self, (self.semaphore, self._cell, self.pending, self._downloads))
        self._token = lease.token
        logical.streams[self.number] = lease

    # -- submitting

    def submission(self, handles: Sequence[Any]) -> Any:
        """Return a VkSubmitInfo of this stream for command buffers. It can be submitted repeatedly."""
        return make(
            "VkSubmitInfo",
            pNext=self._timeline,
            commandBufferCount=len(handles),
            pCommandBuffers=array("VkCommandBuffer", list(handles)),
            signalSemaphoreCount=1,
            pSignalSemaphores=self._semaphores,
        )

    def submit(self, info: Any, handle: Any, resources: Any, release: Callable[[Any], object] | None = None) -> None:
        """Submit a command buffer.

        Parameters
        ----------
        info
            The VkSubmitInfo that `submission` returned for it.
        handle
            The command buffer.
        resources
            The objects to keep alive until it is done.
        release
            Called with `resources` when it is done.

        Raises
        ------
        LaunchError
            The driver fails.
        """
        with self._lock:
            if self._special or self._validating or self.logical.closed:
                self.logical.check_open()
                self._gathered.append((handle, resources, release))
                if self._batches:
                    return
                self._flush()
                value = self._value
            else:
                value = self._cell[0] = self._value + 1
                # Python raises KeyboardInterrupt only after a call returns. So the bookkeeping is done before the submission and without
                # a call: an interrupt finds both done or neither.
                self.pending += ((value, resources, release),)
                self._value = value
                code = self._submit(self._queue, 1, info, ffi.NULL)
                if code:
                    raise self._undo(code, 1)
        if not value % _RELEASE_EVERY:
            self._release_finished()

    def _flush(self) -> None:
        """Submit the gathered command buffers. The caller must hold the queue's lock."""
        self.logical.check_open()
        commands, waits = self._gathered, self._waits
        special = bool(self._batches)
        if not commands and not waits:
            self._special = special
            return
        info = self.submission([handle for handle, _, _ in commands])
        timeline = make(
            "VkTimelineSemaphoreSubmitInfo",
            signalSemaphoreValueCount=1,
            pSignalSemaphoreValues=self._cell,
            waitSemaphoreValueCount=len(waits),
            pWaitSemaphoreValues=array("uint64_t", [value for _, value, _ in waits]),
        )
        stages = array("VkPipelineStageFlags", [_ALL_STAGES] * len(waits))
        semaphores = array("VkSemaphore", [semaphore for semaphore, _, _ in waits])
        info.pNext, info.waitSemaphoreCount, info.pWaitSemaphores, info.pWaitDstStageMask = timeline, len(waits), semaphores, stages
        value = self._value + 1
        entries = [(value, resources, release) for _, resources, release in commands]
        entries.append((value, [stream for _, _, stream in waits], None))
        # As in `submit`: no calls from here to the submission.
        self._cell[0] = value
        self.pending += entries
        self._gathered, self._waits, self._special = [], [], special
        self._value = value
        code = self._submit(self._queue, 1, info, ffi.NULL)
        if code:
            raise self._undo(code, len(entries))
        if self._validating:
            self.logical.check(0, "")

    def _undo(self, code: int, count: int) -> LaunchError:
        """Undo the bookkeeping of a failed submission, and return its LaunchError. The caller must hold the queue's lock."""
        self._value = self._cell[0] = self._value - 1
        for _ in range(count):
            self.pending.pop()
        return self.logical.driver_error(f"vkQueueSubmit failed on {self.device}", code)

    def flush(self) -> int:
        """Submit the gathered command buffers. Return the semaphore's value when all submissions are done."""
        with self._lock:
            if self._gathered or self._waits:
                self._flush()
            self.logical.check_open()
            return self._value

    def batch(self) -> AbstractContextManager[object]:
        return Batch(self._batches, self._begin_batch, self._end_batch)

    def _begin_batch(self) -> None:
        """Gather the following submissions."""
        with self._lock:
            self._special = True

    def _end_batch(self) -> None:
        """Submit the gathered command buffers, if the outermost batch has ended."""
        with self._lock:
            if not self._batches:
                self._flush()

    # -- waiting

    def synchronize(self) -> None:
        value = self.flush()
        if value:
            self.wait_until(value)

    def _release_finished(self) -> None:
        """Release the resources of finished submissions."""
        out = ffi.new("uint64_t *")
        code = self.logical.calls.vkGetSemaphoreCounterValue(self.logical.handle, self.semaphore, out)
        if code:
            raise self.logical.driver_error(f"vkGetSemaphoreCounterValue failed on {self.device}", code)
        self._release(out[0])

    def _release(self, value: int) -> None:
        pending = self.pending
        finished = []
        with self._lock:
            while pending and pending[0][0] <= value:
                finished.append(pending.popleft())
        # Releasing may run finalizers, so it happens without the lock.
        for _, resources, release in finished:
            if release is not None:
                release(resources)

    def wait_until(self, value: int) -> None:
        """Wait until the semaphore has `value`, and release the finished submissions."""
        self.logical.check_open()
        try:
            waiter = self._waiters.pop()
        except IndexError:
            waiter = Waiter(self.logical, self.semaphore)
        waiter.wait(value)
        self._waiters.append(waiter)
        self._release(value)
        for number, download in tuple(self._downloads.items()):
            if download.value <= value:
                download.finish()
                self._downloads.pop(number, None)

    def finish_later(self, download: Download) -> None:
        """Finish a download when its value is waited for."""
        self._downloads[id(download)] = download

    # -- events

    def record(self) -> VulkanEvent:
        timer = None
        if self.device.physical.timestamp_bits:
            timer = self.logical.commands.timer()
            self.submit(self.submission([timer.handle]), timer.handle, timer)
        return VulkanEvent(self, self.flush(), timer)

    def wait(self, event: Event) -> None:
        event = check_event(event, VulkanEvent, self.device)
        self.logical.check_open()
        if event.stream.logical is not self.logical:
            event.synchronize()  # a semaphore works on its own device only
            return
        with self._lock:
            if self._gathered:
                self._flush()
            if event.stream is not self:
                self._waits.append((event.stream.semaphore, event.value, event.stream))
                self._special = True

    def time_commands(self, handle: Any, resources: Any) -> float:
        """Submit a command buffer, wait, and return the seconds that it took on the device. `resources` are kept alive meanwhile.

        Raises
        ------
        LaunchError
            The device has no timestamps, or the driver fails.
        """
        if not self.device.physical.timestamp_bits:
            raise LaunchError(f"{self.device} does not support timestamps, so a launch cannot be timed", kind="vulkan")
        before, after = self.logical.commands.timer(), self.logical.commands.timer()
        with self.batch():
            for each, owner in ((before.handle, before), (handle, resources), (after.handle, after)):
                self.submit(None, each, owner)  # the batch makes one submission of the three at its end
        self.synchronize()
        return ticks_between(self, before, after)

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


# -- Events: values of a stream's semaphore, and timestamps.


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
