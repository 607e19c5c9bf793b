"""Memory: pieces of a few large blocks, each with one VkBuffer.

Drivers need a millisecond for an allocation and limit their number (4,096 on many). So arrays are
pieces of blocks of 64 MiB. An array larger than half of that gets a block of its own.

The leases of the `Memory` objects define which pieces are in use. The lists of free pieces are
derived from them. After an interrupted change, the next call of a heap
(`devmod_vulkan._logical.Heap`) rebuilds the lists. So an interrupt may land anywhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from devmod_runtime import Lease, lend
from devmod_vulkan._driver import ffi, vk

USAGE = (
    vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
    | vk.VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT
    | vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT
    | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
)
#: For memory with an address. The package has no name for the two numbers.
ADDRESS_USAGE = ffi.typeof("VkBufferUsageFlagBits").relements[
    "VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT"
]
ADDRESS_FLAG = ffi.typeof("VkMemoryAllocateFlagBits").relements[
    "VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT"
]
LOCAL = vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
VISIBLE = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT
COHERENT = vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
CACHED = vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT


class Memory:
    """A piece of a buffer, used by an array. Collecting this object frees the piece.

    Attributes
    ----------
    buffer, device_memory, offset, nbytes
        The VkBuffer and its VkDeviceMemory, the first byte in both, and the requested number of
        bytes.
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
        self.address = 0
        if block.address:
            self.address = block.address + offset
        self.used = False

    @property
    def device_memory(self) -> Any:
        return self._block.memory_cell[0]

    def take_address(self) -> int:
        """Return the address in shaders, by which queued commands may access it from now on; 0 if
        it has none.
        """
        self.used = True
        if not self._block.device_address:
            return 0
        return self._block.device_address + self.offset

    def part(self, offset: int, nbytes: int) -> Memory:
        """Return a part, which keeps this piece in use. Queued commands may access either from now
        on.
        """
        part = Memory(self._block, self.offset + offset, nbytes)
        part._token = self
        part.used = self.used = True
        return part


class Block:
    """An allocation of the driver, with a buffer that covers it unless it is memory for images.

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
    device_address : int
        The address in shaders; 0 if it has none.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.leases: dict[int, Lease] = {}
        self.free = [(0, size)]
        self.ready = False
        self.address = self.device_address = 0
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
        """Return the first free piece of `size` bytes, or None. `ended` is called with its lease
        when the piece is collected.
        """
        for number, (offset, free) in enumerate(self.free):
            if free >= size:
                if free > size:
                    self.free[number] = (offset + size, free - size)
                else:
                    del self.free[number]
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
            offset = self.free[first][0]
            size += self.free[first][1]
        self.free[first:last] = [(offset, size)]

    def rebuild(self) -> None:
        """Rebuild the list of free pieces from the leases."""
        for offset, lease in list(self.leases.items()):
            if lease.expired:
                del self.leases[offset]
        free = []
        start = 0
        for offset, lease in sorted(self.leases.items()):
            if offset > start:
                free.append((start, offset - start))
            start = offset + lease.value[2]
        if start < self.size:
            free.append((start, self.size - start))
        self.free = free


def usable_types(types: list[tuple[int, int]], bits: int) -> list[tuple[int, int]]:
    """Return the memory types of a device: without flags for each that lacks its bit in `bits`."""
    usable = []
    for number, (flags, size) in enumerate(types):
        if bits >> number & 1:
            usable.append((flags, size))
        else:
            usable.append((0, size))
    return usable


def find_type(types: list[tuple[int, int]], *choices: tuple[int, int]) -> int:
    """Return the index of the first memory type that matches a choice, trying the choices in order;
    0 if none matches.

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
