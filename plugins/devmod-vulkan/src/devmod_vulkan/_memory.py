"""Memory: pieces of a few large blocks, each block one buffer of Vulkan's.

Drivers take a millisecond for an allocation and allow few of them (4,096 on many), so arrays are cut out of blocks of 64 MiB, and
only what is larger than half of that has a block of its own.

A piece is given back by the finalizer of its `Memory`, which may run in any thread at any time, also in one that is inside this
file. So the finalizer only puts the piece on a list, and whoever has the lock takes the list in.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from threading import Lock

from devmod.errors import LaunchError
from devmod_vulkan._driver import ffi, make, vk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
    """A piece of a buffer: what an array holds. It is given back with this object.

    Attributes
    ----------
    buffer, offset, nbytes
        Where it is: Vulkan's buffer, the first byte in it, and the number of bytes that were asked for.
    address : int
        Where the host sees it; 0 where it does not.
    used : bool
        Whether anything was queued that may touch it.
    """

    __slots__ = ("__weakref__", "_block", "address", "buffer", "nbytes", "offset", "used")

    def __init__(self, block: Block, offset: int, nbytes: int) -> None:
        self._block = block
        self.buffer = block.buffer
        self.offset = offset
        self.nbytes = nbytes
        self.address = block.address + offset if block.address else 0
        self.used = False

    def __del__(self) -> None:
        block = self._block
        block.heap.give_back(block, self.offset, self.nbytes)


class Block:
    """Memory of the driver's with a buffer over all of it, and which pieces of it are free."""

    def __init__(self, heap: Heap, memory: Any, buffer: Any, size: int, address: int) -> None:
        self.heap = heap
        self.memory = memory
        self.buffer = buffer
        self.size = size
        self.address = address
        #: Offsets and sizes of the free pieces, in order; no two touch.
        self.starts = [0]
        self.sizes = [size]

    @property
    def empty(self) -> bool:
        """Whether all of it is free."""
        return self.sizes == [self.size]

    def take(self, size: int) -> int:
        """The offset of a piece that is free no longer; -1 where none is large enough."""
        for number, free in enumerate(self.sizes):
            if free >= size:
                offset = self.starts[number]
                if free == size:
                    del self.starts[number], self.sizes[number]
                else:
                    self.starts[number] += size
                    self.sizes[number] -= size
                return offset
        return -1

    def put(self, offset: int, size: int) -> None:
        """Free a piece, and join it with its free neighbours."""
        number = bisect_left(self.starts, offset)
        if number < len(self.starts) and offset + size == self.starts[number]:
            size += self.sizes[number]
            del self.starts[number], self.sizes[number]
        if number and self.starts[number - 1] + self.sizes[number - 1] == offset:
            self.sizes[number - 1] += size
        else:
            self.starts.insert(number, offset)
            self.sizes.insert(number, size)


class Heap:
    """The blocks of one type of memory.

    Parameters
    ----------
    logical
        The open device.
    kind : int
        The number of the memory type.
    mapped : bool
        Whether the host sees the blocks.
    """

    def __init__(self, logical: Logical, kind: int, *, mapped: bool) -> None:
        self._logical = logical
        self._kind = kind
        self._mapped = mapped
        self._align = logical.physical.alignment
        self._block_size = max(1 << 20, min(_BLOCK, logical.physical.memory_types[kind][1] >> 4))
        self._lock = Lock()
        self._blocks: list[Block] = []
        self._returned: deque[tuple[Block, int, int]] = deque()

    @property
    def blocks(self) -> list[Block]:
        """The blocks there are."""
        return self._blocks

    def allocate(self, nbytes: int) -> Memory:
        """A piece of at least so many bytes.

        Raises
        ------
        LaunchError
            The device has no such memory left.
        """
        self._logical.check_open()
        most = self._logical.physical.limits["maxMemoryAllocationSize"]
        if nbytes > most:
            raise LaunchError(
                f"{self._logical.device} cannot hold an array of {nbytes} bytes: its maxMemoryAllocationSize is {most}", kind="vulkan"
            )
        size = self._rounded(nbytes)
        with self._lock:
            found = self._find(size)
        if found is None:
            found = self._grow(size, nbytes)
        return Memory(found[0], found[1], nbytes)

    def give_back(self, block: Block, offset: int, nbytes: int) -> None:
        """Free a piece: at once, or by the thread that is in this heap now."""
        self._returned.append((block, offset, self._rounded(nbytes)))
        while self._returned and self._lock.acquire(blocking=False):
            try:
                self._take_in()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Give all memory back to the driver."""
        with self._lock:
            for block in self._blocks:
                self._destroy(block)
            self._blocks = []

    def _rounded(self, nbytes: int) -> int:
        return int(-(-nbytes // self._align) * self._align)

    def _find(self, size: int) -> tuple[Block, int] | None:
        self._take_in()
        for block in self._blocks:
            offset = block.take(size)
            if offset >= 0:
                return block, offset
        return None

    def _grow(self, size: int, nbytes: int) -> tuple[Block, int]:
        code = 0
        for attempt in range(2):
            with self._lock:
                found = self._find(size)  # another thread may have made room
                if found is None:
                    wanted = size if size > self._block_size // 2 else self._block_size
                    code, block = self._make(wanted)
                    if block is not None:
                        self._blocks.append(block)
                        found = block, block.take(size)
            if found is not None:
                return found
            if attempt == 0:
                # What launches still hold may be all that is missing.
                self._logical.finish()
                with self._lock:
                    self._take_in(keep=0)
        raise self._logical.failed(f"{self._logical.device} gives no memory of {nbytes} bytes", code)

    def _take_in(self, keep: int = 1) -> None:
        """Take the list of returned pieces in; of blocks that are empty then, keep so many of the usual size."""
        emptied = keep == 0
        while self._returned:
            block, offset, size = self._returned.popleft()
            block.put(offset, size)
            emptied |= block.empty
        if not emptied or self._logical.closed:
            return
        kept = []
        for block in self._blocks:
            if not block.empty:
                kept.append(block)
            elif keep and block.size == self._block_size:
                keep -= 1
                kept.append(block)
            else:
                self._destroy(block)
        self._blocks[:] = kept

    def _make(self, size: int) -> tuple[int, Block | None]:
        calls, device = self._logical.calls, self._logical.handle
        buffer, memory, address = ffi.new("VkBuffer *"), ffi.new("VkDeviceMemory *"), ffi.new("void **")
        code = calls.vkCreateBuffer(device, make("VkBufferCreateInfo", size=size, usage=USAGE), ffi.NULL, buffer)
        if code:
            return code, None
        needs = ffi.new("VkMemoryRequirements *")
        calls.vkGetBufferMemoryRequirements(device, buffer[0], needs)
        info = make("VkMemoryAllocateInfo", allocationSize=needs.size, memoryTypeIndex=self._kind)
        code = calls.vkAllocateMemory(device, info, ffi.NULL, memory)
        if not code:
            code = calls.vkBindBufferMemory(device, buffer[0], memory[0], 0)
            if not code and self._mapped:
                code = calls.vkMapMemory(device, memory[0], 0, size, 0, address)
            if code:
                calls.vkFreeMemory(device, memory[0], ffi.NULL)
        if code:
            calls.vkDestroyBuffer(device, buffer[0], ffi.NULL)
            return code, None
        return 0, Block(self, memory[0], buffer[0], size, int(ffi.cast("uintptr_t", address[0])))

    def _destroy(self, block: Block) -> None:
        calls, device = self._logical.calls, self._logical.handle
        calls.vkDestroyBuffer(device, block.buffer, ffi.NULL)
        calls.vkFreeMemory(device, block.memory, ffi.NULL)


def find_type(types: list[tuple[int, int]], *choices: tuple[int, int]) -> int:
    """The number of the first memory type that has the flags of a choice, and none of those it avoids; choices in their order; else 0.

    Parameters
    ----------
    types
        Flags and heap size of each.
    choices
        The flags that it has to have, and those that it must not have.
    """
    for wanted, avoided in choices:
        for number, (flags, _) in enumerate(types):
            if flags & wanted == wanted and not flags & avoided:
                return number
    return 0
