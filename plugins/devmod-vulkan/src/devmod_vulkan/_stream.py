"""Streams: a timeline semaphore each, whose value counts what was submitted; and events, which are values of it.

Several streams may share a queue of the device. What is submitted to one stream runs in its order, for every command buffer
begins and ends with a barrier against all that was submitted before.
"""

from __future__ import annotations

import weakref
from collections import deque

from devmod import Event, Stream
from devmod.backend import begun_at, waited_for
from devmod.errors import LaunchError
from devmod_vulkan._driver import array, ffi, make, vk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from devmod_vulkan._device import VulkanDevice
    from devmod_vulkan._logical import Logical, Timer

#: After so many submissions it is looked which are done.
_LOOK_AFTER = 32
#: A wait is cut into pieces of so many nanoseconds, so that Ctrl-C is heard.
_PIECE = 200_000_000
_ALL_STAGES = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT


class VulkanStream(Stream):
    """A stream.

    Attributes
    ----------
    number : int
        Its number among the streams that the device has had.
    semaphore
        Vulkan's timeline semaphore.
    held
        What submissions that may not be done hold, each with its value.
    """

    device: VulkanDevice

    def __init__(self, device: VulkanDevice, logical: Logical) -> None:
        self.device = device
        self.logical = logical
        self.number, queue = logical.next_queue()
        self._queue, self._lock = queue.handle, queue.lock
        self._submit = logical.calls.vkQueueSubmit
        self._validating = logical.validating
        kind = make("VkSemaphoreTypeCreateInfo", semaphoreType=vk.VK_SEMAPHORE_TYPE_TIMELINE)
        self.semaphore = logical.created("vkCreateSemaphore", "VkSemaphore", make("VkSemaphoreCreateInfo", pNext=kind))
        self.held: deque[tuple[int, Any, Callable[[Any], object] | None]] = deque()
        self._value = 0
        # Every submission of the stream points at these: the value that it sets is written into the cell under the queue's lock.
        self._cell = ffi.new("uint64_t *")
        self._semaphores = ffi.new("VkSemaphore *", self.semaphore)
        self._timeline = make("VkTimelineSemaphoreSubmitInfo", signalSemaphoreValueCount=1, pSignalSemaphoreValues=self._cell)
        self._waiters: list[Waiter] = []
        self._waits: list[tuple[Any, int, Any]] = []
        self._gathered: list[tuple[Any, Any, Callable[[Any], object] | None]] = []
        self._batches = 0
        #: Whether a submission has to go the long way: something is waited for or gathered.
        self._special = False
        logical.held[self.number] = self.held
        logical.streams[self.number] = weakref.ref(self)

    def __del__(self) -> None:
        if hasattr(self, "_special"):  # else it was never made
            logical = self.logical
            logical.streams.pop(self.number, None)
            if not logical.closed:
                logical.orphans.append((self.semaphore, self._value, self.held))
            logical.held.pop(self.number, None)

    # -- submitting

    def submission(self, handles: Sequence[Any]) -> Any:
        """A VkSubmitInfo of this stream for command buffers, to be given to `submit` again and again."""
        return make(
            "VkSubmitInfo",
            pNext=self._timeline,
            commandBufferCount=len(handles),
            pCommandBuffers=array("VkCommandBuffer", list(handles)),
            signalSemaphoreCount=1,
            pSignalSemaphores=self._semaphores,
        )

    def submit(self, info: Any, handle: Any, held: Any, done: Callable[[Any], object] | None = None) -> None:
        """Submit a command buffer.

        Parameters
        ----------
        info
            What `submission` made of it.
        handle
            The command buffer.
        held
            What is to live until it is done.
        done
            What is called with it then.

        Raises
        ------
        LaunchError
            The driver refuses.
        """
        with self._lock:
            if self._special or self._validating or self.logical.closed:
                self.logical.check_open()
                self._gathered.append((handle, held, done))
                if self._batches:
                    return
                self._flush()
                value = self._value
            else:
                value = self._cell[0] = self._value + 1
                # Python hears Ctrl-C where a call has returned. So all that belongs to the submission is written down before it, and
                # without a call: an interrupt finds either both or neither.
                self.held += ((value, held, done),)
                self._value = value
                code = self._submit(self._queue, 1, info, ffi.NULL)
                if code:
                    raise self._refused(code, 1)
        if not value % _LOOK_AFTER:
            self._look()

    def _flush(self) -> None:
        """Submit what is gathered. The queue's lock is held."""
        self.logical.check_open()
        gathered, waits = self._gathered, self._waits
        if not gathered and not waits:
            self._special = self._batches > 0
            return
        info = self.submission([handle for handle, _, _ in gathered])
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
        value = self._cell[0] = self._value + 1
        entries = [(value, held, done) for _, held, done in gathered]
        entries.append((value, [stream for _, _, stream in waits], None))
        # As in `submit`: no call from here on.
        self.held += entries
        self._gathered, self._waits, self._special = [], [], self._batches > 0
        self._value = value
        code = self._submit(self._queue, 1, info, ffi.NULL)
        if code:
            raise self._refused(code, len(entries))
        if self._validating:
            self.logical.check(0, "")

    def _refused(self, code: int, count: int) -> LaunchError:
        """The LaunchError of a submission that the driver did not take: it never was, nor what it was to hold. The queue's lock is held."""
        self._value -= 1
        for _ in range(count):
            self.held.pop()
        return self.logical.failed(f"{self.device} refused a submission", code)

    def flush(self) -> int:
        """Submit what is gathered; gives the value that the semaphore has when all is done."""
        with self._lock:
            if self._gathered or self._waits:
                self._flush()
            self.logical.check_open()
            return self._value

    def batch(self) -> AbstractContextManager[object]:
        return _Batch(self)

    def enter_batch(self) -> None:
        """Gather what is submitted from now on."""
        with self._lock:
            self._batches += 1
            self._special = True

    def leave_batch(self) -> None:
        """Submit what was gathered, when the outermost batch ends."""
        with self._lock:
            self._batches -= 1
            if not self._batches:
                self._flush()

    # -- waiting

    def synchronize(self) -> None:
        value = self.flush()
        if value:
            self.wait_until(value)

    def _look(self) -> None:
        """Let go of what is done."""
        out = ffi.new("uint64_t *")
        code = self.logical.calls.vkGetSemaphoreCounterValue(self.logical.handle, self.semaphore, out)
        if code:
            raise self.logical.failed(f"{self.device} cannot be asked", code)
        self._release(out[0])

    def _release(self, value: int) -> None:
        held = self.held
        done = []
        with self._lock:
            while held and held[0][0] <= value:
                done.append(held.popleft())
        # What is let go of here runs finalizers: not under the lock.
        for _, what, then in done:
            if then is not None:
                then(what)

    def wait_until(self, value: int) -> None:
        """Wait until the semaphore has that value, and let go of what is done then."""
        self.logical.check_open()
        try:
            waiter = self._waiters.pop()
        except IndexError:
            waiter = Waiter(self.logical, self.semaphore)
        waiter.wait(value)
        self._waiters.append(waiter)
        self._release(value)

    # -- events

    def record(self) -> VulkanEvent:
        timer = None
        if self.device.physical.timestamp_bits:
            timer = self.logical.timer()
            self.submit(self.submission([timer.handle]), timer.handle, timer)
        return VulkanEvent(self, self.flush(), timer)

    def wait(self, event: Event) -> None:
        event = waited_for(event, VulkanEvent, self.device)
        if event.stream.logical is not self.logical:
            event.synchronize()  # a semaphore is its device's
            return
        with self._lock:
            if self._gathered:
                self._flush()
            if event.stream is not self:
                self._waits.append((event.stream.semaphore, event.value, event.stream))
                self._special = True

    def timed(self, handle: Any, held: Any) -> float:
        """Submit a command buffer and wait; the seconds that it took on the device. What it uses is held in `held`.

        Raises
        ------
        LaunchError
            The device has no clock, or the driver refuses.
        """
        if not self.device.physical.timestamp_bits:
            raise LaunchError(f"{self.device} has no timestamps, so a launch on it cannot be timed", kind="vulkan")
        before, after = self.logical.timer(), self.logical.timer()
        with self.batch():
            for each, what in ((before.handle, before), (handle, held), (after.handle, after)):
                self.submit(None, each, what)  # in a batch, each is part of a submission that is made at its end
        self.synchronize()
        return ticks_between(self, before, after)

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


class _Batch:
    """While the body runs, what is submitted to a stream is gathered."""

    def __init__(self, stream: VulkanStream) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        self._stream.enter_batch()

    def __exit__(self, *_: object) -> None:
        self._stream.leave_batch()


class VulkanEvent(Event):
    """A value of a stream's semaphore, and a timestamp where the device has a clock."""

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
        earlier = begun_at(earlier, VulkanEvent, self.device)
        if self.timer is None or earlier.timer is None:
            raise LaunchError(f"{self.device} has no timestamps, so the time between events is not known", kind="vulkan")
        earlier.synchronize()
        self.synchronize()
        return ticks_between(self.stream, earlier.timer, self.timer)

    def __repr__(self) -> str:
        return f"<Event of {self.device}>"


def ticks_between(stream: VulkanStream, before: Timer, after: Timer) -> float:
    """The seconds between two timestamps that are written."""
    logical, physical = stream.logical, stream.device.physical
    logical.check_open()
    found = []
    out = ffi.new("uint64_t *")
    flags = vk.VK_QUERY_RESULT_64_BIT | vk.VK_QUERY_RESULT_WAIT_BIT
    for timer in (before, after):
        code = logical.calls.vkGetQueryPoolResults(logical.handle, timer.pool, timer.number, 1, 8, out, 8, flags)
        logical.check(code, "gives no time of an event")
        found.append(out[0])
    ticks = found[1] - found[0]
    # The counter has so many bits and begins again at zero.
    span = 1 << physical.timestamp_bits
    ticks = (ticks + span // 2) % span - span // 2
    return float(ticks * physical.timestamp_period * 1e-9)


def wait_for(logical: Logical, semaphore: Any, value: int) -> None:
    """Wait until a semaphore has a value; LaunchError for what the driver reports."""
    Waiter(logical, semaphore).wait(value)


class Waiter:
    """Waits for a semaphore, for one thread at a time: making Vulkan's structures takes longer than a short launch leaves to wait."""

    __slots__ = ("_cell", "_device", "_info", "_logical", "_wait")

    def __init__(self, logical: Logical, semaphore: Any) -> None:
        self._logical = logical
        self._cell = ffi.new("uint64_t *")
        self._info = make("VkSemaphoreWaitInfo", semaphoreCount=1, pSemaphores=ffi.new("VkSemaphore *", semaphore), pValues=self._cell)
        self._wait, self._device = logical.calls.vkWaitSemaphores, logical.handle

    def wait(self, value: int) -> None:
        """Wait until the semaphore has that value."""
        self._cell[0] = value
        code = self._wait(self._device, self._info, _PIECE)
        while code == vk.VK_TIMEOUT:
            code = self._wait(self._device, self._info, _PIECE)
        if code or self._logical.validating:
            self._logical.check(code, "reports a fault of a launch")
