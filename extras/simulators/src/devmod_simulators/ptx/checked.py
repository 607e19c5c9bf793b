"""Execution with checks: steps that know their instruction, and the order of accesses by barriers,
warps and atomics.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from devmod_simulators.ptx.barriers import Barriers, Waiting
from devmod_simulators.ptx.columns import Launch
from devmod_simulators.ptx.decoder import Decoder, Step
from devmod_simulators.ptx.device_launches import Child
from devmod_simulators.ptx.ends import Branch, Leave
from devmod_simulators.ptx.engines import execute
from devmod_simulators.ptx.execution import Execution
from devmod_simulators.ptx.inflight import InFlight
from devmod_simulators.ptx.instructions import ADDRESSES, DESCRIPTORS, names
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.memory import STREAM_ORDERED, Access, Arena, Memory
from devmod_simulators.ptx.ops_together import BarrierOperation, ClusterBarrier, WarpOperation
from devmod_simulators.ptx.ops_warp import Warps, bits_of
from devmod_simulators.ptx.origins import UNKNOWN, origins_of
from devmod_simulators.ptx.poison import Poison
from devmod_simulators.ptx.program import Block, Code, Program
from devmod_simulators.ptx.ptx_types import S64, Address, Array, Register, aligned
from devmod_simulators.ptx.reports import (
    Place,
    Report,
    counted,
    local_argument,
    shown_name,
    source_of,
    type_of,
    variable_place,
    width_of,
)
from devmod_simulators.ptx.sanitizer import Sanitizer
from devmod_simulators.ptx.shadows import THREAD, Shadow, ShadowArena, ShadowLanes, Touched
from devmod_simulators.ptx.streams import Work

if TYPE_CHECKING:
    from devmod_simulators.ptx.barriers import Barrier
    from devmod_simulators.ptx.module import Module
    from devmod_simulators.ptx.origins import Origin
    from devmod_simulators.ptx.ptx_types import Instruction

#: The checks that compiled code makes, and those that launches take no part in.
_COMPILED = {"bounds", "align", "free", "leak", "copies", "volatile"}
_PLAIN = names(*ADDRESSES)
_MEMORY = _PLAIN | names(DESCRIPTORS) | {"call"}
Ranges = list[tuple[int, int]]
_NO_ACCESS = (
    "; this device has no access to it, which cuCtxEnablePeerAccess, cuMemPoolSetAccess or "
    "cuMemSetAccess gives"
)
#: Loads of these kinds may wait for another thread's store.
_STRONG = {"volatile", "relaxed", "acquire", "release", "mmio"}


class Site:
    """An instruction, as checks see it."""

    def __init__(self, decoder: Decoder) -> None:
        self.instruction = decoder.instruction
        self.root = decoder.root
        self.reads = sorted(decoder.reads)
        self.writes = sorted(decoder.writes)
        self.strong = self.root in ("atom", "red", "mbarrier") or bool(_STRONG & decoder.modifiers)
        self.volatile = decoder.has("volatile")
        self.loops = False
        addresses = [operand for operand in decoder.operands if isinstance(operand, Address)]
        self.origins: set[Origin] = set()
        if self.root not in _PLAIN or decoder.has("tensor"):
            # The address is a descriptor's.
            self.origins.add(UNKNOWN)
        else:
            for operand in addresses:
                origins = origins_of(decoder.program, decoder.function, operand)
                self.origins |= origins or {UNKNOWN}
        self.address = [
            operand.base.number for operand in addresses if isinstance(operand.base, Register)
        ]
        self.compares = decoder.has("cas")
        self.is_async_copy = self.root == "cp" and not decoder.has("bulk")
        #: The registers that it loads or stores; -1 for a constant.
        self.values: list[int] = []
        if self.root in ("ld", "ldu", "st") and decoder.type != "b128":
            parts = decoder.vector(1 if self.root == "st" else 0)
            self.values = [getattr(part, "number", -1) for part in parts]
        self.exchanges = self.root == "atom" and decoder.has("exch")
        if self.exchanges and decoder.type != "b128":
            self.values = [getattr(decoder.operands[2], "number", -1)]
        #: The registers that an atomic compares with memory or adds to it.
        self.updates: list[int] = []
        if self.root in ("atom", "red") and not self.exchanges:
            self.updates = [each for each in self.reads if each not in self.address]


class Watcher:
    """What the decoding of a program does with each instruction."""

    def __init__(self, checks: frozenset[str]) -> None:
        self.poison = Poison(checks) if "init" in checks else None
        #: Of the program's accesses, from its first launch on.
        self.grain = 0
        self.sites: dict[int, Site] = {}

    def decoded(self, code: Code) -> None:
        """Note the blocks after operations of a warp or a cluster, and the instructions in
        loops.
        """
        code.after = {}
        reached: dict[int, set[int]] = {}
        leaves = set()
        for block in code.blocks:
            if isinstance(block.end, (WarpOperation, ClusterBarrier)):
                code.after[block.next] = type(block.end)
            reached[block.number] = reach(code, block.number)
            if isinstance(block.end, Leave) and not block.steps:
                leaves.add(block.number)

        for block in code.blocks:
            number = block.number
            for instruction in block.instructions:
                if id(instruction) in self.sites:
                    self.sites[id(instruction)].loops = number in reached[number]
            # What only lanes that have passed it run: the blocks behind it from which nothing leads
            # back to it. Lanes that leave at once may have left before it.
            behind = {each for each in reached[number] - leaves if number not in reached[each]}
            if isinstance(block.end, BarrierOperation) and block.end.threads is None:
                behind &= own_work(code)
            elif not isinstance(block.end, WarpOperation):
                continue
            code.behind[number] = behind

    def step(self, decoder: Decoder, step: Step) -> Step:
        """Return a step that tells its execution which instruction it is, and follows values that
        nothing wrote.
        """
        site = self.sites[id(decoder.instruction)] = Site(decoder)
        poison = self.poison
        if site.root not in _MEMORY:
            if poison is None:
                return step
            return poison.plain(decoder, step)

        def run(lanes: Lanes) -> None:
            execution: Any = lanes.frame.execution
            execution.site = site
            execution.touched.clear()
            step(lanes)
            execution.site = None
            if poison is not None:
                poison.memory(site, lanes, execution.touched)

        return run

    def guard(self, decoder: Decoder, register: int, step: Step) -> Step:
        """Return a guarded step whose predicate is followed."""
        if self.poison is None:
            return step
        return self.poison.guard(self.sites[id(decoder.instruction)], register, step)

    def end(self, decoder: Decoder, block: Block) -> None:
        """Let the end of a block look for lanes that are absent."""
        site = Site(decoder)
        block.site = self.sites[id(decoder.instruction)] = site
        end = block.end
        if isinstance(end, WarpOperation) and end.mask is not None:

            def run(lanes: Lanes, warps: Warps, mask: Array) -> None:
                execution: Any = lanes.frame.execution
                if execution.bypassed:
                    execution.find_absent(site, lanes, warps, mask, block.number)
                execution.find_outsiders(site, lanes, mask)
                end.run_lanes(lanes, warps, mask)

            block.end = replace(end, run_lanes=run)


def is_strong_in_shared(site: Site, access: str) -> bool:
    """Return whether an access to shared memory is meant to meet those of other threads. A volatile
    read may be there to keep its place alone, if no loop waits for what it reads.
    """
    if site.root in ("atom", "red", "mbarrier") or access.startswith("mbarrier"):
        return True
    return site.strong and (site.loops or site.root == "st" or not site.volatile)


def variable_of(site: Site, space: str) -> str:
    """Return the variable of a memory from which an address comes; "" without one."""
    spaces = ("global", "const") if space == "global" else (space,)
    for kind, name in site.origins:
        if kind in spaces:
            return str(name)
    return ""


def shared_limits(
    sanitizer: Sanitizer, program: Program, name: str, shared: int
) -> tuple[int, int]:
    """Return where a variable begins and ends in a block's bytes of shared memory."""
    start, size = program.shared[name]
    if size:
        return start, start + size
    starts = argument_starts(sanitizer, program)
    if name in starts:
        start = starts[name]
    # It has the rest of the memory, up to the next argument.
    return start, min((each for each in starts.values() if each > start), default=shared)


def parameter_limits(program: Program, offset: int) -> tuple[int, int]:
    """Return where the parameter at an offset begins and ends. Compilers load its padding too."""
    kernel = program.kernel
    variable = kernel.params[kernel.offsets().index(offset)]
    return offset, offset + aligned(variable.size, max(variable.align, 1))


def argument_starts(sanitizer: Sanitizer, program: Program) -> dict[str, int]:
    """Return where the memory of each `local` argument of OpenCL C begins."""
    starts = {}
    offsets = program.kernel.offsets()
    for name, (start, _) in program.shared.items():
        number = local_argument(name)
        if number is not None and number < len(offsets):
            starts[name] = start + (sanitizer.value(offsets[number]) & 0xFFFFFFFF)
    return starts


def limits_of(
    sanitizer: Sanitizer, program: Program, site: Site, space: str, shared: int
) -> tuple[int, int] | None:
    """Return where the memory begins and ends that an instruction may access, or None if its
    address has no single origin.
    """
    if not site.origins or UNKNOWN in site.origins:
        return None
    found: set[tuple[int, int]] = set()
    for kind, name in site.origins:
        if kind == "param" and space == "global":
            address = sanitizer.value(name)
            owner = sanitizer.owner(address)
            if owner is not None:
                found.add((owner.start, owner.start + owner.size))
            elif sanitizer.freed_at(address):
                found.add((0, 0))
        elif kind == "shared" == space:
            found.add(shared_limits(sanitizer, program, name, shared))
        elif kind == "block" and space == "parameter":
            found.add(parameter_limits(program, name))
        elif kind in ("global", "const") and space == "global":
            start = program.module.addresses[name]
            found.add((start, start + program.module.text.variables[name].size))
    if len(found) != 1:
        return None
    return found.pop()


def signed(address: int) -> int:
    """Return an address of a block's or a thread's own memory, in 32 or 64 bits, as a number below
    0 where an index is.
    """
    for bits in (32, 64):
        if 1 << (bits - 1) <= address < 1 << bits:
            return address - (1 << bits)
    return address


def own_work(code: Code) -> set[int]:
    """Return the blocks that the source has where they are.

    The compiler merges the ends of two branches, as of an early exit that stores a result, into a
    block behind both: it has no branch, and no line.
    """
    has_lines = any(each.source[1] for each in code.function.instructions)
    blocks = set()
    for block in code.blocks:
        work = [each for each in block.instructions if each.root not in ("bra", "ret", "exit")]
        if has_lines:
            is_own = any(each.source[1] for each in work)
        else:
            is_own = isinstance(block.end, Branch)
        if is_own:
            blocks.add(block.number)
    return blocks


def reach(code: Code, number: int) -> set[int]:
    """Return the blocks that lanes may run after a block."""
    reached: set[int] = set()
    work = [number]
    while work:
        block = code.blocks[work.pop()]
        new = {each for each in (block.next, block.taken, *block.targets) if each >= 0} - reached
        reached |= new
        work += new
    return reached


def grain_of(program: Program) -> int:
    """Return the fewest bytes that a store of a kernel writes, 1 to 4: accesses of fewer bytes can
    only read.
    """
    grain = 4
    for function in program.module.reached(program.kernel):
        for each in function.instructions:
            if each.root in ("st", "atom", "red") and "param" not in each.parts:
                grain = min(grain, max(width_of(type_of(each)), 1))
    return grain


class CheckedBarriers(Barriers):
    """Barriers that pass on what warps know of each other's accesses."""

    execution: CheckedExecution

    def arrive(
        self,
        number: int,
        lanes: Lanes,
        threads: int,
        block: Block,
        value: Array | None = None,
    ) -> int | None:
        """Note what the warps that arrive know."""
        execution = self.execution
        now = execution.sanitizer.tick(None)
        barrier = self.barriers[number]
        waited = barrier.waiting or barrier.arrived.any()
        if lanes.count == execution.alive_count and not threads and not waited:
            execution.know[:] = now
            execution.quiet_time = now
            execution.warp_sync[:] = now
        else:
            if barrier.known is None:
                barrier.known = np.zeros((len(self.alive), execution.warps_per_block), S64)
            rows = barrier.known
            rows[barrier.arrived == 0] = 0
            blocks, warps = execution.warps_of(lanes)
            blocks, warps = np.divmod(
                np.unique(blocks * execution.warps_per_block + warps), execution.warps_per_block
            )
            np.maximum.at(rows, blocks, execution.know[blocks, warps])
            rows[blocks, warps] = now
        return super().arrive(number, lanes, threads, block, value)

    def release(self) -> bool:
        """Report the blocks that are complete and whose threads wait at several barriers without a
        number of threads, and release.
        """
        if "sync" in self.execution.sanitizer.checks:
            for barrier in self.barriers.values():
                self.find_left(barrier)
                self.find_divergent(barrier)
        return super().release()

    def whole(self, barrier: Barrier) -> Array:
        """Return which blocks have all their threads at a barrier without a number of threads."""
        return self.complete(barrier) & (barrier.expected == 0)

    def find_divergent(self, barrier: Barrier) -> None:
        """Report a barrier that is complete with threads that wait at several instructions."""
        execution = self.execution
        blocks = execution.column("block")
        places: dict[Site, list[Array]] = {}
        for each in barrier.waiting:
            places.setdefault(each.block.site, []).append(each.lanes.lanes)
        if len(places) < 2:
            return
        (here, first), *others = [(site, np.concatenate(lanes)) for site, lanes in places.items()]
        both = self.whole(barrier)
        both &= np.bincount(blocks[first], minlength=len(self.alive)) > 0
        for there, lanes in others:
            chosen = np.sort(lanes[both[blocks[lanes]]])
            if len(chosen):
                detail = f"waits here while {len(first)} threads wait at {source_of(execution.program.module, here.instruction)}"
                execution.sanitizer.report(
                    execution, "sync", "divergent barrier", there, chosen, detail
                )

    def find_left(self, barrier: Barrier) -> None:
        """Report a barrier that is complete since lanes exit that have passed it by."""
        execution = self.execution
        blocks = execution.column("block")
        complete = self.whole(barrier)
        if not complete.any():
            return
        for group in barrier.waiting:
            key = id(group.lanes.frame.code), group.block.number
            past = execution.bypassed.pop(key, None)
            if past is None:
                continue
            left = np.bincount(blocks[past & ~execution.alive], minlength=len(complete))
            lanes = np.sort(group.lanes.lanes)
            lanes = lanes[(complete & (left > 0))[blocks[lanes]]]
            if len(lanes):
                count = left[blocks[lanes[0]]]
                detail = f"waits here while {count} threads of the block exit that passed it by"
                execution.sanitizer.report(
                    execution, "sync", "divergent barrier", group.block.site, lanes, detail
                )

    def release_group(self, barrier: Barrier, group: Waiting, complete: Array) -> None:
        """Let the warps that are released know what those that arrived knew."""
        execution = self.execution
        lanes = group.lanes
        blocks, warps = execution.warps_of(lanes)
        chosen = complete[blocks]
        if barrier.known is not None and chosen.any():
            b = blocks[chosen]
            w = warps[chosen]
            execution.know[b, w] = np.maximum(execution.know[b, w], barrier.known[b])
            execution.warp_sync[lanes.lanes[chosen]] = execution.sanitizer.now
        super().release_group(barrier, group, complete)


class CheckedExecution(Execution):
    """The blocks of a launch, with checks of each access."""

    memory = ShadowLanes
    make_barriers = CheckedBarriers
    checks = True
    barriers: CheckedBarriers
    shared: ShadowLanes

    @staticmethod
    def child(program: Program, child: Child, arena: Arena) -> Program:
        """Return the program of a kernel that another one has launched, which begins. It comes
        after all others.
        """
        assert isinstance(arena, ShadowArena)
        sanitizer = arena.shadow.sanitizer
        return begin(sanitizer, program.module, child.kernel.name, child.launch, (0, 0))

    def __init__(self, program: Program, launch: Launch, arena: Arena, blocks: range) -> None:
        assert isinstance(arena, ShadowArena)
        self.sanitizer: Sanitizer = arena.shadow.sanitizer
        self.site: Site | None = None
        self.touched: list[Touched] = []
        #: Lanes that have run what is behind an operation of a warp or a barrier while others wait
        #: there.
        self.bypassed: dict[tuple[int, int], Array] = {}
        #: What is known at each mbarrier, by its place: the times until which the accesses of each
        #: warp of its block, and of other blocks, come before the open phase, and before the last.
        self.phases: dict[int, Array] = {}
        self.quiet_time = self.sanitizer.tick(None)
        super().__init__(program, launch, arena, blocks)
        # The times until which accesses are known: of other warps of the block by each warp, of its
        # own warp by each lane, of other blocks.
        self.know = np.full(
            (len(blocks), self.warps_per_block, self.warps_per_block), self.quiet_time, S64
        )
        self.warp_sync = np.full(self.count, self.quiet_time, S64)
        self.seen = np.full(len(blocks), self.sanitizer.begin, S64)
        self.in_flight = InFlight(self)

    def quiet(self, shadow: Shadow) -> int:
        """Return the time before which all accesses to a memory are in order with those of now."""
        if shadow.space == "global":
            return self.sanitizer.quiet
        return self.quiet_time

    def warps_of(self, lanes: Lanes) -> tuple[Array, Array]:
        """Return the block and the warp of each lane."""
        return lanes.spread(lanes.column("block")), lanes.spread(lanes.column("thread")) >> 5

    # Bounds

    def limits(self, memory: Memory) -> Any:
        """Return the addresses that the instruction may access: those of the variable or the
        allocation that its address comes from.
        """
        key = self.site, memory.space
        known = self.sanitizer.limits
        if key not in known:
            known[key] = self.find_limits(*key)
        return known[key]

    def find_limits(self, site: Site | None, space: str) -> tuple[int, int] | None:
        """Return the limits of an instruction, or None if its address has no single origin."""
        if site is None:
            return None
        return limits_of(self.sanitizer, self.program, site, space, self.shared.size)

    def shared_limits(self, name: str) -> tuple[int, int]:
        """Return where a shared variable begins and ends."""
        return shared_limits(self.sanitizer, self.program, name, self.shared.size)

    def refuse(
        self, memory: Memory, lanes: Lanes, address: Array, access: Access, limits: Any
    ) -> Array | None:
        """Report the lanes whose access is out of bounds or misaligned, and return which they
        are.
        """
        value = address.astype(S64)
        if limits:
            outside = (value < limits[0]) | (value > limits[1] - access.size)
        else:
            outside = memory.outside(address, access.size, memory.size)
        askew = access.misaligned(address)
        if self.site is None or not (outside | askew).any():
            return None

        # An access without a check is a fault, as without checks.
        checks = self.sanitizer.checks
        only_outside = outside & ~askew
        if only_outside.any():
            if checks.isdisjoint(("bounds", "free")):
                return None
            self.refuse_some(self.site, memory, lanes, address, access, only_outside, outside)
        if askew.any():
            if "align" not in checks:
                return None
            self.refuse_some(self.site, memory, lanes, address, access, askew, outside)
        return np.asarray(outside | askew)

    def refuse_some(
        self,
        site: Site,
        memory: Memory,
        lanes: Lanes,
        address: Array,
        access: Access,
        bad: Array,
        outside: Array,
    ) -> None:
        """Report the lanes in `bad`, whose access is misaligned, or else out of bounds."""
        position = np.flatnonzero(bad)[0]
        first = int(address[position])
        place = self.place(site, memory, first)
        detail = f"{counted(access.size)} at {place.element}"
        if place.array:
            detail += f"; {place.array}"
        check = "bounds"
        title = "out of bounds"
        if first % access.alignment:
            check = "align"
            title = "misaligned"
            detail += f"; 0x{first:x} is no multiple of {access.alignment}"
            if outside[position]:
                detail += ", and out of bounds"
        else:
            if place.freed:
                check = "free"
                title = "use after free"
            if memory.space == "global" and self.sanitizer.arena.is_unordered(first):
                title = "unordered use"
                detail += f"; it is {STREAM_ORDERED}"
            elif memory.space == "global" and self.sanitizer.is_refused(first):
                detail += _NO_ACCESS
        if check == "free" and check not in self.sanitizer.checks:
            return
        self.sanitizer.report(
            self,
            check,
            f"{title} ({access.kind.split()[0]})",
            site,
            lanes.lanes[lanes.spread(bad)],
            detail,
            place.name,
            place.index,
        )

    def place(
        self, site: Site, memory: Any, address: int, is_own: bool = True, kind: str = ""
    ) -> Place:
        """Return what is at an address: of the array that the instruction means, or of the one that
        is there.
        """
        sanitizer = self.sanitizer
        kind = kind or type_of(site.instruction)
        space = memory.space
        if space != "global":
            address = signed(address)
        name = ""
        limits = None
        if is_own:
            name = variable_of(site, space)
            limits = self.limits(memory)
        if space == "shared" and not name:
            for each in self.program.shared:
                start, end = self.shared_limits(each)
                if start <= address < end:
                    name = each
                    limits = start, end
                    break
        if space == "parameter" and limits:
            argument = sanitizer.parameter_at(limits[0])
            shown = argument.name or f"argument {argument.number}"
            return variable_place(space, shown, address, kind, limits)
        if limits and name and space != "local":
            shown = shown_name(self.program.module, name)
            return variable_place(space, shown, address, kind, limits)
        if space != "global":
            return Place(f"byte {address} of {memory.size} bytes of {space} memory")
        owner = sanitizer.freed_at(address)
        if not owner and limits:
            owner = sanitizer.owner(limits[0])
        return sanitizer.describe(kind, address, owner or sanitizer.nearest(address))

    # Accesses and their order

    def touch(self, each: Touched, bad: Array | None) -> None:
        """Note an access, of the lanes that are not out of bounds: for races, and for the values
        that nothing wrote.
        """
        site = self.site
        shadow = each.memory
        lanes = each.lanes
        if each.access.kind != "write":
            self.stored = []
        if bad is not None:
            good = np.flatnonzero(~lanes.spread(bad))
            each.index = lanes.spread(each.index)[good]
            each.place = lanes.spread(each.place)[good]
            self.stored = [lanes.spread(value)[good] for value in self.stored]
            each.lanes = lanes = lanes.select(good, [])
        if site is None or not lanes.count:
            return
        self.touched.append(each)
        if "race" not in self.sanitizer.checks or shadow.space == "local":
            return
        each.strong = site.strong
        if shadow.space == "shared":
            if site.volatile and "volatile" in self.sanitizer.checks:
                self.warp_sync[lanes.lanes] = self.sanitizer.now + 1
            each.strong = is_strong_in_shared(site, each.access.kind)
            if site.is_async_copy and each.access.kind == "write":
                self.in_flight.begin(site, each)
            elif self.in_flight.pending:
                self.in_flight.check(site, each)
        for part in shadow.grains(each.index, each.access):
            if each.access.kind == "read":
                shadow.read(each, part)
            else:
                shadow.write(each, part)

    def same(self, each: Touched, positions: Array) -> Array:
        """Return whether memory has the values already that lanes store; no, if they are not
        known.
        """
        if not self.stored:
            return np.zeros(len(positions), bool)
        lanes = each.lanes
        place = lanes.spread(each.place)[positions]
        equal = [
            lanes.spread(value)[positions] == each.view[number:][place]
            for number, value in enumerate(self.stored)
        ]
        return np.all(equal, axis=0)

    def differ(self, each: Touched, lost: Array, won: Array) -> Array:
        """Return whether lanes of one store have other values than those that come later at their
        element.
        """
        result = np.zeros(len(lost), bool)
        for stored in self.stored:
            value = each.lanes.spread(stored)
            result |= value[lost] != value[won]
        return result

    def places(
        self, lanes: Lanes, positions: Array, before: Array
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Return the times of records, block and warp of lanes, the warps of the records, and which
        are of the same block.
        """
        block, thread = np.divmod(before & THREAD, self.threads)
        own, warp = (column[positions] for column in self.warps_of(lanes))
        return before >> 32, own, warp, thread >> 5, block == own + self.blocks.start

    def unordered(self, lanes: Lanes, positions: Array, before: Array) -> Array:
        """Return whether each lane at `positions` has no order with an earlier access."""
        time, own, warp, other, inside = self.places(lanes, positions, before)
        known = np.where(
            warp == other, self.warp_sync[lanes.lanes[positions]], self.know[own, warp, other]
        )
        result = np.asarray(time >= np.where(inside, known, self.seen[own]))
        earlier = time < self.sanitizer.begin
        if earlier.any():
            result[earlier] = self.sanitizer.order.unordered(time[earlier])
        return result

    def acquire(self, lanes: Lanes, positions: Array, before: Array) -> None:
        """Let lanes know what came before the atomic accesses whose values they have read."""
        time, own, warp, other, inside = self.places(lanes, positions, before)
        np.maximum.at(self.seen, own[~inside], time[~inside])
        time = time[inside]
        own = own[inside]
        warp = warp[inside]
        other = other[inside]
        np.maximum.at(self.know, (own, warp), self.know[own, other])
        np.maximum.at(self.know, (own, warp, other), time)
        same = warp == other
        self.warp_sync[lanes.lanes[positions[inside][same]]] = self.sanitizer.now

    def waited_for_copies(self, lanes: Lanes, kind: str, count: int) -> None:
        """Note that lanes commit or wait for their copies."""
        self.in_flight.wait(lanes, kind, count)

    def shuffled(
        self, lanes: Lanes, registers: tuple[int, int], position: Array, absent: Any, source: Array
    ) -> None:
        """Note the values that a shuffle has taken, and those of absent lanes."""
        poison = self.program.watcher.poison
        if poison is not None and self.site is not None:
            poison.shuffle(self.site, lanes, registers, position, absent, source)

    def arrived(self, lanes: Lanes, places: list[int], ends: list[bool]) -> None:
        """Note what lanes know that arrive at mbarriers, and the phases that end with one."""
        now = self.sanitizer.tick(None)
        for block, warp, place, is_end in zip(*self.warps_of(lanes), places, ends, strict=True):
            empty = np.zeros((2, self.warps_per_block + 1), S64)
            phase = self.phases.setdefault(place, empty)
            if block == place * 8 // self.shared.stride:
                phase[0, :-1] = np.maximum(phase[0, :-1], self.know[block, warp])
                phase[0, warp] = now
            else:
                phase[0, -1] = now
            if is_end:
                phase[1] = phase.max(axis=0)
                phase[0] = 0

    def waited(self, lanes: Lanes, places: Array, done: Array) -> None:
        """Let the lanes whose phase has ended know what those knew that arrived."""
        blocks, warps = self.warps_of(lanes)
        places = lanes.spread(places)
        for position in np.flatnonzero(lanes.spread(done)):
            phase = self.phases.get(int(places[position]))
            if phase is None:
                continue
            block = blocks[position]
            warp = warps[position]
            lane = lanes.lanes[position]
            self.know[block, warp] = np.maximum(self.know[block, warp], phase[1, :-1])
            self.seen[block] = max(self.seen[block], phase[1, -1])
            self.warp_sync[lane] = max(self.warp_sync[lane], phase[1, warp])

    def meet(self, lanes: Lanes) -> None:
        """Let the blocks of lanes know all accesses before now: those that update one element in
        one instruction, for example.
        """
        blocks = np.unique(lanes.column("block"))
        self.seen[blocks] = self.know[blocks] = self.sanitizer.now
        self.warp_sync[lanes.lanes] = self.sanitizer.now

    def race(
        self, each: Touched, positions: Array, index: Array, before: Array, other: str
    ) -> None:
        """Report lanes whose access races with an earlier one."""
        shadow = each.memory
        site = self.site
        assert site is not None
        numbers = each.lanes.lanes[positions]
        first = int(np.argmin(numbers))
        record = int(before[first])
        kind = each.access.kind.split()[0]
        place = self.element(site, int(index[first]) * shadow.grain, shadow.space)
        other += " it"
        if record >> 32 < self.sanitizer.begin:
            title = "race between streams"
            who = f"{self.sanitizer.order.describe(record >> 32)}, in another stream,"
        else:
            title = "race"
            block, thread = self.launch.place(record & THREAD)
            who = f"block {block}, thread {thread}"
            other += f" at {source_of(self.program.module, self.sanitizer.sites[record >> 32].instruction)}"
        detail = f"{place.element}; {who} {other}, and nothing orders the two"
        order = np.argsort(numbers, kind="stable")
        title += f" ({kind} and {other.split()[0][:-1]})"
        self.sanitizer.report(
            self, "race", title, site, numbers[order], detail, place.name, place.index
        )

    def element(self, site: Site, offset: int, space: str, kind: str = "") -> Place:
        """Return the element at an offset in a memory, of the type of the instruction or `kind`."""
        memory = {"shared": self.shared, "local": self.local, "global": self.sanitizer.arena}[space]
        if space == "global":
            address = memory.base + offset
        else:
            address = offset % memory.stride
        return self.place(site, memory, address, False, kind)

    # Ends of blocks

    def add(self, lanes: Lanes, number: int) -> None:
        """Note that lanes come out of an operation of their warp, which orders their accesses."""
        after = lanes.frame.code.after.get(number)
        if after is not None:
            self.warp_sync[lanes.lanes] = self.sanitizer.tick(None)
            if after is ClusterBarrier:
                self.meet(lanes)
        super().add(lanes, number)

    def finish(self, block: Block, lanes: Lanes) -> int | None:
        """Execute the end of a block, with checks."""
        site = block.site
        self.site = site
        frame = lanes.frame
        if "sync" in self.sanitizer.checks and frame.code.behind:
            self.note_bypass(frame.code, block.number, lanes)
        self.touched.clear()
        poison = self.program.watcher.poison
        if poison is not None and frame.poison and site is not None:
            poison.end(site, lanes)
        following = super().finish(block, lanes)
        if poison is not None and self.touched:
            poison.memory(block.site, lanes, self.touched)
        self.site = None
        return following

    def note_bypass(self, code: Code, number: int, lanes: Lanes) -> None:
        """Note lanes that run what is behind an operation at which others wait."""
        for each in self.waiting():
            place = each.block.number
            if each.lanes.frame.code is code and number in code.behind.get(place, ()):
                lanes_past = self.bypassed.setdefault((id(code), place), np.zeros(self.count, bool))
                lanes_past[lanes.lanes] = True

    def find_outsiders(self, site: Site, lanes: Lanes, mask: Array) -> None:
        """Report the lanes that their own mask does not name."""
        if "sync" not in self.sanitizer.checks:
            return
        lane = lanes.column("laneid")
        positions = np.flatnonzero(lanes.spread(mask >> lane & np.uint32(1)) == 0)
        if len(positions):
            members = int(lanes.spread(mask)[positions[0]])
            number = int(lanes.spread(lane)[positions[0]])
            detail = f"its mask 0x{members:x} does not name its own lane, {number}"
            self.sanitizer.report(
                self, "sync", "lane outside of its mask", site, lanes.lanes[positions], detail
            )

    def find_absent(self, site: Site, lanes: Lanes, warps: Warps, mask: Array, number: int) -> None:
        """Report the lanes whose mask names lanes that have gone past the operation."""
        gone = self.bypassed.pop((id(lanes.frame.code), number), None)
        if gone is None:
            return
        absent = mask & (bits_of(self, gone) & ~warps.bits())[warps.warps]
        positions = np.flatnonzero(absent)
        if len(positions):
            lane = int(absent[positions[0]]).bit_length() - 1
            members = int(lanes.spread(mask)[positions[0]])
            detail = f"its mask 0x{members:x} names lane {lane}, which is absent"
            self.sanitizer.report(
                self, "sync", "absent lanes", site, lanes.lanes[positions], detail
            )

    def deadlock(self) -> None:
        """Report where threads wait, and raise the error."""
        if "sync" in self.sanitizer.checks:
            groups = self.waiting()
            module = self.program.module
            waits = "; ".join(
                f"{each.lanes.count} wait at {source_of(module, each.block.site.instruction)}"
                for each in groups
            )
            detail = f"waits for threads that never come: {waits}"
            first = groups[0]
            self.sanitizer.report(
                self, "sync", "deadlock", first.block.site, first.lanes.lanes, detail
            )
        super().deadlock()


def begin(sanitizer: Sanitizer, module: Module, kernel: str, launch: Launch, work: Work) -> Program:
    """Return the program of a launch, which begins."""
    shadow = sanitizer.arena.shadow
    program = module.program(kernel, sanitizer.checks, Watcher)
    program.watcher.grain = program.watcher.grain or grain_of(program)
    if program.watcher.grain < shadow.grain:
        shadow.reset(program.watcher.grain)
    sanitizer.begin_launch(program, launch, work)
    return program


def launch_with_checks(
    sanitizer: Sanitizer,
    module: Module,
    kernel: str,
    launch: Launch,
    checks: frozenset[str],
    ranges: Ranges,
    work: Work = (0, 0),
    engine: str = "",
    *,
    verbose: bool = False,
) -> list[Report]:
    """Run a kernel with checks. `sanitizer.reports` has what was found, also if it raises an
    error.
    """
    for start, size in ranges:
        # It was allocated before the checks began.
        if start not in sanitizer.allocations:
            sanitizer.allocated(start, size, "", True)
    sanitizer.checks = checks
    sanitizer.arena.set_ranges(ranges)
    program = begin(sanitizer, module, kernel, launch, work)
    shared = program.shared_size(launch.shared)

    def limits(instruction: Instruction, space: str) -> tuple[int, int] | None:
        site = program.watcher.sites[id(instruction)]
        return limits_of(sanitizer, program, site, space, shared)

    execute(
        program,
        launch,
        sanitizer.arena,
        engine,
        verbose=verbose,
        execution=CheckedExecution,
        limits_of=limits if checks <= _COMPILED else None,
    )
    return list(sanitizer.reports.values())
