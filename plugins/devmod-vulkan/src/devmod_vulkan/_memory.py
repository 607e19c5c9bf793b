"""Memory: pieces of a few large blocks, each with one VkBuffer.

Drivers need a millisecond for an allocation and limit their number (4,096 on many). So arrays are pieces of blocks of 64 MiB. An array
larger than half of that gets a block of its own.

The leases of the `Memory` objects define which pieces are in use. The lists of free pieces are derived from them. After an
interrupted change, the next call rebuilds the lists. So an interrupt may land anywhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from threading import RLock

from devmod.errors import LaunchError
from devmod_runtime import fork_safe, lend
from devmod_vulkan._driver import MEMORY_ERRORS, error_name, ffi, make, vk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from devmod_runtime import Lease
    from devmod_vulkan._logical import Logical

_BLOCK = 64 << 20
USAGE = (
    vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
    | vk.VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT
    | vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT
    | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
)
LOCAL = vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
VISIBLE = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT
COHERENT = vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
CACHED = vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT


class Memory:
    """A piece of a buffer, used by an array. Collecting this object frees the piece.

    Attributes
    ----------
    buffer, offset, nbytes
        The VkBuffer, the first byte in it, and the requested number of bytes.
    address : int
        The host address; 0 if the memory is not mapped.
    used : bool
        Whether queued commands may access it.
    """

    __slots__ = ("__weakref__", "_block", "_token", "address", "buffer", "nbytes", "offset", "used")

    def __init__(self, block: Block, offset: int, nbytes: int) -> None:
        self._block = block
        self._token: object = None
        self.buffer = block.buffer
        self.offset = offset
        self.nbytes = nbytes
        self.address = block.address + offset if block.address else 0
        self.used = False

    def part(self, offset: int, nbytes: int) -> Memory:
        """Return a part, which keeps this piece in use. Queued commands may access either from now on."""
        part = Memory(self._block, self.offset + offset, nbytes)
        part._token = self
        part.used = self.used = True
        return part


class Block:
    """An allocation of the driver, with a buffer that covers it.

    Attributes
    ----------
    size : int
        Its size in bytes.
    leases : dict
        The lease of each piece in use, by offset.
    free : list of (int, int)
        Offsets and sizes of the free pieces, in order and merged. It is derived from the leases.
    ready : bool
        Whether the driver has created all of it and destroyed none of it.
    address : int
        The host address; 0 if the memory is not mapped.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.leases: dict[int, Lease] = {}
        self.free = [(0, size)]
        self.ready = False
        self.address = 0
        # The driver writes its handles here, so that an interrupt after the call cannot lose them.
        self.buffer_cell = ffi.new("VkBuffer *")
        self.memory_cell = ffi.new("VkDeviceMemory *")

    @property
    def buffer(self) -> Any:
        """The VkBuffer."""
        return self.buffer_cell[0]

    @property
    def empty(self) -> bool:
        """Whether no piece is in use."""
        return not self.leases

    def take(self, size: int, nbytes: int, ended: Callable[[Lease], object]) -> Memory | None:
        """Return the first free piece of `size` bytes, or None. `ended` is called with its lease when the piece is collected."""
        for number, (offset, free) in enumerate(self.free):
            if free >= size:
                self.free[number : number + 1] = [(offset + size, free - size)] if free > size else []
                memory = Memory(self, offset, nbytes)
                lease = lend(memory, (self, offset, size), ended)
                memory._token = lease.token
                self.leases[offset] = lease
                return memory
        return None

    def put(self, lease: Lease) -> None:
        """Free the piece of an ended lease, and merge it with its free neighbours."""
        _, offset, size = lease.value
        if self.leases.get(offset) is not lease:
            return  # the lists were rebuilt since
        del self.leases[offset]
        first = last = bisect_left(self.free, (offset, 0))
        if last < len(self.free) and offset + size == self.free[last][0]:
            size += self.free[last][1]
            last += 1
        if first and sum(self.free[first - 1]) == offset:
            first -= 1
            offset, size = self.free[first][0], self.free[first][1] + size
        self.free[first:last] = [(offset, size)]

    def rebuild(self) -> None:
        """Rebuild the list of free pieces from the leases."""
        for offset, lease in list(self.leases.items()):
            if lease.expired:
                del self.leases[offset]
        free, start = [], 0
        for offset, lease in sorted(self.leases.items()):
            if offset > start:
                free.append((start, offset - start))
            start = offset + lease.value[2]
        if start < self.size:
            free.append((start, self.size - start))
        self.free = free


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
    """

    def __init__(self, logical: Logical, kind: int, *, mapped: bool) -> None:
        self._logical = logical
        self._kind = kind
        self._mapped = mapped
        self._align = logical.physical.alignment
        self._block_size = max(1 << 20, min(_BLOCK, logical.physical.memory_types[kind][1] >> 4))
        self._lock = fork_safe(RLock())
        self._blocks: list[Block] = []
        #: Leases that may have ended. Finalizers and other threads append to it at any time.
        self._ended: deque[Lease] = deque()
        #: Whether a thread changes the blocks now, or was interrupted during a change.
        self._changing = False

    @property
    def blocks(self) -> list[Block]:
        """The allocated blocks."""
        return self._blocks

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
            raise self._logical.device.memory_error(nbytes, f"its maxMemoryAllocationSize is {most}")
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
        return memory if memory is not None else self._grow(size, nbytes)

    def close(self) -> None:
        """Free all memory."""
        with self._lock:
            for block in self._blocks:
                self._destroy(block)
            self._blocks = []

    def _enter(self) -> None:
        """Begin a change. The caller must hold the lock."""
        if self._changing:
            for block in list(self._blocks):
                if block.ready:
                    block.rebuild()
                else:
                    self._remove(block)
        self._changing = True
        self._free_ended()

    def _find(self, size: int, nbytes: int) -> Memory | None:
        for block in self._blocks:
            memory = block.take(size, nbytes, self._ended.append)
            if memory is not None:
                return memory
        return None

    def _grow(self, size: int, nbytes: int) -> Memory:
        code = 0
        for attempt in range(2):
            with self._lock:
                self._enter()
                memory = self._find(size, nbytes)  # another thread may have freed memory
                if memory is None:
                    code, block = self._make(size if size > self._block_size // 2 else self._block_size)
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
        if code in MEMORY_ERRORS:
            raise self._logical.device.memory_error(nbytes, error_name(code))
        raise self._logical.driver_error(f"{self._logical.device} cannot allocate {nbytes} bytes", code)

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
                self._ended.append(lease)  # a finalizer uses the memory, or has created a new reference
        if emptied:
            self._drop_empty(1)

    def _drop_empty(self, count: int) -> None:
        """Destroy the empty blocks, except for the first `count` of the usual size."""
        if self._logical.closed:
            return
        for block in list(self._blocks):
            if block.empty:
                if count and block.size == self._block_size:
                    count -= 1
                else:
                    self._remove(block)

    def _make(self, size: int) -> tuple[int, Block | None]:
        block = Block(size)
        self._blocks.append(block)
        code = self._open(block)
        if code:
            self._remove(block)
            return code, None
        block.ready = True
        return 0, block

    def _open(self, block: Block) -> int:
        calls, device = self._logical.calls, self._logical.handle
        info = make("VkBufferCreateInfo", size=block.size, usage=USAGE)
        code: int = calls.vkCreateBuffer(device, info, ffi.NULL, block.buffer_cell)
        if code:
            return code
        requirements, address = ffi.new("VkMemoryRequirements *"), ffi.new("void **")
        calls.vkGetBufferMemoryRequirements(device, block.buffer, requirements)
        info = make("VkMemoryAllocateInfo", allocationSize=requirements.size, memoryTypeIndex=self._kind)
        code = calls.vkAllocateMemory(device, info, ffi.NULL, block.memory_cell)
        if not code:
            code = calls.vkBindBufferMemory(device, block.buffer, block.memory_cell[0], 0)
        if not code and self._mapped:
            code = calls.vkMapMemory(device, block.memory_cell[0], 0, block.size, 0, address)
        block.address = int(ffi.cast("uintptr_t", address[0]))
        return code

    def _remove(self, block: Block) -> None:
        """Destroy a block, which may be incomplete. After an interrupt, the next `_enter` removes the rest."""
        block.ready = False
        self._destroy(block)
        self._blocks.remove(block)

    def _destroy(self, block: Block) -> None:
        calls, device = self._logical.calls, self._logical.handle
        for destroy, cell in ((calls.vkDestroyBuffer, block.buffer_cell), (calls.vkFreeMemory, block.memory_cell)):
            # Interrupts land only where a call returns, so none lands between the two lines. No handle is destroyed twice.
            handle, cell[0] = cell[0], ffi.NULL
            destroy(device, handle, ffi.NULL)


def find_type(types: list[tuple[int, int]], *choices: tuple[int, int]) -> int:
    """Return the index of the first memory type that matches a choice, trying the choices in order; 0 if none matches.

    Parameters
    ----------
    types
        The flags and the heap size of each memory type.
    choices
        The required flags and the forbidden flags of each choice.
    """
    for include, exclude in choices:
        for number, (flags, _) in enumerate(types):
            if flags & include == include and not flags & exclude:
                return number
    return 0
