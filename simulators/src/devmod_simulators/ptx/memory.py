"""The memory of a launch: the arena (global memory), and shared, local and parameter memory of the lanes that run at once."""

import bisect
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import PtxError
from .ptx_types import S64, U8, U64, Array, DType

if TYPE_CHECKING:
    from .lanes import Lanes

#: Global memory of the device's own, which the host does not reach: the heap of malloc, the workspace of cooperative launches.
HEAP = 1 << 47
#: Generic addresses. Global addresses are below 2**48.
SHARED_WINDOW = 1 << 48
LOCAL_WINDOW = (1 << 48) + (1 << 44)
PARAM_WINDOW = (1 << 48) + (2 << 44)
WINDOW_SHIFT = 44
#: Addresses of shared memory of a cluster have the rank of the block plus one above this bit.
CLUSTER_SHIFT = 24
#: Addresses in the parameter space at or above this one are parameters of device functions: they are in local memory.
FUNCTION_PARAMETERS = 1 << 40
#: Addresses of functions.
CODE_WINDOW = 0x10_0000

#: The most bytes of the heap: CUDA's default.
HEAP_BYTES = 8 << 20


class Views:
    """An array of bytes as an array of each element type."""

    def __init__(self, data: Array) -> None:
        self.bytes = data
        self.views: dict[DType, Array] = {U8: data}

    def view(self, dtype: DType) -> Array:
        """Return the memory as elements of `dtype`."""
        view = self.views.get(dtype)
        if view is None:
            view = self.views[dtype] = self.bytes[: len(self.bytes) // dtype.itemsize * dtype.itemsize].view(dtype)
        return view


class Arena(Views):
    """Global memory: bytes at a base address, and the ranges that a kernel may access."""

    def __init__(self, data: Array, base: int) -> None:
        super().__init__(data)
        self.base = base
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.last = (0, 0)
        self.heap: Heap | None = None

    def set_ranges(self, ranges: list[tuple[int, int]]) -> None:
        """Set the ranges that a kernel may access: address and size, sorted by address."""
        limit = self.base + len(self.bytes)
        self.starts = [address for address, _ in ranges]
        self.ends = [address + size for address, size in ranges]
        if any(start < self.base or end > limit for start, end in zip(self.starts, self.ends, strict=True)):
            raise PtxError("CUDA_ERROR_INVALID_VALUE", "a range of memory is outside the arena")
        self.last = (0, 0)
        self.start_array = np.array(self.starts, U64)
        self.end_array = np.array(self.ends, U64)

    def locate(self, lanes: "Lanes", address: Array, size: int, width: int, access: str) -> Array:
        """Return the indices of elements of `width` bytes, after a check that each lane may access `size` bytes."""
        if len(address) == 1:
            low = high = int(address[0])
            union = low
        else:
            low, high = int(address.min()), int(address.max())
            union = int(np.bitwise_or.reduce(address))
        if union & (size - 1):
            misaligned(lanes, address, size, access, "global")
        start, end = self.last
        if low < start or high + size > end:
            place = bisect.bisect_right(self.starts, low) - 1
            if place >= 0 and high + size <= self.ends[place]:
                self.last = (self.starts[place], self.ends[place])
            else:
                self.check_each(lanes, address, size, access)
        if len(address) == 1:
            return np.array([(low - self.base) // width], S64)
        offset = (address - np.uint64(self.base)).view(S64)
        return offset if width == 1 else offset >> np.int64(width.bit_length() - 1)

    def check_each(self, lanes: "Lanes", address: Array, size: int, access: str) -> None:
        """Raise an error for the first lane whose address is in no range."""
        if self.starts:
            place = np.searchsorted(self.start_array, address, side="right").astype(S64) - 1
            ends = self.end_array[np.maximum(place, 0)]
            bad = (place < 0) | (address + np.uint64(size) > ends) | (address > np.uint64(2**63))
        else:
            bad = np.ones(len(address), bool)
        if bad.any():
            illegal(lanes, address, bad, size, access, "global")


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
        size = -(-max(size, 1) // 16) * 16
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
                Views.__init__(self, data)
            self.set_ranges([(HEAP + 16, self.top - 16)])
        self.sizes[address] = size
        return address

    def release(self, address: int) -> bool:
        """Free a piece, and return whether there was one at this address."""
        size = self.sizes.pop(address, 0)
        if size:
            self.free.setdefault(size, []).append(address)
        return bool(size)


class LaneMemory(Views):
    """Memory that each block or each lane has of its own: pieces of one size, one after the other."""

    def __init__(self, space: str, pieces: int, size: int) -> None:
        self.space = space
        self.size = size
        self.stride = -(-max(size, 16) // 16) * 16
        super().__init__(np.zeros(pieces * self.stride, U8))

    def locate(self, lanes: "Lanes", pieces: Array | None, offset: Array, size: int, width: int, access: str) -> Array:
        """Return the indices of elements of `width` bytes: `pieces` are the first bytes of each lane's piece."""
        if len(offset) == 1:
            low = high = int(offset[0])
            union = low
        else:
            low, high = int(offset.min()), int(offset.max())
            union = int(np.bitwise_or.reduce(offset))
        if union & (size - 1):
            misaligned(lanes, offset, size, access, self.space)
        if low < 0 or high + size > self.size:
            illegal(lanes, offset, offset.astype(np.float64) + size > self.size, size, access, self.space)
        index = offset.astype(S64)
        if pieces is not None:
            index = index + pieces
        return index if width == 1 else index >> np.int64(width.bit_length() - 1)

    def grow(self, size: int, pieces: int) -> None:
        """Make each piece larger and keep the contents."""
        old, stride = self.bytes.reshape(pieces, self.stride), self.stride
        self.size = size
        self.stride = -(-size // 16) * 16
        new = np.zeros((pieces, self.stride), U8)
        new[:, :stride] = old
        super().__init__(new.reshape(-1))


def _where(lanes: "Lanes", position: int) -> str:
    return lanes.describe(position if lanes.count > 1 else 0)


def illegal(lanes: "Lanes", address: Array, bad: Array, size: int, access: str, space: str) -> None:
    """Raise an error for the first bad address."""
    position = int(np.argmax(bad))
    value = int(address[position])
    raise PtxError(
        "CUDA_ERROR_ILLEGAL_ADDRESS", f"{access} of {size} bytes at {space} address 0x{value:x} is out of bounds, {_where(lanes, position)}"
    )


def misaligned(lanes: "Lanes", address: Array, size: int, access: str, space: str) -> None:
    """Raise an error for the first misaligned address."""
    position = int(np.argmax((address & address.dtype.type(size - 1)) != 0))
    value = int(address[position])
    raise PtxError(
        "CUDA_ERROR_MISALIGNED_ADDRESS", f"{access} of {size} bytes at {space} address 0x{value:x} is misaligned, {_where(lanes, position)}"
    )


def store(view: Array, index: Array, value: Any) -> None:
    """Store values at indices; of several lanes that store to one element, the last wins."""
    if len(index) == 1 and len(value) > 1:
        value = value[-1:]
    view[index] = value
