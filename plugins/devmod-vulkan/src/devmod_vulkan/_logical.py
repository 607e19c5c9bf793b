"""An open device: Vulkan's VkDevice with its queues, its memory, and what launches are recorded in.

All of it is destroyed when Python ends, or when the devices are closed, and not before: what arrays, launches and streams give back
by their finalizers is used again.
"""

from __future__ import annotations

import atexit
import os
from collections import deque
from itertools import count
from threading import Lock

from devmod.errors import DeviceNotFoundError, LaunchError
from devmod_vulkan import _driver
from devmod_vulkan._driver import Calls, array, error_name, ffi, instance, make, vk
from devmod_vulkan._memory import CACHED, COHERENT, LOCAL, USAGE, VISIBLE, Heap, find_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_vulkan._device import VulkanDevice

#: How many queues are asked for; streams share them.
_MOST_QUEUES = 4
_RECORDERS = 16
_TIMERS = 64
#: What is open in this process.
_opened: list[Logical] = []


class Queue:
    """A queue of the device. Whoever submits to it holds its lock."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.lock = Lock()


class Recorder:
    """A command buffer. Whoever records it holds the lock, which it shares with the others of its pool, and sets `recording` meanwhile:
    one that was interrupted is not used again.
    """

    __slots__ = ("free", "handle", "lock", "recording")

    def __init__(self, handle: Any, lock: Lock, free: deque[tuple[Any, Lock]]) -> None:
        self.handle = handle
        self.lock = lock
        self.free = free
        self.recording = False

    def __del__(self) -> None:
        if not self.recording:
            self.free.append((self.handle, self.lock))


class Timer:
    """A place for a timestamp, with a command buffer that writes it."""

    __slots__ = ("_free", "handle", "number", "pool")

    def __init__(self, slot: tuple[Any, Any, int], free: deque[tuple[Any, Any, int]]) -> None:
        self.handle, self.pool, self.number = slot
        self._free = free

    def __del__(self) -> None:
        self._free.append((self.handle, self.pool, self.number))


class Logical:
    """An open device.

    Attributes
    ----------
    device, physical
        Whose it is.
    handle, calls
        Vulkan's device, and its functions.
    queues : list of Queue
        Those of its family for launches.
    local : Heap
        The memory of arrays.
    staging : Heap
        Memory that the host sees, for copies and uniform blocks.
    direct : bool
        Whether the host sees the memory of arrays as it sees its own, so that nothing need be staged.
    closed : bool
        Whether nothing may be asked of it: it is destroyed, or this process was forked from the one that opened it.
    """

    def __init__(self, device: VulkanDevice) -> None:
        self.device = device
        self.physical = physical = device.physical
        self.closed = False
        self._closed_because = "Python is ending"
        self.validating = _driver.validating()
        self._lock = Lock()
        self._number = count()
        # What is destroyed when the device is closed, in the order of making: by the function that destroys it, and its address.
        self._owned: dict[tuple[str, int], Any] = {}
        self._recorders: deque[tuple[Any, Lock]] = deque()
        self._timers: deque[tuple[Any, Any, int]] = deque()
        #: Streams that are there, by the number of each, and what those that are gone have left: semaphore, last value, what is held.
        self.streams: dict[int, Any] = {}
        #: What the submissions of each stream hold, by its number: held here too, lest it be collected in a cycle with the stream, whose
        #: finalizers run in any order.
        self.held: dict[int, deque[Any]] = {}
        self.orphans: deque[tuple[Any, int, Any]] = deque()
        self.handle = self._open()
        self.calls = Calls(instance().handle, self.handle)
        self.queues = [Queue(self._queue(number)) for number in range(min(physical.queue_count, _MOST_QUEUES))]
        self._choose_memory()
        atexit.register(self.close)
        _opened.append(self)

    def _open(self) -> Any:
        physical = self.physical
        queues = min(physical.queue_count, _MOST_QUEUES)
        extensions = [ffi.new("char[]", name.encode()) for name in physical.needed_extensions]
        info = make(
            "VkDeviceCreateInfo",
            pNext=physical.feature_chain(physical.features)["10"],
            queueCreateInfoCount=1,
            pQueueCreateInfos=make(
                "VkDeviceQueueCreateInfo",
                queueFamilyIndex=physical.queue_family,
                queueCount=queues,
                pQueuePriorities=array("float", [1.0] * queues),
            ),
            enabledExtensionCount=len(extensions),
            ppEnabledExtensionNames=array("char *", extensions),
        )
        out = ffi.new("VkDevice *")
        code = instance().calls.vkCreateDevice(physical.handle, info, ffi.NULL, out)
        if code:
            raise DeviceNotFoundError(f"{self.device} cannot be opened ({error_name(code)})", kind="vulkan")
        return out[0]

    def _queue(self, number: int) -> Any:
        out = ffi.new("VkQueue *")
        self.calls.vkGetDeviceQueue(self.handle, self.physical.queue_family, number, out)
        return out[0]

    def _choose_memory(self) -> None:
        bits = self._memory_bits()
        # What the buffers cannot be in has no flags here.
        types = [(flags if bits >> number & 1 else 0, size) for number, (flags, size) in enumerate(self.physical.memory_types)]
        seen = VISIBLE | COHERENT
        local = find_type(types, (LOCAL | seen | CACHED, 0)) if self.physical.shares_memory else 0
        self.direct = self.physical.shares_memory and types[local][0] & (seen | CACHED) == seen | CACHED
        if not self.direct:
            local = find_type(types, (LOCAL, VISIBLE), (LOCAL, 0), (seen, 0))
        self.local = Heap(self, local, mapped=self.direct)
        self.staging = Heap(self, find_type(types, (seen | CACHED, LOCAL), (seen | CACHED, 0), (seen, 0)), mapped=True)

    def _memory_bits(self) -> int:
        """The types of memory that our buffers can be in, a bit each."""
        buffer = self.created("vkCreateBuffer", "VkBuffer", make("VkBufferCreateInfo", size=256, usage=USAGE))
        needs = ffi.new("VkMemoryRequirements *")
        self.calls.vkGetBufferMemoryRequirements(self.handle, buffer, needs)
        self.calls.vkDestroyBuffer(self.handle, buffer, ffi.NULL)
        return int(needs.memoryTypeBits)

    # -- errors

    def check_open(self) -> None:
        """LaunchError where the device is closed."""
        if self.closed:
            raise LaunchError(f"{self.device} is closed: {self._closed_because}", kind="vulkan")

    def abandon(self) -> None:
        """Leave the device to the process that this one was forked from: the driver's threads and locks stayed there."""
        self.closed = True
        self._closed_because = (
            "it was opened before this process was forked, and no driver can be used on both sides of a fork; start processes that use it "
            "with multiprocessing's 'spawn' or 'forkserver'"
        )

    def failed(self, what: str, code: int) -> LaunchError:
        """The LaunchError for a call that the driver refused; a lost device is told of as such."""
        if code == vk.VK_ERROR_DEVICE_LOST:
            what = (
                f"{self.device} is lost: a launch ran too long or reached memory that is not its own, or the driver was reset. What was in "
                "its memory is gone, and it can be used again from a new process"
            )
        message = LaunchError(f"{what} ({error_name(code)})", kind="vulkan")
        if self.validating:
            _driver.log_messages()
        return message

    def check(self, code: int, what: str) -> None:
        """LaunchError where the driver refused a call, or the validation layers object to it."""
        if code < 0:
            raise self.failed(f"{self.device} {what}", code)
        if self.validating:
            _driver.raise_messages(f"what {self.device} was asked for")

    # -- what is made and owned

    def created(self, function: str, kind: str, info: Any) -> Any:
        """The handle that one of Vulkan's vkCreate functions gives.

        Raises
        ------
        LaunchError
            The driver refuses.
        """
        self.check_open()
        out = ffi.new(f"{kind} *")
        self.check(getattr(self.calls, function)(self.handle, info, ffi.NULL, out), f"refused {function}")
        return out[0]

    def owned(self, function: str, kind: str, info: Any) -> Any:
        """As `created`; it is destroyed when the device is closed."""
        return self.own(function.replace("Create", "Destroy"), self.created(function, kind, info))

    def own(self, function: str, handle: Any) -> Any:
        """See to it that a handle is destroyed with that function when the device is closed."""
        self._owned[function, int(ffi.cast("uintptr_t", handle))] = handle
        return handle

    def destroy(self, function: str, handle: Any) -> None:
        """Destroy an owned handle now, unless the device is closed and it is gone."""
        if self._owned.pop((function, int(ffi.cast("uintptr_t", handle))), None) is not None and not self.closed:
            getattr(self.calls, function)(self.handle, handle, ffi.NULL)

    def recorder(self) -> Recorder:
        """A command buffer for the caller alone."""
        try:
            handle, lock = self._recorders.popleft()
        except IndexError:
            lock = Lock()
            handle, *others = self.command_buffers(_RECORDERS, resettable=True)
            self._recorders.extend((each, lock) for each in others)
        return Recorder(handle, lock, self._recorders)

    def command_buffers(self, number: int, *, resettable: bool = False) -> list[Any]:
        """So many command buffers in a pool of their own."""
        flags = vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT if resettable else 0
        info = make("VkCommandPoolCreateInfo", queueFamilyIndex=self.physical.queue_family, flags=flags)
        pool = self.owned("vkCreateCommandPool", "VkCommandPool", info)
        made = ffi.new("VkCommandBuffer[]", number)
        wanted = make("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=number)
        self.check(self.calls.vkAllocateCommandBuffers(self.handle, wanted, made), "gives no command buffers")
        return list(made)

    def timer(self) -> Timer:
        """A place for a timestamp, for the caller alone."""
        try:
            slot = self._timers.popleft()
        except IndexError:
            slot, *others = self._make_timers()
            self._timers.extend(others)
        return Timer(slot, self._timers)

    def _make_timers(self) -> list[tuple[Any, Any, int]]:
        info = make("VkQueryPoolCreateInfo", queryType=vk.VK_QUERY_TYPE_TIMESTAMP, queryCount=_TIMERS)
        pool = self.owned("vkCreateQueryPool", "VkQueryPool", info)
        made, begin, calls = [], make("VkCommandBufferBeginInfo"), self.calls
        for number, handle in enumerate(self.command_buffers(_TIMERS)):
            self.check(calls.vkBeginCommandBuffer(handle, begin), "cannot record")
            calls.vkCmdResetQueryPool(handle, pool, number, 1)
            calls.vkCmdWriteTimestamp(handle, vk.VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, number)
            self.check(calls.vkEndCommandBuffer(handle), "cannot record")
            made.append((handle, pool, number))
        return made

    # -- all streams

    def next_queue(self) -> tuple[int, Queue]:
        """A number for a new stream, and its queue: the first stream has the first queue, the others take the rest in turns."""
        self.sweep()
        with self._lock:
            number = next(self._number)
        return number, self.queues[0 if number == 0 or len(self.queues) == 1 else 1 + (number - 1) % (len(self.queues) - 1)]

    def sweep(self) -> None:
        """Destroy what streams that are gone have left, where it is done."""
        self.check_open()
        out = ffi.new("uint64_t *")
        for _ in range(len(self.orphans)):
            try:
                semaphore, value, held = self.orphans.popleft()
            except IndexError:  # another thread was faster
                return
            if self.calls.vkGetSemaphoreCounterValue(self.handle, semaphore, out) == 0 and out[0] >= value:
                self.calls.vkDestroySemaphore(self.handle, semaphore, ffi.NULL)
                held.clear()
            else:
                self.orphans.append((semaphore, value, held))

    def finish(self) -> None:
        """Wait for all streams, those that are gone too; LaunchError for what the driver reports."""
        from devmod_vulkan._stream import wait_for

        self.check_open()
        for reference in list(self.streams.values()):
            stream = reference()
            if stream is not None:
                stream.synchronize()
        while self.orphans:
            try:
                semaphore, value, held = self.orphans.popleft()
            except IndexError:  # another thread was faster
                break
            wait_for(self, semaphore, value)
            self.calls.vkDestroySemaphore(self.handle, semaphore, ffi.NULL)
            held.clear()

    def close(self) -> None:
        """Wait for the device and destroy everything; nothing of it can be used afterwards."""
        if self.closed:
            return
        for queue in self.queues:
            queue.lock.acquire()
        self.closed = True
        for queue in self.queues:
            queue.lock.release()
        calls = self.calls
        calls.vkDeviceWaitIdle(self.handle)
        for reference in self.streams.values():
            stream = reference()
            if stream is not None:
                self.orphans.append((stream.semaphore, 0, stream.held))
        while self.orphans:
            semaphore, _, held = self.orphans.popleft()
            held.clear()
            calls.vkDestroySemaphore(self.handle, semaphore, ffi.NULL)
        while self._owned:
            (function, _), handle = self._owned.popitem()  # the last that was made first
            getattr(calls, function)(self.handle, handle, ffi.NULL)
        self.local.close()
        self.staging.close()
        calls.vkDestroyDevice(self.handle, ffi.NULL)
        _driver.log_messages()


# -- forks


def _before_fork() -> None:
    # So that no queue is locked in the child for ever. A lock that is not to be had is that of the thread that forks.
    _locked.extend(queue.lock for logical in _opened for queue in logical.queues if queue.lock.acquire(timeout=1))


def _after_fork() -> None:
    while _locked:
        _locked.pop().release()


def _after_fork_in_child() -> None:
    while _opened:
        _opened.pop().abandon()
    _after_fork()


_locked: list[Lock] = []
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
