"""The memory of a launch: the arena (global memory), and shared, local and parameter memory of the
lanes that run at once.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from devmod_simulators.ptx.errors import PtxError
from devmod_simulators.ptx.ptx_types import S64, U8, U64, Array, DType, aligned

if TYPE_CHECKING:
    from devmod_simulators.ptx.lanes import Lanes

#: Global memory of the device's own, which the host does not reach: the heap of malloc, the
#: workspace of cooperative launches.
HEAP = 1 << 47
#: Where generic addresses of a space begin. Global addresses are below 2**48.
WINDOW_SHIFT = 44
WINDOWS = {
    "global": 0,
    "const": 0,
    "shared": 1 << 48,
    "local": (1 << 48) + (1 << WINDOW_SHIFT),
    "param": (1 << 48) + (2 << WINDOW_SHIFT),
}
#: Addresses of shared memory of a cluster have the rank of the block plus one above this bit.
CLUSTER_SHIFT = 24
#: Addresses in the parameter space at or above this one are parameters of device functions: they
#: are in local memory.
FUNCTION_PARAMETERS = 1 << 40
#: Addresses of functions.
CODE_WINDOW = 0x10_0000

#: Arrays of addresses whose places lanes remember.
_PLACES = 8
#: Shared memory is given to a block in pieces of as many bytes: a read of the rest of the last one
#: is no fault of a GPU.
GRANULE = 128
#: What is wrong with an access to memory that is allocated in the order of a stream.
STREAM_ORDERED = (
    "memory that a stream allocates in its order (cuMemAllocAsync), and nothing orders this kernel "
    "behind it"
)
#: The most bytes of the heap: CUDA's default.
HEAP_BYTES = 8 << 20


class Access:
    """What an instruction does to memory: it reads or writes vectors of `count` elements, `step`
    bytes behind the addresses that it computes.
    """

    __slots__ = ("alignment", "count", "dtype", "kind", "size", "step")

    def __init__(self, kind: str, dtype: DType, count: int = 1, step: int = 0) -> None:
        self.kind = kind
        self.dtype = dtype
        self.count = count
        self.step = step
        self.size = dtype.itemsize * count
        # That of four elements for three of them.
        self.alignment = 1 << (self.size - 1).bit_length()

    def misaligned(self, address: Array) -> Array:
        """Return which addresses are no multiple of the alignment."""
        return np.asarray((address & address.dtype.type(self.alignment - 1)) != 0)


class Memory:
    """An array of bytes as an array of each element type, and where lanes may access it."""

    space = "global"
    size = 0
    #: Bytes that a read may reach.
    readable = 0
    #: The address of the first byte.
    base = 0
    #: How many blocks or lanes have memory of their own here.
    pieces = 1
    #: Addresses that are in order: of the range of the last access, or those of a piece.
    last = (0, 0)
    #: Whether its pieces have grown: their places are not those that lanes remember.
    moves = False

    def __init__(self, data: Array) -> None:
        self.bytes = data
        #: Of the bytes in this process.
        self.address = data.ctypes.data
        self.views: dict[DType, Array] = {U8: data}

    def view(self, dtype: DType) -> Array:
        """Return the memory as elements of `dtype`."""
        view = self.views.get(dtype)
        if view is None:
            whole = len(self.bytes) // dtype.itemsize * dtype.itemsize
            view = self.views[dtype] = self.bytes[:whole].view(dtype)
        return view

    def locate(
        self, lanes: "Lanes", address: Array, access: Access, pieces: Array | None = None
    ) -> tuple[Array, Array]:
        """Return a view and the indices of elements there, after a check that each lane may access
        them. `pieces` are the first bytes of each lane's piece of the memory.
        """
        width = access.dtype.itemsize
        step = access.step
        place = place_of(self, lanes, address)
        low = place.low + step
        high = place.high + step + access.size
        start, end = self.last
        if (place.union | step) & (access.alignment - 1) or (
            (low < start or high > end) and not self.has(low, high)
        ):
            address = stepped(address, step)
            step = 0
            place = place_of(self, lanes, address)
            if place.union & (access.alignment - 1):
                askew = access.misaligned(address)
                raise fault(lanes, address, askew, access, self.space, "MISALIGNED")
            room = self.readable if access.kind == "read" else self.size
            if (outside := self.outside(address, access.size, room)).any():
                raise fault(lanes, address, outside, access, self.space)
        index = place.indices.get(width)
        if index is None or self.moves:
            index = place.indices[width] = self.elements(address, width, pieces)
        return shifted(self.view(access.dtype), index, step // width)

    def elements(self, address: Array, width: int, pieces: Array | None) -> Array:
        """Return the indices of elements of `width` bytes."""
        offset = self.offsets(address)
        if pieces is not None:
            offset = offset + pieces
        if width == 1:
            return offset
        return offset >> np.int64(width.bit_length() - 1)

    def has(self, low: int, high: int) -> bool:
        """Return whether there are all bytes from one address to another, outside of `last`."""
        return False

    def outside(self, address: Array, size: int, room: int) -> Array:
        """Return which addresses lanes may not access, in a memory with `room` bytes."""
        return np.asarray(address.astype(np.float64) + size > room)

    def offsets(self, address: Array) -> Array:
        """Return the offsets of addresses."""
        return address.astype(S64)


class Place:
    """An array of addresses in one memory: their bounds, and the indices of elements by their
    width.
    """

    __slots__ = ("address", "high", "indices", "low", "memory", "union")

    def __init__(self, memory: Memory, address: Array) -> None:
        self.memory = memory
        self.address = address
        self.indices: dict[int, Array] = {}
        if len(address) == 1:
            self.low = self.high = self.union = int(address[0])
        else:
            self.low = int(address.min())
            self.high = int(address.max())
            self.union = int(np.bitwise_or.reduce(address))


def place_of(memory: Memory, lanes: "Lanes", address: Array) -> Place:
    """Return what is known of addresses. Registers never change in place, so an array has one
    place.
    """
    place = lanes.places.get(id(address))
    if place is None or place.memory is not memory:
        if len(lanes.places) >= _PLACES:
            lanes.places.clear()
        place = lanes.places[id(address)] = Place(memory, address)
    return place


def window_of(
    memory: Memory, unsigned: DType, access: Access
) -> Callable[["Lanes", Array], tuple[Array, Array] | None]:
    """Return a function that locates elements in the range of the last access to a memory, or
    returns None: one look at few addresses tells whether all are in it and aligned.
    """
    start, end = memory.last
    if access.kind == "read":
        end = max(end, memory.readable)
    last = end - start - access.size
    if start % access.alignment:
        # Offsets are not aligned where addresses are.
        last = -1
    bits = 8 * unsigned.itemsize
    first = np.array((start - access.step) % (1 << bits), unsigned)
    #: Makes the bits of an offset that are zeros if it is aligned the highest ones.
    up = np.array(bits + 1 - access.alignment.bit_length(), unsigned)
    width = access.dtype.itemsize
    shift = np.array(width.bit_length() - 1, S64)
    view = memory.view(access.dtype)[(start - memory.base) // width :]

    def locate(lanes: "Lanes", address: Array) -> tuple[Array, Array] | None:
        offset = address - first
        most = offset | (offset << up)
        if most.item(most.argmax()) > last:
            return None
        if unsigned is U64:
            offset = offset.view(S64)
        else:
            offset = offset.astype(S64)
        if memory.pieces > 1:
            offset = offset + lanes.column("shared")
        return view, offset >> shift

    return locate


class Arena(Memory):
    """Global memory: bytes at a base address, and the ranges that a kernel may access."""

    def __init__(self, data: Array, base: int) -> None:
        super().__init__(data)
        self.base = base
        self.ranges: list[tuple[int, int]] | None = None
        self.starts: list[int] = []
        self.ends: list[int] = []
        #: Memory that a stream allocates in its order, before it has done so: address and size.
        self.unordered: list[tuple[int, int]] = []
        self.heap: Heap | None = None
        self.make_heap: type[Heap] = Heap
        #: Of device_launches.py.
        self.children: Any = None

    def set_ranges(self, ranges: list[tuple[int, int]]) -> None:
        """Set the ranges that a kernel may access: address and size, sorted by address."""
        if ranges == self.ranges:
            return
        limit = self.base + len(self.bytes)
        self.starts = [address for address, _ in ranges]
        self.ends = [address + size for address, size in ranges]
        if any(
            start < self.base or end > limit
            for start, end in zip(self.starts, self.ends, strict=True)
        ):
            raise PtxError("CUDA_ERROR_INVALID_VALUE", "a range of memory is outside the arena")
        self.ranges = list(ranges)
        self.last = (0, 0)
        self.start_array = np.array(self.starts, U64)
        self.end_array = np.array(self.ends, U64)

    def is_unordered(self, address: int) -> bool:
        """Return whether a stream has yet to allocate the memory at an address."""
        return any(start <= address < start + size for start, size in self.unordered)

    def has(self, low: int, high: int) -> bool:
        """Return whether a range has all bytes from one address to another."""
        number = bisect.bisect_right(self.starts, low) - 1
        if number < 0 or high > self.ends[number]:
            return False
        self.last = (self.starts[number], self.ends[number])
        return True

    def offsets(self, address: Array) -> Array:
        """Return the offsets of addresses."""
        return (address - np.uint64(self.base)).view(S64)

    def outside(self, address: Array, size: int, room: int) -> Array:
        """Return whether each address is in no range."""
        place = np.searchsorted(self.start_array, address, side="right").astype(S64) - 1
        ends = np.append(self.end_array, U64.type(0))[place]
        return np.asarray(
            (place < 0) | (address + np.uint64(size) > ends) | (address > np.uint64(2**63))
        )


class Heap(Arena):
    """Memory that kernels allocate: it grows, and freed pieces are used again."""

    def __init__(self) -> None:
        super().__init__(np.zeros(1 << 16, U8), HEAP)
        self.top = 16
        self.sizes: dict[int, int] = {}
        self.free: dict[int, list[int]] = {}
        self.set_ranges([(HEAP + 16, 0)])

    def allocate(self, size: int) -> int:
        """Return the address of `size` bytes, or 0 if the heap is full."""
        size = aligned(max(size, 1), 16)
        if self.free.get(size):
            address = self.free[size].pop()
        else:
            if self.top + size > HEAP_BYTES:
                return 0
            address = HEAP + self.top
            self.top += size
            if self.top > len(self.bytes):
                data = np.zeros(2 * self.top, U8)
                data[: len(self.bytes)] = self.bytes
                Memory.__init__(self, data)
            self.set_ranges([(HEAP + 16, self.top - 16)])
        self.sizes[address] = size
        return address

    def release(self, address: int) -> bool:
        """Free a piece, and return whether there was one at this address."""
        size = self.sizes.pop(address, 0)
        if size:
            self.free.setdefault(size, []).append(address)
        return bool(size)


class LaneMemory(Memory):
    """Memory that each block or each lane has of its own: pieces of one size, one after the
    other.
    """

    def __init__(self, space: str, pieces: int, size: int, execution: Any = None) -> None:
        self.space = space
        self.pieces = pieces
        self.resize(size)

    def resize(self, size: int) -> None:
        """Make pieces of a size, which have zeros."""
        self.size = size
        self.last = (0, size)
        self.readable = size
        if self.space == "shared":
            self.readable = aligned(size, GRANULE)
        self.stride = aligned(max(self.readable, 16), 16)
        Memory.__init__(self, np.zeros(self.pieces * self.stride, U8))

    def tables(self) -> list[Array]:
        """Return the bytes of the pieces."""
        return [self.bytes.reshape(-1, self.stride)]

    def grow(self, size: int) -> None:
        """Make each piece larger and keep the contents."""
        before = self.tables()
        self.moves = True
        self.resize(size)
        for new, old in zip(self.tables(), before, strict=True):
            new[:, : old.shape[1]] = old


def shifted(view: Array, index: Array, step: int) -> tuple[Array, Array]:
    """Return a view and indices of the elements that are `step` behind those at `index`."""
    if step >= 0:
        return view[step:], index
    return view, index + step


def stepped(address: Array, step: int) -> Array:
    """Return addresses with a constant added, as a device adds it."""
    if not step:
        return address
    mask = (1 << 8 * address.dtype.itemsize) - 1
    return address + np.array(step & mask, address.dtype)


def fault(
    lanes: "Lanes",
    address: Array,
    bad: Array,
    access: Access,
    space: str,
    what: str = "ILLEGAL",
) -> PtxError:
    """Return the error of the first bad address: it is out of bounds, or misaligned."""
    position = int(np.argmax(bad))
    how = {"ILLEGAL": "out of bounds", "MISALIGNED": "misaligned"}[what]
    if space == "global" and lanes.frame.execution.arena.is_unordered(int(address[position])):
        how = f"unordered: it is in {STREAM_ORDERED}"
    text = f"{access.kind} of {access.size} bytes at {space} address 0x{int(address[position]):x} is {how}"
    return lanes.error(f"CUDA_ERROR_{what}_ADDRESS", text, position)


def store(view: Array, index: Array, value: Any) -> None:
    """Store values at indices; of several lanes that store to one element, the last wins."""
    if len(index) == 1 and len(value) > 1:
        value = value[-1:]
    view[index] = value
