"""An open device: the VkDevice with its queues, memory and streams.

All of it is destroyed at interpreter shutdown, unless a daemon thread may use it. Until then, the
resources of collected arrays, launches and streams are reused.
"""

from __future__ import annotations

import atexit
import weakref
from collections import deque
from itertools import count

from devmod.backend import Once, RLock
from devmod.errors import DeviceNotFoundError, LaunchError
from devmod_runtime import Lease, Pool, check_driver, fork_safe, lend, open_driver, wait_at_end
from devmod_vulkan import _driver
from devmod_vulkan._driver import Calls, array, error_name, ffi, instance, make, vk
from devmod_vulkan._memory import (
    ADDRESS_FLAG,
    ADDRESS_USAGE,
    CACHED,
    COHERENT,
    LOCAL,
    USAGE,
    VISIBLE,
    Block,
    Memory,
    find_type,
    usable_types,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from devmod import Device
    from devmod_vulkan._physical import Physical


#: The size of a block of memory, unless the heap is small.
_BLOCK = 64 << 20
#: The most queues to create. Streams share them.
_MOST_QUEUES = 4

_SHADER = vk.VK_ACCESS_SHADER_READ_BIT | vk.VK_ACCESS_SHADER_WRITE_BIT
_MOVE = vk.VK_ACCESS_TRANSFER_READ_BIT | vk.VK_ACCESS_TRANSFER_WRITE_BIT
_WRITES = vk.VK_ACCESS_SHADER_WRITE_BIT | vk.VK_ACCESS_TRANSFER_WRITE_BIT
#: The arguments of the barriers before each launch and copy, and at the end of every command
#: buffer. They make all earlier writes visible to all later commands.
_NO_MORE = (0, ffi.NULL, 0, ffi.NULL)
_FIRST = make(
    "VkMemoryBarrier",
    srcAccessMask=_WRITES,
    dstAccessMask=_SHADER | _MOVE | vk.VK_ACCESS_UNIFORM_READ_BIT,
)
_LAST = make(
    "VkMemoryBarrier",
    srcAccessMask=_WRITES,
    dstAccessMask=_SHADER | _MOVE | vk.VK_ACCESS_HOST_READ_BIT,
)

ONE_TIME = make("VkCommandBufferBeginInfo", flags=vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)
#: For prepared launches, which may be submitted again before they are done.
REUSABLE = make("VkCommandBufferBeginInfo", flags=vk.VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT)
#: The number of command buffers, and of timestamps, that are created at once.
_RECORDERS = 16
_TIMERS = 64

#: The nanoseconds of one wait. Waits are split, so that Ctrl-C interrupts them.
_WAIT_SLICE = 200_000_000


class Queue:
    """A queue of the device. Submitting to it requires its lock."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.lock = fork_safe(RLock())


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
    image_heaps : dict
        The memory of images, by the index of its type.
    samplers : Once
        The samplers.
    commands : CommandPools
        The command buffers and the timestamps.
    direct : bool
        Whether the memory of arrays is host-visible, coherent and cached, so that copies need no
        staging.
    closed : bool
        Whether the device must not be used: it is destroyed, or this process was forked from the
        one that opened it.
    """

    def __init__(self, device: Device, physical: Physical) -> None:
        open_driver("vulkan", _close_in_child)
        self.device = device
        self.physical = physical
        self.closed = False
        self.validating = _driver.validating()
        self._number = count()
        # The handles to destroy at close, in the order of creation. The keys are the destroying
        # function and the address.
        self._owned: dict[tuple[str, int], Any] = {}
        self.commands = CommandPools(self)
        #: The leases of the streams by number: semaphore, cell with the last value, resources of
        #: the submissions, downloads. These references are needed because a stream may be collected
        #: before its submissions are done.
        self.streams: dict[int, Lease] = {}
        #: Held from the check of a collected stream's semaphore to its removal: two threads may
        #: create streams at once.
        self._removal = fork_safe(RLock())
        #: The semaphores of removed streams. They are used again and not destroyed: the queue's
        #: thread of Mesa may still lock a semaphore whose last value another thread has seen, and
        #: hangs if it is destroyed.
        self._semaphores: deque[Any] = deque()
        #: The leases of pipelines and images: the handles to destroy with each, and the memory to
        #: free then.
        self._users: dict[int, Lease] = {}
        self._ended_users: deque[Lease] = deque()
        self._has_addresses = "12.bufferDeviceAddress" in physical.features
        self.handle = self._open()
        self.calls = Calls(None, self.handle)
        self.queues = [Queue(self._queue(number)) for number in range(self._queue_count)]
        self._choose_memory()
        self.image_heaps: dict[int, Heap] = {}
        self.samplers = Once()
        self._close_at_exit()

    def _close_at_exit(self) -> None:
        atexit.register(self.close)

    @property
    def _queue_count(self) -> int:
        return min(self.physical.queue_count, _MOST_QUEUES)

    def _open(self) -> Any:
        physical = self.physical
        queues = self._queue_count
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
        owner = instance()
        owner.devices.append(self)  # before: an interrupt may land when the call returns
        code = owner.calls.vkCreateDevice(physical.handle, info, ffi.NULL, out)
        if code:
            owner.devices.remove(self)
            raise DeviceNotFoundError(
                f"{self.device} cannot be opened ({error_name(code)})", kind="vulkan"
            )
        return out[0]

    def _queue(self, number: int) -> Any:
        out = ffi.new("VkQueue *")
        self.calls.vkGetDeviceQueue(self.handle, self.physical.queue_family, number, out)
        return out[0]

    def _choose_memory(self) -> None:
        types = usable_types(self.physical.memory_types, self._memory_bits())
        mappable = VISIBLE | COHERENT
        local = 0
        self.direct = False
        if self.physical.shares_memory:
            local = find_type(types, (LOCAL | mappable | CACHED, 0))
            self.direct = types[local][0] & (mappable | CACHED) == mappable | CACHED
        if not self.direct:
            local = find_type(types, (LOCAL, VISIBLE), (LOCAL, 0), (mappable, 0))
        self.local = Heap(self, local, mapped=self.direct, addresses=self._has_addresses)
        self.staging = Heap(
            self,
            find_type(types, (mappable | CACHED, LOCAL), (mappable | CACHED, 0), (mappable, 0)),
            mapped=True,
        )

    def _memory_bits(self) -> int:
        """Return the memory types that devmod's buffers can use, a bit each."""
        buffer = self.create(
            "vkCreateBuffer",
            "VkBuffer",
            make("VkBufferCreateInfo", size=256, usage=USAGE | ADDRESS_USAGE * self._has_addresses),
        )
        requirements = ffi.new("VkMemoryRequirements *")
        self.calls.vkGetBufferMemoryRequirements(self.handle, buffer, requirements)
        self.calls.vkDestroyBuffer(self.handle, buffer, ffi.NULL)
        return int(requirements.memoryTypeBits)

    # -- errors

    def check_open(self) -> None:
        """Raise LaunchError if the device is closed; SystemExit in a daemon thread."""
        if self.closed:
            check_driver("vulkan")
            raise self.device.closed_error()

    def driver_error(self, subject: str, code: int) -> LaunchError:
        """Return the LaunchError for a failed driver call. The text for a lost device replaces
        `subject`.
        """
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
        self.check(
            getattr(self.calls, function)(self.handle, info, ffi.NULL, out), f"failed in {function}"
        )
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
        if (
            self._owned.pop((function, int(ffi.cast("uintptr_t", handle))), None) is not None
            and not self.closed
        ):
            getattr(self.calls, function)(self.handle, handle, ffi.NULL)

    # -- all streams

    def next_queue(self) -> tuple[int, Queue]:
        """Return a number and a queue for a new stream. The first stream uses the first queue; the
        others share the rest in turn.
        """
        self.sweep()
        number = next(self._number)
        others = self.queues[1:]
        if number == 0 or not others:
            return number, self.queues[0]
        return number, others[(number - 1) % len(others)]

    def take_semaphore(self) -> tuple[Any, int]:
        """Return a timeline semaphore that no stream uses, and its value."""
        try:
            semaphore = self._semaphores.pop()
        except IndexError:
            kind = make("VkSemaphoreTypeCreateInfo", semaphoreType=vk.VK_SEMAPHORE_TYPE_TIMELINE)
            return self.create_owned(
                "vkCreateSemaphore", "VkSemaphore", make("VkSemaphoreCreateInfo", pNext=kind)
            ), 0
        value = ffi.new("uint64_t *")
        self.check(
            self.calls.vkGetSemaphoreCounterValue(self.handle, semaphore, value),
            "failed in vkGetSemaphoreCounterValue",
        )
        return semaphore, value[0]

    def image_heap(self, kind: int) -> Heap:
        """Return the memory of images of a type."""
        return self.image_heaps.setdefault(kind, Heap(self, kind, mapped=False, buffers=False))

    def lend_handles(
        self, user: Any, owned: list[tuple[str, Any]], memory: Sequence[Memory] = ()
    ) -> object:
        """Destroy the handles in `owned`, and then free `memory`, when `user` is collected. It must
        reference the returned token.
        """
        lease = lend(user, (owned, memory), self._ended_users.append)
        self._users[id(lease)] = lease
        return lease.token

    def sweep(self) -> None:
        """Remove the collected streams with no pending work, and destroy the handles of collected
        pipelines and images.
        """
        self.check_open()
        for number, lease in self.streams.copy().items():
            if lease.expired:
                self._remove_stream(number, lease, waits=False)
        self.destroy_ended()

    def _remove_stream(self, number: int, lease: Lease, *, waits: bool) -> None:
        """Remove a collected stream, whose semaphore another one may then use. Wait for its work,
        or leave it if it has any.
        """
        with self._removal:
            semaphore, cell, _, downloads = lease.value
            if number not in self.streams:  # another thread was faster
                return
            if waits:
                Waiter(self, semaphore).wait(cell[0])
            elif self._has_work(lease):
                return
            self.streams.pop(number, None)
            for download in [*downloads.values()]:
                download.finish()
            self._semaphores.append(semaphore)

    def _has_work(self, lease: Lease) -> bool:
        """Return whether work of a stream has not ended, or the driver does not know."""
        semaphore, cell, _, _ = lease.value
        value = ffi.new("uint64_t *")
        code = self.calls.vkGetSemaphoreCounterValue(self.handle, semaphore, value)
        return bool(code or value[0] < cell[0])

    def destroy_ended(self) -> None:
        """Destroy the handles of collected pipelines and images."""
        for _ in range(len(self._ended_users)):
            try:
                lease = self._ended_users.popleft()
            except IndexError:  # another thread was faster
                return
            if lease.expired:
                self._users.pop(id(lease), None)
                for function, handle in reversed(lease.value[0]):
                    self.destroy(function, handle)
            else:
                self._ended_users.append(
                    lease
                )  # a finalizer uses the object, or has created a new reference

    def finish(self) -> None:
        """Wait for all streams, including collected ones. Raise LaunchError if the driver reports
        an error.
        """
        self.check_open()
        for number, lease in self.streams.copy().items():
            stream = lease()
            if stream is not None:
                stream.synchronize()
            elif lease.expired:
                self._remove_stream(number, lease, waits=True)
        self.destroy_ended()

    def close(self) -> None:
        """Wait for the device, and destroy all objects unless another thread or a kernel may use
        them. The device cannot be used afterwards.
        """
        if self.closed:
            return
        self.closed = True
        for queue in self.queues:
            with queue.lock:  # wait for a submission in another thread
                pass
        owner = instance()
        in_use = owner.find_users()  # before the wait, which may let such a thread end
        if not wait_at_end(lambda: not any(map(self._has_work, self.streams.values()))):
            _driver.log_messages()
            return
        calls = self.calls
        calls.vkDeviceWaitIdle(self.handle)
        if in_use:
            _driver.log_messages()
            return
        self._destroy_all()
        calls.vkDestroyDevice(self.handle, ffi.NULL)
        owner.devices.remove(self)
        _driver.log_messages()

    def _destroy_all(self) -> None:
        """Destroy what devmod has created. No work is pending."""
        while self.streams:
            self.streams.popitem()[1].value[2].clear()  # the submissions
        while self._owned:
            (function, _), handle = self._owned.popitem()  # in reverse order of creation
            getattr(self.calls, function)(self.handle, handle, ffi.NULL)
        for heap in (self.local, self.staging, *self.image_heaps.values()):
            heap.close()


class AdoptedLogical(Logical):
    """A VkDevice that the caller opened, with one queue.

    Parameters
    ----------
    device, physical, handle, queue
        The device, its properties, the VkDevice and the VkQueue.
    """

    def __init__(self, device: Device, physical: Physical, handle: Any, queue: Any) -> None:
        self._given = handle, queue
        super().__init__(device, physical)

    @property
    def _queue_count(self) -> int:
        return 1

    def _open(self) -> Any:
        return self._given[0]

    def _queue(self, number: int) -> Any:
        return self._given[1]

    def _close_at_exit(self) -> None:
        _adopted.add(self)

    def close(self) -> None:
        """Wait for devmod's work, and destroy what devmod has created on the VkDevice.

        Raises
        ------
        LaunchError
            The driver reports an error.
        """
        if self.closed:
            return
        self.finish()
        self.closed = True
        with self.queues[0].lock:  # wait for a submission in another thread
            pass
        self._destroy_all()


#: Those that are not collected. The caller may have destroyed their VkDevices, so none is used at
#: exit.
_adopted: weakref.WeakSet[AdoptedLogical] = weakref.WeakSet()


def _forget_adopted() -> None:
    for each in [*_adopted]:
        each.closed = True


atexit.register(_forget_adopted)


def _close_in_child() -> None:
    # The driver's threads exist only in the parent.
    _forget_adopted()
    for each in _driver.known_devices():
        each.closed = True


# -- Memory


class Heap:
    """The blocks of one type of memory.

    Parameters
    ----------
    logical
        The open device.
    kind : int
        The index of the memory type.
    mapped : bool
        Whether the blocks are mapped into the host's memory.
    buffers : bool
        Whether each block has a buffer; otherwise it is memory for images.
    addresses : bool
        Whether the buffers have addresses in shaders.
    """

    def __init__(
        self,
        logical: Logical,
        kind: int,
        *,
        mapped: bool,
        buffers: bool = True,
        addresses: bool = False,
    ) -> None:
        self._logical = logical
        self._kind = kind
        self._mapped = mapped
        self._buffers = buffers
        self._addresses = addresses
        self._align = logical.physical.alignment
        self._block_size = max(1 << 20, min(_BLOCK, logical.physical.memory_types[kind][1] >> 4))
        self._lock = fork_safe(RLock())
        #: The allocated blocks.
        self.blocks: list[Block] = []
        #: Leases that may have ended. Finalizers and other threads append to it at any time.
        self._ended: deque[Lease] = deque()
        #: Whether a thread changes the blocks now, or was interrupted during a change.
        self._changing = False

    def allocate(self, nbytes: int) -> Memory:
        """Return a piece of at least `nbytes` bytes.

        Raises
        ------
        DeviceMemoryError
            The device has not enough free memory.
        """
        self._logical.check_open()
        most = self._logical.physical.limits["maxMemoryAllocationSize"]
        if nbytes > most:
            raise self._logical.device.memory_error(
                nbytes, f"its maxMemoryAllocationSize is {most}"
            )
        if self._lock._is_owned():  # type: ignore[attr-defined]  # typeshed lacks it
            raise LaunchError(
                f"{self._logical.device} cannot allocate {nbytes} bytes: a finalizer or a signal handler requested them during another "
                "allocation of this thread. Allocate and launch outside of `__del__` and signal handlers",
                kind="vulkan",
            )
        size = int(-(-nbytes // self._align) * self._align)
        with self._lock:
            self._enter()
            memory = self._find(size, nbytes)
            self._changing = False
        if memory is None:
            return self._grow(size, nbytes)
        return memory

    def close(self) -> None:
        """Free all memory."""
        with self._lock:
            for block in self.blocks:
                self._destroy(block)
            self.blocks = []

    def _enter(self) -> None:
        """Begin a change. The caller must hold the lock."""
        if self._changing:
            for block in list(self.blocks):
                if block.ready:
                    block.rebuild()
                else:
                    self._remove(block)
        self._changing = True
        self._free_ended()

    def _find(self, size: int, nbytes: int) -> Memory | None:
        for block in self.blocks:
            memory = block.take(size, nbytes, self._ended.append)
            if memory is not None:
                return memory
        return None

    def _grow(self, size: int, nbytes: int) -> Memory:
        code = 0
        block_size = self._block_size
        if size > block_size // 2:
            block_size = size
        for attempt in range(2):
            with self._lock:
                self._enter()
                memory = self._find(size, nbytes)  # another thread may have freed memory
                if memory is None:
                    code, block = self._make(block_size)
                    if block is not None:
                        memory = block.take(size, nbytes, self._ended.append)
                self._changing = False
            if memory is not None:
                return memory
            if attempt == 0:
                # Pending launches may hold the missing memory.
                self._logical.finish()
                with self._lock:
                    self._enter()
                    self._drop_empty(0)
                    self._changing = False
        if code in _driver.MEMORY_ERRORS:
            raise self._logical.device.memory_error(nbytes, error_name(code))
        raise self._logical.driver_error(
            f"{self._logical.device} cannot allocate {nbytes} bytes", code
        )

    def _free_ended(self) -> None:
        """Free the pieces of ended leases."""
        emptied = False
        for _ in range(len(self._ended)):
            lease = self._ended.popleft()
            if lease.expired:
                block = lease.value[0]
                block.put(lease)
                emptied |= block.empty
            else:
                self._ended.append(
                    lease
                )  # a finalizer uses the memory, or has created a new reference
        if emptied:
            self._drop_empty(1)

    def _drop_empty(self, count: int) -> None:
        """Destroy the empty blocks, except for the first `count` of the usual size."""
        if self._logical.closed:
            return
        for block in list(self.blocks):
            if block.empty:
                if count and block.size == self._block_size:
                    count -= 1
                else:
                    self._remove(block)

    def _make(self, size: int) -> tuple[int, Block | None]:
        block = Block(size)
        self.blocks.append(block)
        code = self._open(block)
        if code:
            self._remove(block)
            return code, None
        block.ready = True
        return 0, block

    def _open(self, block: Block) -> int:
        calls = self._logical.calls
        device = self._logical.handle
        code: int = 0
        size = block.size
        address = ffi.new("void **")
        if self._buffers:
            info = make(
                "VkBufferCreateInfo", size=block.size, usage=USAGE | ADDRESS_USAGE * self._addresses
            )
            code = calls.vkCreateBuffer(device, info, ffi.NULL, block.buffer_cell)
            if code:
                return code
            requirements = ffi.new("VkMemoryRequirements *")
            calls.vkGetBufferMemoryRequirements(device, block.buffer, requirements)
            size = requirements.size
        flags = ffi.NULL
        if self._addresses:
            flags = make("VkMemoryAllocateFlagsInfo", flags=ADDRESS_FLAG)
        info = make(
            "VkMemoryAllocateInfo", pNext=flags, allocationSize=size, memoryTypeIndex=self._kind
        )
        code = calls.vkAllocateMemory(device, info, ffi.NULL, block.memory_cell)
        if not code and self._buffers:
            code = calls.vkBindBufferMemory(device, block.buffer, block.memory_cell[0], 0)
        if not code and self._mapped:
            code = calls.vkMapMemory(device, block.memory_cell[0], 0, block.size, 0, address)
        if not code and self._addresses:
            block.device_address = calls.vkGetBufferDeviceAddress(
                device, make("VkBufferDeviceAddressInfo", buffer=block.buffer)
            )
        block.address = int(ffi.cast("uintptr_t", address[0]))
        return code

    def _remove(self, block: Block) -> None:
        """Destroy a block, which may be incomplete. After an interrupt, the next `_enter` removes
        the rest.
        """
        block.ready = False
        self._destroy(block)
        self.blocks.remove(block)

    def _destroy(self, block: Block) -> None:
        calls = self._logical.calls
        device = self._logical.handle
        for destroy, cell in (
            (calls.vkDestroyBuffer, block.buffer_cell),
            (calls.vkFreeMemory, block.memory_cell),
        ):
            # Interrupts land only where a call returns, so none lands between these lines. No
            # handle is destroyed twice.
            handle = cell[0]
            cell[0] = ffi.NULL
            destroy(device, handle, ffi.NULL)


# -- The command buffers and timestamps of a device. Each has one user at a time, and is reused when
# the user is collected.


_COMPUTE, _TRANSFER, _HOST = (
    vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
    vk.VK_PIPELINE_STAGE_TRANSFER_BIT,
    vk.VK_PIPELINE_STAGE_HOST_BIT,
)
BEFORE = (_COMPUTE | _TRANSFER, _COMPUTE | _TRANSFER, 0, 1, _FIRST, *_NO_MORE)
AFTER = (_COMPUTE | _TRANSFER, _COMPUTE | _TRANSFER | _HOST, 0, 1, _LAST, *_NO_MORE)


class CommandBuffer:
    """A VkCommandBuffer, with the lock that all buffers of its pool share.

    `recording` is True during recording. A buffer with an interrupted recording is not reused.
    """

    __slots__ = ("handle", "lock", "recording")

    def __init__(self, handle: Any, lock: RLock) -> None:
        self.handle = handle
        self.lock = lock
        self.recording = False


class Recorder:
    """A command buffer for one user."""

    __slots__ = ("__weakref__", "_token", "commands", "handle", "lock")

    def __init__(self, commands: CommandBuffer, pool: Pool) -> None:
        self.commands = commands
        self.handle = commands.handle
        self.lock = commands.lock
        self._token = pool.lend(self, commands)

    def record(
        self, logical: Logical, begin: Any, records: Iterable[Callable[[Any], object]]
    ) -> None:
        """Record launches and copies, in order: each begins when those before it are done. No
        earlier recording may be pending.

        Parameters
        ----------
        logical
            The open device.
        begin
            The VkCommandBufferBeginInfo.
        records
            For each launch or copy, a function that records its commands into the VkCommandBuffer
            that it receives.

        Raises
        ------
        LaunchError
            The driver fails.
        """
        calls = logical.calls
        handle = self.handle
        with self.lock:
            self.commands.recording = True
            logical.check(calls.vkBeginCommandBuffer(handle, begin), "cannot record commands")
            for each in records:
                calls.vkCmdPipelineBarrier(handle, *BEFORE)
                each(handle)
            calls.vkCmdPipelineBarrier(handle, *AFTER)
            logical.check(calls.vkEndCommandBuffer(handle), "cannot record commands")
            self.commands.recording = False


class Timer:
    """A slot for a timestamp, with a command buffer that writes it. `ticks` is the timestamp; -1
    until it is read.
    """

    __slots__ = ("__weakref__", "_token", "handle", "number", "queries", "ticks")

    def __init__(self, slot: tuple[Any, Any, int], pool: Pool) -> None:
        self.handle, self.queries, self.number = slot
        self.ticks = -1
        self._token = pool.lend(self, slot)


class CommandPools:
    """The pools of one device.

    Attributes
    ----------
    recorders
        The command buffers without a user.
    """

    def __init__(self, logical: Logical) -> None:
        self._logical = logical
        self.recorders = Pool()
        self._timers = Pool()

    def recorder(self) -> Recorder:
        """Return a command buffer for the exclusive use of the caller."""
        pool = self.recorders
        try:
            commands = pool.take()
            while commands.recording:
                commands = pool.take()
        except IndexError:
            lock = fork_safe(RLock())
            handles = self._command_buffers(_RECORDERS, resettable=True)
            commands, *others = [CommandBuffer(handle, lock) for handle in handles]
            pool.add(others)
        return Recorder(commands, pool)

    def _command_buffers(self, number: int, *, resettable: bool = False) -> list[Any]:
        """Return new command buffers, in a pool of their own."""
        logical = self._logical
        flags = 0
        if resettable:
            flags = vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
        info = make(
            "VkCommandPoolCreateInfo", queueFamilyIndex=logical.physical.queue_family, flags=flags
        )
        pool = logical.create_owned("vkCreateCommandPool", "VkCommandPool", info)
        buffers = ffi.new("VkCommandBuffer[]", number)
        info = make("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=number)
        logical.check(
            logical.calls.vkAllocateCommandBuffers(logical.handle, info, buffers),
            "cannot allocate command buffers",
        )
        return list(buffers)

    def timer(self) -> Timer:
        """Return a timestamp slot for the exclusive use of the caller."""
        try:
            slot = self._timers.take()
        except IndexError:
            slot, *others = self._make_timers()
            self._timers.add(others)
        return Timer(slot, self._timers)

    def _make_timers(self) -> list[tuple[Any, Any, int]]:
        info = make(
            "VkQueryPoolCreateInfo", queryType=vk.VK_QUERY_TYPE_TIMESTAMP, queryCount=_TIMERS
        )
        pool = self._logical.create_owned("vkCreateQueryPool", "VkQueryPool", info)
        slots = []
        begin = make("VkCommandBufferBeginInfo")
        calls = self._logical.calls
        for number, handle in enumerate(self._command_buffers(_TIMERS)):
            self._logical.check(calls.vkBeginCommandBuffer(handle, begin), "cannot record commands")
            calls.vkCmdResetQueryPool(handle, pool, number, 1)
            calls.vkCmdWriteTimestamp(handle, vk.VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, number)
            self._logical.check(calls.vkEndCommandBuffer(handle), "cannot record commands")
            slots.append((handle, pool, number))
        return slots


# -- Waiting for the value of a timeline semaphore.


class Waiter:
    """Waits for a semaphore, in one thread at a time. It is reused, because creating Vulkan's
    structures takes longer than a short wait.
    """

    __slots__ = ("_cell", "_device", "_info", "_logical", "_wait")

    def __init__(self, logical: Logical, semaphore: Any) -> None:
        self._logical = logical
        self._cell = ffi.new("uint64_t *")
        self._info = make(
            "VkSemaphoreWaitInfo",
            semaphoreCount=1,
            pSemaphores=ffi.new("VkSemaphore *", semaphore),
            pValues=self._cell,
        )
        self._wait = logical.calls.vkWaitSemaphores
        self._device = logical.handle

    def wait(self, value: int) -> None:
        """Wait until the semaphore has `value`.

        Raise LaunchError if the driver reports an error.
        """
        self._cell[0] = value
        code = self._wait(self._device, self._info, _WAIT_SLICE)
        while code == vk.VK_TIMEOUT:
            code = self._wait(self._device, self._info, _WAIT_SLICE)
        if code or self._logical.validating:
            self._logical.check(code, "reports a failed launch")
