"""An open device: the VkDevice with its queues, memory and streams.

All of it is destroyed at interpreter shutdown, unless a daemon thread may use it. Until then, the resources of collected arrays,
launches and streams are reused.
"""

from __future__ import annotations

import atexit
from collections import deque
from itertools import count
from threading import Lock, RLock

from devmod.errors import DeviceNotFoundError, LaunchError
from devmod_runtime import check_driver, fork_safe, lend, open_driver
from devmod_vulkan import _driver
from devmod_vulkan._commands import CommandPools
from devmod_vulkan._driver import Calls, array, error_name, ffi, instance, make, vk
from devmod_vulkan._memory import CACHED, COHERENT, LOCAL, USAGE, VISIBLE, Heap, find_type
from devmod_vulkan._wait import wait_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_runtime import Lease
    from devmod_vulkan._device import VulkanDevice

#: The most queues to create. Streams share them.
_MOST_QUEUES = 4
#: The devices that are open in this process.
_open_devices: list[Logical] = []


class Queue:
    """A queue of the device. Submitting to it requires its lock."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.lock = fork_safe(Lock())


class Logical:
    """An open device.

    Attributes
    ----------
    device, physical
        The device and its properties.
    handle, calls
        The VkDevice and its functions.
    queues : list of Queue
        The compute queues.
    local : Heap
        The memory of arrays.
    staging : Heap
        Host-visible memory, for copies and uniform blocks.
    commands : CommandPools
        The command buffers and the timestamps.
    direct : bool
        Whether the memory of arrays is host-visible, coherent and cached, so that copies need no staging.
    closed : bool
        Whether the device must not be used: it is destroyed, or this process was forked from the one that opened it.
    """

    def __init__(self, device: VulkanDevice) -> None:
        open_driver("vulkan", _close_in_child)
        self.device = device
        self.physical = physical = device.physical
        self.closed = False
        self._closed_because = "the interpreter is shutting down"
        self.validating = _driver.validating()
        self._number = count()
        # The handles to destroy at close, in the order of creation. The keys are the destroying function and the address.
        self._owned: dict[tuple[str, int], Any] = {}
        self.commands = CommandPools(self)
        #: The leases of the streams by number: semaphore, cell with the last value, resources of the submissions, downloads.
        #: These references are needed because a stream may be collected before its submissions are done.
        self.streams: dict[int, Lease] = {}
        #: Held from the check of a collected stream's semaphore to its removal: two threads may create streams at once.
        self._removal = fork_safe(RLock())
        #: The semaphores of removed streams. They are used again and not destroyed: the queue's thread of Mesa may still lock a semaphore
        #: whose last value another thread has seen, and hangs if it is destroyed.
        self._semaphores: deque[Any] = deque()
        #: The leases of pipelines: the handles to destroy with each.
        self._pipelines: dict[int, Lease] = {}
        self._ended_pipelines: deque[Lease] = deque()
        self.handle = self._open()
        self.calls = Calls(instance().handle, self.handle)
        self.queues = [Queue(self._queue(number)) for number in range(min(physical.queue_count, _MOST_QUEUES))]
        self._choose_memory()
        atexit.register(self.close)
        _open_devices.append(self)

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
        # Memory types that the buffers cannot use get no flags.
        types = [(flags if bits >> number & 1 else 0, size) for number, (flags, size) in enumerate(self.physical.memory_types)]
        mappable = VISIBLE | COHERENT
        local = find_type(types, (LOCAL | mappable | CACHED, 0)) if self.physical.shares_memory else 0
        self.direct = self.physical.shares_memory and types[local][0] & (mappable | CACHED) == mappable | CACHED
        if not self.direct:
            local = find_type(types, (LOCAL, VISIBLE), (LOCAL, 0), (mappable, 0))
        self.local = Heap(self, local, mapped=self.direct)
        self.staging = Heap(self, find_type(types, (mappable | CACHED, LOCAL), (mappable | CACHED, 0), (mappable, 0)), mapped=True)

    def _memory_bits(self) -> int:
        """Return the memory types that devmod's buffers can use, a bit each."""
        buffer = self.create("vkCreateBuffer", "VkBuffer", make("VkBufferCreateInfo", size=256, usage=USAGE))
        requirements = ffi.new("VkMemoryRequirements *")
        self.calls.vkGetBufferMemoryRequirements(self.handle, buffer, requirements)
        self.calls.vkDestroyBuffer(self.handle, buffer, ffi.NULL)
        return int(requirements.memoryTypeBits)

    # -- errors

    def check_open(self) -> None:
        """Raise LaunchError if the device is closed."""
        if self.closed:
            check_driver("vulkan")
            raise LaunchError(f"{self.device} is closed: {self._closed_because}", kind="vulkan")

    def driver_error(self, subject: str, code: int) -> LaunchError:
        """Return the LaunchError for a failed driver call. The text for a lost device replaces `subject`."""
        if code in _driver.MEMORY_ERRORS:
            return self.device.memory_error(0, f"{subject} ({error_name(code)})")
        if code == vk.VK_ERROR_DEVICE_LOST:
            subject = (
                f"{self.device} is lost: a launch ran too long or accessed memory out of bounds, or the driver was reset. The contents of "
                "its memory are lost. Start a new process to use the device again"
            )
        message = LaunchError(f"{subject} ({error_name(code)})", kind="vulkan")
        if self.validating:
            _driver.log_messages()
        return message

    def check(self, code: int, action: str) -> None:
        """Raise LaunchError if a driver call failed, or if the validation layers report errors."""
        if code < 0:
            raise self.driver_error(f"{self.device} {action}", code)
        if self.validating:
            _driver.raise_messages(f"calls to {self.device}")

    # -- Vulkan's objects

    def create(self, function: str, kind: str, info: Any) -> Any:
        """Return the handle that a vkCreate function creates.

        Raises
        ------
        LaunchError
            The function fails.
        """
        self.check_open()
        out = ffi.new(f"{kind} *")
        self.check(getattr(self.calls, function)(self.handle, info, ffi.NULL, out), f"failed in {function}")
        return out[0]

    def create_owned(self, function: str, kind: str, info: Any) -> Any:
        """Create a handle as `create` does, and destroy it when the device is closed."""
        return self.own(function.replace("Create", "Destroy"), self.create(function, kind, info))

    def own(self, function: str, handle: Any) -> Any:
        """Destroy a handle with `function` when the device is closed. Return the handle."""
        self._owned[function, int(ffi.cast("uintptr_t", handle))] = handle
        return handle

    def destroy(self, function: str, handle: Any) -> None:
        """Destroy an owned handle now, unless closing the device has destroyed it."""
        if self._owned.pop((function, int(ffi.cast("uintptr_t", handle))), None) is not None and not self.closed:
            getattr(self.calls, function)(self.handle, handle, ffi.NULL)

    # -- all streams

    def next_queue(self) -> tuple[int, Queue]:
        """Return a number and a queue for a new stream. The first stream uses the first queue; the others share the rest in turn."""
        self.sweep()
        number = next(self._number)
        return number, self.queues[0 if number == 0 or len(self.queues) == 1 else 1 + (number - 1) % (len(self.queues) - 1)]

    def take_semaphore(self) -> tuple[Any, int]:
        """Return a timeline semaphore that no stream uses, and its value."""
        try:
            semaphore = self._semaphores.pop()
        except IndexError:
            kind = make("VkSemaphoreTypeCreateInfo", semaphoreType=vk.VK_SEMAPHORE_TYPE_TIMELINE)
            return self.create_owned("vkCreateSemaphore", "VkSemaphore", make("VkSemaphoreCreateInfo", pNext=kind)), 0
        value = ffi.new("uint64_t *")
        self.check(self.calls.vkGetSemaphoreCounterValue(self.handle, semaphore, value), "failed in vkGetSemaphoreCounterValue")
        return semaphore, value[0]

    def lend_pipeline(self, pipeline: Any, owned: list[tuple[str, Any]]) -> object:
        """Destroy the handles in `owned` when `pipeline` is collected. The pipeline must reference the returned token."""
        lease = lend(pipeline, owned, self._ended_pipelines.append)
        self._pipelines[id(lease)] = lease
        return lease.token

    def sweep(self) -> None:
        """Remove the collected streams with no pending work, and destroy the handles of collected pipelines."""
        self.check_open()
        out = ffi.new("uint64_t *")
        for number, lease in tuple(self.streams.items()):
            if lease.expired:
                with self._removal:
                    semaphore, cell, *_ = lease.value
                    if number not in self.streams:  # another thread was faster
                        continue
                    if self.calls.vkGetSemaphoreCounterValue(self.handle, semaphore, out) == 0 and out[0] >= cell[0]:
                        self._remove_stream(number)
        self._destroy_pipelines()

    def _remove_stream(self, number: int) -> None:
        """Remove a collected stream, whose semaphore another one may then use. The caller holds `_removal`."""
        lease = self.streams.pop(number, None)
        if lease is not None:
            for download in tuple(lease.value[3].values()):
                download.finish()
            self._semaphores.append(lease.value[0])

    def _destroy_pipelines(self) -> None:
        for _ in range(len(self._ended_pipelines)):
            try:
                lease = self._ended_pipelines.popleft()
            except IndexError:  # another thread was faster
                return
            if lease.expired:
                self._pipelines.pop(id(lease), None)
                for function, handle in reversed(lease.value):
                    self.destroy(function, handle)
            else:
                self._ended_pipelines.append(lease)  # a finalizer uses the pipeline, or has created a new reference

    def finish(self) -> None:
        """Wait for all streams, including collected ones. Raise LaunchError if the driver reports an error."""
        self.check_open()
        for number, lease in tuple(self.streams.items()):
            stream = lease()
            if stream is not None:
                stream.synchronize()
            elif lease.expired:
                with self._removal:
                    semaphore, cell, *_ = lease.value
                    if number in self.streams:  # else another thread was faster
                        wait_for(self, semaphore, cell[0])
                        self._remove_stream(number)
        self._destroy_pipelines()

    def close(self) -> None:
        """Wait for the device, and destroy all objects unless another thread may use them. The device cannot be used afterwards."""
        if self.closed:
            return
        self.closed = True
        for queue in self.queues:
            with queue.lock:  # wait for a submission in another thread
                pass
        in_use = instance().find_users()  # before the wait, which may let such a thread end
        calls = self.calls
        calls.vkDeviceWaitIdle(self.handle)
        if in_use:
            _driver.log_messages()
            return
        while self.streams:
            self.streams.popitem()[1].value[2].clear()  # the submissions
        while self._owned:
            (function, _), handle = self._owned.popitem()  # in reverse order of creation
            getattr(calls, function)(self.handle, handle, ffi.NULL)
        self.local.close()
        self.staging.close()
        calls.vkDestroyDevice(self.handle, ffi.NULL)
        _driver.log_messages()


def _close_in_child() -> None:
    # The driver's threads exist only in the parent.
    while _open_devices:
        _open_devices.pop().closed = True
