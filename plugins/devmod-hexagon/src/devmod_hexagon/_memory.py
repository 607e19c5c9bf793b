"""The memory of a device: the arena of its runner, divided by the host."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from devmod_runtime import lend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_hexagon._runner_thread import RunnerThread
    from devmod_runtime import Lease

#: The vectors of HVX have 128 bytes.
ALIGNMENT = 128


class Memory:
    """Bytes of a device's arena. They become free after the last reference is gone.

    Attributes
    ----------
    runner
        The runner of the arena. After its end, the memory cannot be used.
    address, nbytes
        The place in the address space of the kernels.
    """

    __slots__ = ("__weakref__", "_token", "address", "nbytes", "runner")

    def __init__(self, runner: RunnerThread, address: int, nbytes: int) -> None:
        self.runner = runner
        self.address = address
        self.nbytes = nbytes
        self._token: object = None


class Part(Memory):
    """A part of memory. It keeps `owner` alive: the whole memory, or the image that contains it."""

    __slots__ = ("_owner",)

    def __init__(self, runner: RunnerThread, address: int, nbytes: int, owner: object) -> None:
        super().__init__(runner, address, nbytes)
        self._owner = owner


class Arena:
    """An allocator by first fit. One thread uses it.

    Parameters
    ----------
    runner
        The runner of the arena.
    address, nbytes
        Its place.
    """

    def __init__(self, runner: RunnerThread, address: int, nbytes: int) -> None:
        self._runner = runner
        start = -(-address // ALIGNMENT) * ALIGNMENT
        #: The starts and the ends of the free ranges, by address. Adjacent ranges are merged.
        self._starts = [start]
        self._ends = [address + nbytes]
        self._leases: dict[int, Lease] = {}
        #: Leases of collected memory. A finalizer of another object may still use it until the lease has expired.
        self._ended: deque[Any] = deque()

    @property
    def free_bytes(self) -> int:
        """The sum of the free ranges in bytes."""
        self._collect()
        return sum(self._ends) - sum(self._starts)

    def allocate(self, nbytes: int, alignment: int = ALIGNMENT) -> Memory | None:
        """Return memory of `nbytes` bytes; None if no range is large enough."""
        self._collect()
        size = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        for place in range(len(self._starts)):
            start, end = self._starts[place], self._ends[place]
            address = -(-start // alignment) * alignment
            if address + size <= end:
                break
        else:
            return None
        ranges = [each for each in ((start, address), (address + size, end)) if each[0] < each[1]]
        self._starts[place : place + 1] = [each[0] for each in ranges]
        self._ends[place : place + 1] = [each[1] for each in ranges]
        memory = Memory(self._runner, address, nbytes)
        lease = lend(memory, (address, size), self._ended.append)
        memory._token = lease.token
        self._leases[id(lease)] = lease
        return memory

    def _collect(self) -> None:
        for _ in range(len(self._ended)):
            lease = self._ended.popleft()
            if lease.expired:
                self._leases.pop(id(lease), None)
                self._release(*lease.value)
            else:
                self._ended.append(lease)

    def _release(self, start: int, size: int) -> None:
        end = start + size
        place = bisect_left(self._starts, start)
        if place < len(self._starts) and self._starts[place] == end:
            end = self._ends[place]
            del self._starts[place], self._ends[place]
        if place and self._ends[place - 1] == start:
            self._ends[place - 1] = end
        else:
            self._starts.insert(place, start)
            self._ends.insert(place, end)
