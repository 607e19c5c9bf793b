"""Values that nothing wrote: loads mark them, and each instruction passes on the bits that depend
on them.

A frame has such bits for registers alone that have any, so programs without such values pay for a
look at an empty dictionary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ptx_types import S64, U8, U64, UNSIGNED, Array, Integer
from devmod_simulators.ptx.reports import source_of
from devmod_simulators.ptx.shadows import COMPUTED, COPIED, UNWRITTEN, WRITTEN, Touched, copied

if TYPE_CHECKING:
    from devmod_simulators.ptx.checked import Site

_ALL = np.uint64(2**64 - 1)
_NONE = np.zeros(1, U64)
#: A place has the memory and what that held above the offset: lanes may have loaded from several.
#: That of a value from an absent lane has the time of the shuffle and the number of the lane.
_SPACES = ("global", "shared", "local", "lane")
_LANE = _SPACES.index("lane")
_LANE_BITS = 5
_SPACE = 60
_WIDTH = 58
_STATE = 56
_HELD = {
    UNWRITTEN: "which nothing wrote",
    COMPUTED: "whose value was computed from memory that nothing wrote",
    COPIED: "which has a copy of memory that nothing wrote",
}
#: Instructions that move bits. What others compute depends on all bits of their operands.
_MOVES = {"mov", "cvta", "cvt", "and", "or", "shl", "shr", "selp", "prmt"}


class Bits:
    """The bits of a register, for each lane of a frame: those that depend on bytes that nothing
    wrote.
    """

    def __init__(self, count: int) -> None:
        self.bits = np.zeros(count, U64)
        self.computed = np.zeros(count, bool)
        #: Where a load has found such bytes.
        self.place = np.zeros(count, S64)


def where(lanes: Lanes) -> Any:
    """Return the positions of lanes in their frame."""
    if lanes.index is None:
        return slice(None)
    return lanes.index


def put(
    lanes: Lanes,
    register: int,
    bits: Array = _NONE,
    computed: Any = False,
    place: Any = 0,
) -> None:
    """Set the bits of a register of lanes; by default it was written."""
    poison = lanes.frame.poison
    if register not in poison and bits.any():
        poison[register] = Bits(lanes.frame.count)
    if register in poison:
        known = poison[register]
        here = where(lanes)
        known.bits[here] = bits
        known.computed[here] = computed
        known.place[here] = place
        if not known.bits.any():
            del poison[register]


def places(each: Touched, part: int, held: Array) -> Array:
    """Return the places of a part of an access, whose bytes held something at least."""
    size = each.access.dtype.itemsize
    offset = (each.index + part) * size
    space = _SPACES.index(each.memory.space)
    width = size.bit_length() - 1
    return np.asarray(offset | held.astype(S64) << _STATE | width << _WIDTH | space << _SPACE)


def number(value: Array) -> Array:
    """Return the bits of registers as integers."""
    return value.view(UNSIGNED[value.dtype.itemsize]).astype(U64)


def flipped(value: Array, bits: Array) -> Array:
    """Return registers with other bits where `bits` are set."""
    if value.dtype == bool:
        return np.not_equal(value, bits != 0)
    unsigned = UNSIGNED[value.dtype.itemsize]
    return (value.view(unsigned) ^ bits.astype(unsigned)).view(value.dtype)


def is_move(decoder: Decoder) -> bool:
    """Return whether an instruction moves bits."""
    root = decoder.root
    if root in ("shl", "shr"):
        return isinstance(decoder.operands[2], Integer)
    if root not in _MOVES or "b128" in decoder.types:
        return False
    # A conversion moves the bits of integers.
    return root != "cvt" or all(kind[0] in "sub" for kind in decoder.types)


def is_scaling(decoder: Decoder) -> bool:
    """Return whether an instruction shifts by parts of a byte: `2 * x`, and no packing of bytes."""
    if decoder.root not in ("shl", "shr"):
        return False
    distance = decoder.operands[2]
    return isinstance(distance, Integer) and distance.value % 8 != 0


def states_of_copy(source: Touched | None, target: Touched) -> list[Any]:
    """Return what bytes hold that were copied from others; written values without a source."""
    dtype = target.access.dtype
    if source is None or source.access.dtype != dtype or len(source.index) != len(target.index):
        return [WRITTEN] * target.access.count
    return [copied(state.view(U8)).view(dtype) for state in source.states()]


class Poison:
    """Follows values, and reports those on which something depends."""

    def __init__(self, checks: frozenset[str]) -> None:
        self.copies = "copies" in checks

    def report(
        self,
        site: Site,
        lanes: Lanes,
        bad: Array,
        place: Array,
        use: str,
        what: str = "depends on",
    ) -> None:
        """Report that lanes use bytes at a place."""
        positions = np.flatnonzero(lanes.spread(bad))
        execution: Any = lanes.frame.execution
        first = int(lanes.spread(place)[positions[0]])
        if first >> _SPACE == _LANE:
            self.report_lane(site, lanes, positions, first & ((1 << _SPACE) - 1), use)
            return
        space = _SPACES[first >> _SPACE]
        held = _HELD[first >> _STATE & 3]
        offset = first & ((1 << _STATE) - 1)
        kind = f"u{8 << (first >> _WIDTH & 3)}"
        detail = f"{what} {execution.element(site, offset, space, kind).element}, {held}"
        execution.sanitizer.report(
            execution, "init", f"uninitialised ({use})", site, lanes.lanes[positions], detail
        )

    def report_lane(self, site: Site, lanes: Lanes, positions: Array, place: int, use: str) -> None:
        """Report that lanes use the value of an absent lane."""
        execution: Any = lanes.frame.execution
        sanitizer = execution.sanitizer
        shuffle = sanitizer.sites[place >> _LANE_BITS]
        lane = place & (1 << _LANE_BITS) - 1
        line = source_of(execution.program.module, shuffle.instruction)
        sanitizer.report(
            execution,
            "init",
            f"value of an absent lane ({use})",
            site,
            lanes.lanes[positions],
            f"depends on lane {lane}, which is absent from the shuffle at {line}",
        )

    def use(self, site: Site, lanes: Lanes, register: int, use: str, bad: Any = True) -> None:
        """Report the lanes that use a register, and take its value as written from now on."""
        known = lanes.frame.poison.get(register)
        if known is None:
            return
        here = where(lanes)
        bits = known.bits[here]
        bad = bad & (bits != 0)
        if not bad.any():
            return
        self.report(site, lanes, bad, known.place[here], use)
        bits = np.where(bad, np.uint64(0), bits)
        put(lanes, register, bits, known.computed[here] & ~bad, known.place[here])

    def plain(self, decoder: Decoder, step: Step) -> Step:
        """Return a step of an instruction without memory that passes on the bits.

        An instruction that moves bits runs again with other values of the bits: those of its result
        that change depend on them.
        """
        reads = sorted(decoder.reads)
        writes = sorted(decoder.writes)
        scales = is_scaling(decoder)

        def sources_of(lanes: Lanes) -> dict[int, Bits]:
            poison = lanes.frame.poison
            return {register: poison[register] for register in reads if register in poison}

        def compute(lanes: Lanes) -> None:
            sources = sources_of(lanes)
            step(lanes)
            here = where(lanes)
            for register in writes:
                total = _NONE
                place = np.zeros(1, S64)
                for known in sources.values():
                    depends = known.bits[here] != 0
                    total = total | np.where(depends, _ALL, np.uint64(0))
                    place = np.where(depends, known.place[here], place)
                put(lanes, register, total, total != 0, place)

        def move(lanes: Lanes) -> None:
            sources = sources_of(lanes)
            here = where(lanes)
            before = list(lanes.r)
            runs = []
            # With other values of each source, and of all together.
            for changed in [*([each] for each in sources), [*sources]]:
                for register in changed:
                    lanes.r[register] = flipped(before[register], sources[register].bits[here])
                step(lanes)
                runs.append([number(lanes.r[register]) for register in writes])
                lanes.r[:] = before
            step(lanes)
            for position, register in enumerate(writes):
                value = number(lanes.r[register])
                total = runs[-1][position] ^ value
                computed = np.full(1, scales)
                place = np.zeros(1, S64)
                # Of bits that change only together.
                for known in sources.values():
                    place = np.where(known.bits[here] != 0, known.place[here], place)
                for run, known in zip(runs, sources.values(), strict=False):
                    bits = run[position] ^ value
                    total = total | bits
                    computed = computed | ((bits != 0) & known.computed[here])
                    place = np.where(bits != 0, known.place[here], place)
                put(lanes, register, total, computed, place)

        follow = move if is_move(decoder) else compute

        def run(lanes: Lanes) -> None:
            if lanes.frame.poison:
                follow(lanes)
            else:
                step(lanes)

        return run

    def guard(self, site: Site, register: int, step: Step) -> Step:
        """Return a guarded step that reports a predicate."""

        def run(lanes: Lanes) -> None:
            self.use(site, lanes, register, "branch")
            step(lanes)

        return run

    def end(self, site: Site, lanes: Lanes) -> None:
        """Report what the end of a block depends on."""
        if site.root == "shfl":
            self.begin_shuffle(site, lanes)
            return
        use = "branch" if site.root in ("bra", "brx") else "shuffle"
        for register in site.reads:
            self.use(site, lanes, register, use)
        for register in site.writes:
            put(lanes, register)

    def begin_shuffle(self, site: Site, lanes: Lanes) -> None:
        """Report what the lanes of a shuffle depend on. Values of absent lanes go on to those that
        take them.
        """
        poison = lanes.frame.poison
        for register in site.reads:
            if register in poison:
                is_memory = poison[register].place[where(lanes)] >> _SPACE != _LANE
                self.use(site, lanes, register, "shuffle", is_memory)

    def shuffle(
        self,
        site: Site,
        lanes: Lanes,
        registers: tuple[int, int],
        position: Array,
        absent: Array,
        source: Array,
    ) -> None:
        """Mark the values that lanes have taken from absent lanes, and pass on such values."""
        target, value = registers
        known = lanes.frame.poison.get(value)
        bits = _NONE
        place = np.zeros(1, S64)
        if known is not None:
            here = where(lanes)
            bits = known.bits[here].take(position)
            place = known.place[here].take(position)
        execution: Any = lanes.frame.execution
        if absent.any():
            time = execution.sanitizer.tick(site)
            first = _LANE << _SPACE | time << _LANE_BITS
            bits = np.where(absent, _ALL, bits)
            place = np.where(absent, first | lanes.spread(source).astype(S64), place)
        for register in site.writes:
            if register == target:
                put(lanes, register, bits, bits != 0, place)
            else:
                put(lanes, register)

    # Memory

    def memory(self, site: Site, lanes: Lanes, touched: list[Touched]) -> None:
        """Follow the values of an instruction that has accessed memory."""
        for register in site.address:
            self.use(site, lanes, register, "address")
        for register in site.updates:
            self.use(site, lanes, register, "atomic")
        is_load = site.root in ("ld", "ldu")
        if is_load:
            for register in site.writes:
                put(lanes, register)
        #: What an instruction that copies has read last.
        source = None
        for each in touched:
            if each.access.kind == "read":
                if is_load:
                    self.load(site, each)
                elif site.root == "cp":
                    source = each
            elif site.root == "st" or site.exchanges:
                self.store(site, each)
            else:
                if site.root in ("atom", "red"):
                    self.update(site, each)
                each.set_states(states_of_copy(source, each))

    def update(self, site: Site, each: Touched) -> None:
        """Report the lanes that update bytes that nothing wrote."""
        held = each.states()[0].view(U8).reshape(len(each.index), -1)
        if held.any():
            most = held.max(axis=1)
            place = places(each, 0, most)
            self.report(site, each.lanes, most != WRITTEN, place, "atomic", "updates")

    def load(self, site: Site, each: Touched) -> None:
        """Mark the registers of lanes that have loaded bytes that nothing wrote."""
        dtype = each.access.dtype
        for part, (register, state) in enumerate(zip(site.values, each.states(), strict=False)):
            if register >= 0 and state.any():
                table = state.view(U8).reshape(-1, dtype.itemsize)
                mask = np.where(table == WRITTEN, U8.type(0), U8.type(255))
                bits = number(mask.reshape(-1).view(dtype))
                computed = (table == COMPUTED).any(axis=1)
                put(each.lanes, register, bits, computed, places(each, part, table.max(axis=1)))

    def store(self, site: Site, each: Touched) -> None:
        """Mark the bytes that lanes have stored or exchanged as what their registers are, and
        report those in global memory.
        """
        dtype = each.access.dtype
        states = [np.zeros(1, dtype)] * each.access.count
        here = where(each.lanes)
        for part, register in enumerate(site.values):
            known = each.lanes.frame.poison.get(register)
            if known is not None and each.memory.space == "global":
                computed = known.computed[here]
                use = "stored result" if computed.any() else "copy"
                self.use(site, each.lanes, register, use, computed | self.copies)
                known = each.lanes.frame.poison.get(register)
            if known is not None:
                bits = known.bits[here].astype(dtype)
                table = bits.view(U8).reshape(-1, dtype.itemsize)
                state = np.where(known.computed[here], COMPUTED, COPIED)[:, None]
                held = np.where(table == 0, WRITTEN, state).astype(U8)
                states[part] = held.reshape(-1).view(dtype)
        each.set_states(states)
