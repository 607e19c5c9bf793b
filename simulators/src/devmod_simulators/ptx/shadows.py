"""Memory with shadows: what may be accessed, which thread accessed an element last and when, and
which bytes something wrote.

A record has a time in its high 32 bits and a thread of the launch in its low ones. Time counts the
accesses and barriers of a process.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from devmod_simulators.ptx.memory import (
    Arena,
    Heap,
    LaneMemory,
    Memory,
    alignment_of,
    place_of,
    stepped,
)
from devmod_simulators.ptx.ptx_types import S64, U8, Array, DType

if TYPE_CHECKING:
    from devmod_simulators.ptx.checked import CheckedExecution
    from devmod_simulators.ptx.lanes import Lanes
    from devmod_simulators.ptx.sanitizer import Sanitizer

#: The bit of a record for an atomic access, or one of another kind that synchronizes.
STRONG = 1 << 31
THREAD = STRONG - 1
#: A barrier whose wait, and not an arrival, orders what came before the arrivals.
_PHASED = "mbarrier"
_NO_RESERVE = 0x4000  # Python 3.13 has the name mmap.MAP_NORESERVE
#: What a byte of memory holds: a written value, nothing that was written, a value that was computed
#: of one that nothing wrote, a copy of one that nothing wrote.
WRITTEN, UNWRITTEN, COMPUTED, COPIED = 0, 1, 2, 3


def sparse(count: int, dtype: DType) -> Array:
    """Return an array of zeros that takes memory where it is written."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    return np.frombuffer(mmap.mmap(-1, count * dtype.itemsize, flags=flags), dtype)


def copied(states: Array) -> Array:
    """Return what the bytes of a copy hold."""
    return np.where(states == UNWRITTEN, COPIED, states).astype(U8)


@dataclass
class Touched:
    """An access of the step that runs: its lanes, the elements of each in the whole memory, and in
    the view that the step has.
    """

    memory: Shadow
    lanes: Lanes
    index: Array
    dtype: DType
    count: int
    access: str
    view: Array
    place: Array

    def states(self) -> list[Array]:
        """Return what the bytes hold, as elements."""
        view = self.memory.bytes_written.view(self.dtype)
        return [view.take(self.index + number) for number in range(self.count)]

    def set_states(self, states: list[Any]) -> None:
        """Note what the bytes hold."""
        view, index = self.memory.bytes_written.view(self.dtype), self.lanes.spread(self.index)
        for number, state in enumerate(states):
            view[index + number] = state


class Shadow:
    """The records of a memory. `grain` is the number of bytes that have one record."""

    def __init__(self, sanitizer: Sanitizer, size: int, grain: int, space: str) -> None:
        self.sanitizer, self.space = sanitizer, space
        self.bytes_written = sparse(size, U8)
        if space != "global":
            self.bytes_written[:] = UNWRITTEN
        self.reset(grain)

    def reset(self, grain: int) -> None:
        """Forget the accesses."""
        self.grain = grain
        self.writes, self.reads, self.other_reads = (
            sparse(len(self.bytes_written) // grain + 8, S64) for _ in range(3)
        )
        self.last_write = 0

    def grains(self, index: Array, dtype: DType, size: int) -> list[Array]:
        """Return the indices of the records of accesses."""
        shift = dtype.itemsize.bit_length() - self.grain.bit_length()
        first = (
            index << np.int64(shift) if shift > 0 else index >> np.int64(-shift) if shift else index
        )
        return [first, *(first + number for number in range(1, size // self.grain))]

    def records(
        self, execution: CheckedExecution, lanes: Lanes, index: Array, strong: bool
    ) -> tuple[Array, Array]:
        """Return the index and the record of each lane's access, which has a new time."""
        now = self.sanitizer.tick(execution.site)
        return lanes.spread(index), lanes.spread(
            lanes.column("number_thread") | (now << 32 | (STRONG if strong else 0))
        )

    def read(self, execution: CheckedExecution, lanes: Lanes, index: Array, strong: bool) -> None:
        """Note a read of an element by each lane. Of an element's reads, the last one has a record,
        and another thread's.
        """
        index, record = self.records(execution, lanes, index, strong)
        if self.last_write >= execution.quiet(self):
            self.compare(execution, lanes, self.writes, index, record, "read")
        old = self.reads.take(index)
        differs = (old & THREAD) != (record & THREAD)
        self.other_reads[index[differs]] = old[differs]
        self.reads[index] = record
        lost = self.reads.take(index) != record
        self.other_reads[index[lost]] = record[lost]

    def write(
        self, execution: CheckedExecution, lanes: Lanes, index: Array, strong: bool, access: str
    ) -> None:
        """Note a write of an element by each lane."""
        index, record = self.records(execution, lanes, index, strong)
        for records in (self.writes, self.reads, self.other_reads):
            self.compare(execution, lanes, records, index, record, access)
        self.writes[index] = record
        self.last_write = self.sanitizer.now
        winners = self.writes.take(index)
        lost = np.flatnonzero(winners != record)
        if not len(lost) or access.startswith(_PHASED):
            return
        if strong:
            execution.meet(lanes)
            return
        won = np.minimum(np.searchsorted(record, winners[lost]), len(record) - 1)
        lost = lost[execution.differ(lost, won)]
        if len(lost):
            execution.race(lanes, lost, index[lost], winners[lost], access, "writes", self)

    def compare(
        self,
        execution: CheckedExecution,
        lanes: Lanes,
        records: Array,
        index: Array,
        record: Array,
        access: str,
    ) -> None:
        """Report the lanes whose access has no order with an earlier one."""
        site, before = execution.site, records.take(index)
        others = ((before & THREAD) != (record & THREAD)) | ((before >> 32) < self.sanitizer.begin)
        positions = np.flatnonzero(((before >> 32) >= execution.quiet(self)) & others)
        writes = records is self.writes
        if site is None or not len(positions) or (site.compares and not writes):
            return
        before, index, record = before[positions], index[positions], record[positions]
        both = (before & record & STRONG) != 0
        if self.space == "shared" and site.volatile:
            # Volatile accesses of one warp are no order: the lanes of a warp do not run in step.
            both &= ((before & THREAD) % execution.threads) >> 5 != lanes.spread(
                lanes.column("thread")
            )[positions] >> 5
        is_phased = access.startswith(_PHASED) or site.root == _PHASED
        if both.any() and writes and not is_phased:
            execution.acquire(lanes, positions[both], before[both])
        racing = ~both & execution.unordered(lanes, positions, before)
        if writes and access != "read" and racing.any():
            racing[racing] = ~execution.same(positions[racing])
        if (
            access == "read" and racing.any()
        ):  # what it has read is compared before it is used: the loop around atomicCAS begins so
            racing[racing] = [
                not getattr(self.sanitizer.sites[time], "compares", False)
                for time in before[racing] >> 32
            ]
        if racing.any():
            execution.race(
                lanes,
                positions[racing],
                index[racing],
                before[racing],
                access,
                "writes" if writes else "reads",
                self,
            )


class Checked(Memory):
    """Memory whose accesses are checked. At the offset `spare` it has room for those that are out
    of bounds.
    """

    shadow: Any
    spare = 0

    def locate(
        self,
        lanes: Lanes,
        address: Array,
        size: int,
        dtype: DType,
        access: str,
        step: int,
        pieces: Array | None = None,
    ) -> tuple[Array, Array]:
        """Return a view and the indices of elements there, after all checks."""
        execution: Any = lanes.frame.execution
        limits, place, bad = execution.limits(self), place_of(self, lanes, address), None
        low, high = limits or self.last
        if (
            (place.union | step) & (alignment_of(size) - 1)
            or place.low + step < low
            or place.high + step + size > high
        ):
            address, step = stepped(address, step), 0
            bad = execution.refuse(self, lanes, address, size, access, limits)
        if bad is None:
            view, index = super().locate(lanes, address, size, dtype, access, step, pieces)
        else:
            view, index = self.view(dtype), self.elements(address, dtype.itemsize, pieces)
            index = np.where(bad, self.spare // dtype.itemsize, index)
        if self.shadow is not None:
            whole = index + step // dtype.itemsize if step > 0 else index
            execution.touch(
                Touched(
                    self.shadow, lanes, whole, dtype, size // dtype.itemsize, access, view, index
                ),
                bad,
            )
        return view, index


class ShadowLanes(Checked, LaneMemory):
    """Memory of each block or lane, with shadows. One more piece takes the accesses that are out of
    bounds.
    """

    def __init__(self, space: str, pieces: int, size: int, execution: Any = None) -> None:
        self.execution = execution
        LaneMemory.__init__(self, space, pieces + 1, size)

    def resize(self, size: int) -> None:
        """Make pieces of a size, of which nothing is known."""
        LaneMemory.resize(self, size)
        self.shadow, self.spare = None, len(self.bytes) - self.stride
        if self.space != "parameter":
            self.shadow = Shadow(
                self.execution.sanitizer,
                len(self.bytes),
                self.execution.program.watcher.grain,
                self.space,
            )

    def tables(self) -> list[Array]:
        """Return the bytes of the pieces, and what they hold."""
        return [
            *LaneMemory.tables(self),
            *(
                [self.shadow.bytes_written.reshape(-1, self.stride)]
                if self.shadow is not None
                else []
            ),
        ]


class ShadowHeap(Heap):
    """The device's own memory: an atomic access there, such as that of a barrier of the grid, comes
    after all accesses before it.
    """

    def locate(self, lanes: Lanes, *what: Any) -> tuple[Array, Array]:
        """Locate elements, as without checks."""
        execution: Any = lanes.frame.execution
        if execution.site is not None and execution.site.strong:
            execution.meet(lanes)
        return super().locate(lanes, *what)


class ShadowArena(Checked, Arena):
    """Global memory with shadows. The first bytes of the arena, which are no allocation, take the
    accesses that are out of bounds.
    """

    def __init__(self, arena: Arena, sanitizer: Sanitizer) -> None:
        Arena.__init__(self, arena.bytes, arena.base)
        self.shadow = Shadow(sanitizer, len(arena.bytes), 4, "global")
        self.make_heap = ShadowHeap
