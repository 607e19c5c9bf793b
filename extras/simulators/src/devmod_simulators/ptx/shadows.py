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

from devmod_simulators.drivers.worker_process import NO_RESERVE
from devmod_simulators.ptx.memory import (
    Access,
    Arena,
    Heap,
    LaneMemory,
    Memory,
    place_of,
    stepped,
)
from devmod_simulators.ptx.ptx_types import S64, U8, Array, DType

if TYPE_CHECKING:
    from devmod_simulators.ptx.lanes import Lanes
    from devmod_simulators.ptx.sanitizer import Sanitizer

#: The bit of a record for an atomic access, or one of another kind that synchronizes.
STRONG = 1 << 31
THREAD = STRONG - 1
#: A barrier whose wait, and not an arrival, orders what came before the arrivals.
_PHASED = "mbarrier"
#: What a byte of memory holds: a written value, nothing that was written, a value that was computed
#: of one that nothing wrote, a copy of one that nothing wrote.
WRITTEN = 0
UNWRITTEN = 1
COMPUTED = 2
COPIED = 3


def sparse(count: int, dtype: DType) -> Array:
    """Return an array of zeros that takes memory where it is written."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
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
    access: Access
    view: Array
    place: Array
    #: Whether the access is meant to meet those of other threads.
    strong: bool = False

    @property
    def execution(self) -> Any:
        """The execution of the lanes, with checks."""
        return self.lanes.frame.execution

    def states(self) -> list[Array]:
        """Return what the bytes hold, as elements."""
        view = self.memory.bytes_written.view(self.access.dtype)
        return [view.take(self.index + number) for number in range(self.access.count)]

    def set_states(self, states: list[Any]) -> None:
        """Note what the bytes hold."""
        view = self.memory.bytes_written.view(self.access.dtype)
        index = self.lanes.spread(self.index)
        for number, state in enumerate(states):
            view[index + number] = state


class Shadow:
    """The records of a memory. `grain` is the number of bytes that have one record."""

    def __init__(self, sanitizer: Sanitizer, size: int, grain: int, space: str) -> None:
        self.sanitizer = sanitizer
        self.space = space
        self.bytes_written = sparse(size, U8)
        if space != "global":
            self.bytes_written[:] = UNWRITTEN
        self.reset(grain)

    def reset(self, grain: int) -> None:
        """Forget the accesses."""
        self.grain = grain
        count = len(self.bytes_written) // grain + 8
        self.writes = sparse(count, S64)
        self.reads = sparse(count, S64)
        self.other_reads = sparse(count, S64)
        self.last_write = 0

    def grains(self, index: Array, access: Access) -> list[Array]:
        """Return the indices of the records of accesses."""
        shift = access.dtype.itemsize.bit_length() - self.grain.bit_length()
        first = index
        if shift > 0:
            first = index << np.int64(shift)
        elif shift:
            first = index >> np.int64(-shift)
        return [first, *(first + number for number in range(1, access.size // self.grain))]

    def records(self, each: Touched, index: Array) -> tuple[Array, Array]:
        """Return the index and the record of each lane's access, which has a new time."""
        lanes = each.lanes
        mark = self.sanitizer.tick(each.execution.site) << 32
        if each.strong:
            mark |= STRONG
        return lanes.spread(index), lanes.spread(lanes.column("number_thread") | mark)

    def read(self, each: Touched, index: Array) -> None:
        """Note a read of an element by each lane. Of an element's reads, the last one has a record,
        and another thread's.
        """
        index, record = self.records(each, index)
        if self.last_write >= each.execution.quiet(self):
            self.compare(each, self.writes, index, record)
        old = self.reads.take(index)
        differs = (old & THREAD) != (record & THREAD)
        self.other_reads[index[differs]] = old[differs]
        self.reads[index] = record
        lost = self.reads.take(index) != record
        self.other_reads[index[lost]] = record[lost]

    def write(self, each: Touched, index: Array) -> None:
        """Note a write of an element by each lane."""
        execution = each.execution
        index, record = self.records(each, index)
        for records in (self.writes, self.reads, self.other_reads):
            self.compare(each, records, index, record)
        self.writes[index] = record
        self.last_write = self.sanitizer.now
        winners = self.writes.take(index)
        lost = np.flatnonzero(winners != record)
        if not len(lost) or each.access.kind.startswith(_PHASED):
            return
        if each.strong:
            execution.meet(each.lanes)
            return
        won = np.minimum(np.searchsorted(record, winners[lost]), len(record) - 1)
        lost = lost[execution.differ(each, lost, won)]
        if len(lost):
            execution.race(each, lost, index[lost], winners[lost], "writes")

    def compare(self, each: Touched, records: Array, index: Array, record: Array) -> None:
        """Report the lanes whose access has no order with an earlier one."""
        execution = each.execution
        site = execution.site
        access = each.access.kind
        before = records.take(index)
        others = ((before & THREAD) != (record & THREAD)) | ((before >> 32) < self.sanitizer.begin)
        positions = np.flatnonzero(((before >> 32) >= execution.quiet(self)) & others)
        writes = records is self.writes
        if site is None or not len(positions) or (site.compares and not writes):
            return
        before = before[positions]
        both = (before & record[positions] & STRONG) != 0
        if self.space == "shared" and site.volatile:
            # Volatile accesses of one warp are no order: the lanes of a warp do not run in step.
            threads = each.lanes.spread(each.lanes.column("thread"))[positions]
            both &= ((before & THREAD) % execution.threads) >> 5 != threads >> 5
        is_phased = access.startswith(_PHASED) or site.root == _PHASED
        if both.any() and writes and not is_phased:
            execution.acquire(each.lanes, positions[both], before[both])

        racing = ~both & execution.unordered(each.lanes, positions, before)
        if not racing.any():
            return
        if access == "read":
            self.forgive_comparisons(before, racing)
        elif writes:
            racing[racing] = ~execution.same(each, positions[racing])
        if racing.any():
            positions = positions[racing]
            other = "writes" if writes else "reads"
            execution.race(each, positions, index[positions], before[racing], other)

    def forgive_comparisons(self, before: Array, racing: Array) -> None:
        """Take the reads of what an atomic comparison writes as no races."""
        # What it has read is compared before it is used: the loop around atomicCAS begins so.
        for position in np.flatnonzero(racing):
            other = self.sanitizer.sites[before[position] >> 32]
            racing[position] = not getattr(other, "compares", False)


class Checked(Memory):
    """Memory whose accesses are checked. At the offset `spare` it has room for those that are out
    of bounds.
    """

    shadow: Any
    spare = 0

    def locate(
        self, lanes: Lanes, address: Array, access: Access, pieces: Array | None = None
    ) -> tuple[Array, Array]:
        """Return a view and the indices of elements there, after all checks."""
        execution: Any = lanes.frame.execution
        limits = execution.limits(self)
        place = place_of(self, lanes, address)
        step = access.step
        whole = self.view(access.dtype)
        bad = None
        low, high = limits or self.last
        if (
            (place.union | step) & (access.alignment - 1)
            or place.low + step < low
            or place.high + step + access.size > high
        ):
            bad = execution.refuse(self, lanes, stepped(address, step), access, limits)
        if bad is None:
            view, index = super().locate(lanes, address, access, pieces)
        else:
            view = whole
            index = self.elements(stepped(address, step), access.dtype.itemsize, pieces)
            index = np.where(bad, self.spare // access.dtype.itemsize, index)
        if self.shadow is not None:
            # A view begins behind the first elements of the memory.
            place_in_whole = index + (len(whole) - len(view))
            touched = Touched(self.shadow, lanes, place_in_whole, access, view, index)
            execution.touch(touched, bad)
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
        self.shadow = None
        self.spare = len(self.bytes) - self.stride
        if self.space != "parameter":
            self.shadow = Shadow(
                self.execution.sanitizer,
                len(self.bytes),
                self.execution.program.watcher.grain,
                self.space,
            )

    def tables(self) -> list[Array]:
        """Return the bytes of the pieces, and what they hold."""
        tables = LaneMemory.tables(self)
        if self.shadow is None:
            return tables
        return [*tables, self.shadow.bytes_written.reshape(-1, self.stride)]


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
