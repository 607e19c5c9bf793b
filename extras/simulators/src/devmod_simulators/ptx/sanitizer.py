"""The checks of launches: the state that outlives a launch, and the reports."""

from __future__ import annotations

import bisect
import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from devmod_simulators.drivers.worker_process import Fields, text
from devmod_simulators.ptx.columns import Launch
from devmod_simulators.ptx.memory import Arena
from devmod_simulators.ptx.parameters import Parameter, parameters_of
from devmod_simulators.ptx.reports import ADVICE, Place, Report, source_of, width_of
from devmod_simulators.ptx.shadows import THREAD, UNWRITTEN, WRITTEN, ShadowArena, copied
from devmod_simulators.ptx.streams import Order, Work

if TYPE_CHECKING:
    from devmod_simulators.ptx.checked import CheckedExecution, Site
    from devmod_simulators.ptx.program import Program

#: The largest allocation whose bytes are followed until something writes them.
_FOLLOWED = 1 << 28
#: The kinds of the driver's notes.
_ALLOCATED = 1
_FREED = 2
_ACCESS = 3
#: An address that is farther from an allocation than this, and than its size, is not one of it.
_NEAR = 1 << 16
#: Addresses below it come from a null pointer.
_NULL = 1 << 16
#: The most reports of a launch.
_MOST = 64


@dataclass
class Allocation:
    """Memory of the device: where it was allocated and freed, as places in the host's program."""

    start: int
    size: int
    place: str = ""
    freed: str | None = None


class Sanitizer:
    """The checks of a process: its allocations, its global memory with shadows, and the launch that
    runs.
    """

    def __init__(self, arena: Arena) -> None:
        self.arena = ShadowArena(arena, self)
        self.allocations: dict[int, Allocation] = {}
        self.freed: list[Allocation] = []
        self.now = 1
        #: The instruction of each time.
        self.sites: list[Any] = [None, None]
        self.checks: frozenset[str] = frozenset()
        self.reports: dict[tuple[str, str], Report] = {}
        self.order = Order()

    def tick(self, site: Site | None) -> int:
        """Return a new time."""
        self.now += 1
        self.sites.append(site)
        return self.now

    # What the host does

    def allocated(self, start: int, size: int, place: str, written: bool) -> None:
        """Note an allocation. What the host may write to itself counts as written."""
        self.allocations[start] = Allocation(start, size, place)
        if not written and size <= _FOLLOWED:
            self.written(start, size, UNWRITTEN)

    def released(self, start: int, place: str) -> None:
        """Note that memory was freed."""
        allocation = self.allocations.pop(start, None)
        if allocation is not None:
            allocation.freed = place
            self.written(start, min(allocation.size, _FOLLOWED))
            self.freed.append(allocation)
            del self.freed[:-1000]

    def written(self, start: int, size: int, value: int = WRITTEN) -> None:
        """Note that the host has written to memory."""
        first = start - self.arena.base
        self.arena.shadow.bytes_written[first : first + size] = value

    def take(self, fields: Fields) -> None:
        """Take the notes of the driver (drivers/protocol.md)."""
        while fields.at < len(fields.data):
            kind = fields.u32()
            if kind == _ALLOCATED:
                start, size, written = fields.numbers("QQI")
                self.allocated(start, size, fields.bytes().decode(), bool(written))
            elif kind == _FREED:
                (start,) = fields.numbers("Q")
                self.released(start, fields.bytes().decode())
            elif kind == _ACCESS:
                self.copied(fields.numbers("QQ"), *fields.numbers("6Q"))  # type: ignore[arg-type]
            else:
                stream, number, operation = fields.numbers("3Q")
                self.order.take(kind, stream, number, operation, fields.bytes().decode())

    def copied(
        self,
        work: Work,
        start: int,
        pitch: int,
        width: int,
        rows: int,
        source: int,
        source_pitch: int,
    ) -> None:
        """Note a copy or a fill of rows: what they hold, and races with work of other streams."""
        states = self.arena.shadow.bytes_written
        self.begin_work(work, "a copy or a fill")
        for row in range(rows):
            first = start + row * pitch - self.arena.base
            other = source + row * source_pitch - self.arena.base
            if source:
                self.work_accesses(other, width, "read")
            if start:
                self.work_accesses(first, width, "write")
                held: Any = WRITTEN
                if source:
                    held = copied(states[other : other + width])
                states[first : first + width] = held

    def packed(self) -> bytes:
        """Return the reports, for the driver, and forget them."""
        parts = [struct.pack("<I", len(self.reports))]
        for each in self.reports.values():
            parts += text(each.text), text(json.dumps(each.fields()))
        self.reports = {}
        return b"".join(parts)

    # Work of streams

    def begin_work(self, work: Work, what: str) -> None:
        """Note that an operation of a stream begins."""
        self.begin = self.tick(None)
        self.quiet = self.order.begin(work, what, self.begin)

    def work_accesses(self, first: int, size: int, access: str) -> None:
        """Note an access of a copy or a fill, and report a race with an operation of another
        stream.
        """
        shadow = self.arena.shadow
        grains = slice(first // shadow.grain, -(-(first + size) // shadow.grain))
        if self.quiet < self.begin and "race" in self.checks:
            self.find_race(shadow.writes, grains, access, "writes")
            if access == "write":
                self.find_race(shadow.reads, grains, access, "reads")
                self.find_race(shadow.other_reads, grains, access, "reads")
        now = self.tick(None)
        if access == "write":
            shadow.writes[grains] = now << 32 | THREAD
            shadow.last_write = now
        else:
            shadow.other_reads[grains] = shadow.reads[grains]
            shadow.reads[grains] = now << 32 | THREAD

    def find_race(self, records: Any, grains: slice, access: str, other: str) -> None:
        """Report a race of a copy or a fill with earlier accesses of one kind."""
        before = records[grains]
        candidates = np.flatnonzero((before >> 32) >= self.quiet)
        racing = candidates[self.order.unordered(before[candidates] >> 32)]
        if not len(racing):
            return
        time = int(before[racing[0]]) >> 32
        address = self.arena.base + (grains.start + int(racing[0])) * self.arena.shadow.grain
        owner = self.owner(address) or self.nearest(address)
        what = f"0x{address:x}"
        if owner is not None:
            what = (
                f"byte {address - owner.start} of {owner.size}, allocated at {owner.place or '?'}"
            )
        earlier = self.order.describe(time)
        detail = f"{what}; {earlier}, in another stream, {other} it, and nothing orders the two"
        title = f"race between streams ({access} and {other[:-1]})"
        here = self.order.describe(self.now)
        report = Report("race", title, here, "", (), (), detail, threads={0})
        self.reports.setdefault((title, earlier), report)

    # Launches

    def begin_launch(self, program: Program, launch: Launch, work: Work) -> None:
        """Note that a kernel begins."""
        self.program = program
        self.configuration = launch
        self.begin_work(work, f"the kernel {program.name}")
        self.limits: dict[Any, tuple[int, int] | None] = {}
        self.parameters: list[Parameter] | None = None

    def value(self, offset: int) -> int:
        """Return 8 bytes of the block of parameters."""
        return int.from_bytes(self.configuration.parameters[offset : offset + 8], "little")

    def owner(self, address: int) -> Allocation | None:
        """Return the allocation that an address is in."""
        arena = self.arena
        place = bisect.bisect_right(arena.starts, address) - 1
        if place < 0 or address >= arena.ends[place]:
            return None
        return self.allocations.get(arena.starts[place])

    def is_refused(self, address: int) -> bool:
        """Return whether an address is in an allocation that the kernel may not access."""
        if self.owner(address):
            return False
        return any(
            each.start <= address < each.start + each.size for each in self.allocations.values()
        )

    def freed_at(self, address: int) -> Allocation | None:
        """Return the allocation that an address was in before it was freed, unless it is in another
        one now.
        """
        if self.owner(address):
            return None
        for each in reversed(self.freed):
            if each.start <= address < each.start + each.size:
                return each
        return None

    def known_parameters(self) -> list[Parameter]:
        """Return the parameters of the kernel, by their numbers if the source does not tell
        more.
        """
        count = len(self.program.kernel.params)
        if self.parameters is None:
            self.parameters = parameters_of(self.program.module, self.program.name)
            if len(self.parameters) != count:
                self.parameters = [Parameter(number + 1) for number in range(count)]
        return self.parameters

    def parameter_at(self, offset: int) -> Parameter:
        """Return the parameter at an offset in the block of parameters."""
        position = self.program.kernel.offsets().index(offset)
        return self.known_parameters()[position]

    def argument_of(self, allocation: Allocation) -> tuple[Parameter, int] | None:
        """Return the argument that points into an allocation, and its value."""
        variables = self.program.kernel.params
        layout = self.program.layout(self.program.kernel)
        for parameter, variable in zip(self.known_parameters(), variables, strict=True):
            value = self.value(layout[variable.name][1])
            if (
                variable.size == 8
                and allocation.start <= value <= allocation.start + allocation.size
            ):
                return parameter, value
        return None

    def nearest(self, address: int) -> Allocation | None:
        """Return the allocation that is next to an address, unless it is far away."""

        def gap(each: Allocation) -> int:
            return max(each.start - address, address - each.start - each.size + 1)

        found = min(self.allocations.values(), key=gap, default=None)
        if found is None or gap(found) > max(_NEAR, found.size):
            return None
        return found

    def describe(self, kind: str, address: int, allocation: Allocation | None) -> Place:
        """Return what is at an address of global memory."""
        if allocation is None:
            what = "a null pointer" if address < _NULL else "no allocation is near it"
            return Place(f"0x{address:x}", what)
        parameter, start = self.argument_of(allocation) or (Parameter(0), allocation.start)
        number = parameter.number
        name = parameter.name
        kind = parameter.kind or kind
        width = width_of(kind)
        index = (address - start) // width
        count = (allocation.start + allocation.size - start) // width
        known = "the allocation"
        if name:
            known = name
        elif number:
            known = f"argument {number}"
        is_freed = allocation.freed is not None
        verb = "was" if is_freed else "is"
        array = f"{known} {verb} {kind}[{count}]"
        if name:
            array += f" of argument {number} ('{name}')"
        if allocation.place:
            array += f", allocated at {allocation.place}"
        if allocation.freed:
            array += f", freed at {allocation.freed}"
        return Place(f"{known}[{index}]", array, name, index, is_freed)

    def report(
        self,
        execution: CheckedExecution,
        check: str,
        kind: str,
        site: Site,
        lanes: Any,
        *detail: Any,
    ) -> None:
        """Note a fault of lanes, the first of which has the detail."""
        line = self.program.module.text.source(site.instruction)
        where = f"{line}" if line[1] else f"PTX {site.instruction.line}"
        key = kind, where
        threads = {execution.blocks.start * execution.threads + int(lane) for lane in lanes}
        known = self.reports.get(key)
        if known is not None:
            known.threads |= threads
        elif len(self.reports) < _MOST:
            block, thread = execution.where(int(lanes[0]))
            source = source_of(self.program.module, site.instruction)
            self.reports[key] = Report(
                check, kind, source, self.program.name, block, thread, *detail
            )
            self.reports[key].threads = threads
            if not self.program.module.text.files:
                self.reports[key].advice = ADVICE
