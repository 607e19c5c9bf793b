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
from devmod_simulators.ptx.shadows import COMPUTED, COPIED, UNWRITTEN, WRITTEN, Touched, copied

if TYPE_CHECKING:
    from devmod_simulators.ptx.checked import Site

_ALL = np.uint64(2**64 - 1)
_NONE = np.zeros(1, U64)
#: A place has the memory and what that held above the offset: lanes may have loaded from several.
_SPACES = ("global", "shared", "local")
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
        self.place = np.zeros(count, S64)  # where a load has found such bytes


def where(lanes: Lanes) -> Any:
    """Return the positions of lanes in their frame."""
    return slice(None) if lanes.index is None else lanes.index


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
        known, here = poison[register], where(lanes)
        known.bits[here], known.computed[here], known.place[here] = bits, computed, place
        if not known.bits.any():
            del poison[register]


def places(each: Touched, part: int, held: Array) -> Array:
    """Return the places of a part of an access, whose bytes held something at least."""
    offset = (each.index + part) * each.dtype.itemsize
    space = _SPACES.index(each.memory.space)
    width = each.dtype.itemsize.bit_length() - 1
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
    root = decoder.parts[0]
    if root in ("shl", "shr"):
        return isinstance(decoder.operands[2], Integer)
    return (
        root in _MOVES
        and "b128" not in decoder.types
        and (root != "cvt" or all(kind[0] in "sub" for kind in decoder.types))
    )


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
        positions = np.flatnonzero(np.broadcast_to(bad, (lanes.count,)))
        execution: Any = lanes.frame.execution
        first = int(np.broadcast_to(place, (lanes.count,))[positions[0]])
        space, held = _SPACES[first >> _SPACE], _HELD[first >> _STATE & 3]
        offset = first & ((1 << _STATE) - 1)
        kind = f"u{8 << (first >> _WIDTH & 3)}"
        detail = f"{what} {execution.element(site, offset, space, kind).element}, {held}"
        execution.sanitizer.report(
            execution, "init", f"uninitialised ({use})", site, lanes.lanes[positions], detail
        )

    def use(self, site: Site, lanes: Lanes, register: int, use: str, bad: Any = True) -> None:
        """Report the lanes that use a register, and take its value as written from now on."""
        known = lanes.frame.poison.get(register)
        if known is not None and (bad := bad & (known.bits[where(lanes)] != 0)).any():
            self.report(site, lanes, bad, known.place[where(lanes)], use)
            here = where(lanes)
            put(
                lanes,
                register,
                np.where(bad, np.uint64(0), known.bits[here]),
                known.computed[here] & ~bad,
                known.place[here],
            )

    def plain(self, decoder: Decoder, step: Step) -> Step:
        """Return a step of an instruction without memory that passes on the bits.

        An instruction that moves bits runs again with other values of the bits: those of its result
        that change depend on them.
        """
        reads, writes = sorted(decoder.reads), sorted(decoder.writes)
        moves = is_move(decoder)

        def follow(lanes: Lanes) -> None:
            here, before, runs = where(lanes), list(lanes.r), []
            sources = {
                register: lanes.frame.poison[register]
                for register in reads
                if register in lanes.frame.poison
            }
            for changed in [*([each] for each in sources), [*sources]] if moves else []:
                for register in changed:
                    lanes.r[register] = flipped(before[register], sources[register].bits[here])
                step(lanes)
                runs.append([number(lanes.r[register]) for register in writes])
                lanes.r[:] = before
            step(lanes)
            for position, register in enumerate(writes):
                total, computed, place = _NONE, np.zeros(1, bool), np.zeros(1, S64)
                for known in sources.values():  # of bits that change only together
                    place = np.where(known.bits[here] != 0, known.place[here], place)
                for position_of_source, known in enumerate(sources.values()):
                    if moves:
                        bits = runs[position_of_source][position] ^ number(lanes.r[register])
                    else:
                        bits = np.where(known.bits[here] != 0, _ALL, np.uint64(0))
                    computed = computed | ((bits != 0) & (known.computed[here] if moves else True))
                    total, place = total | bits, np.where(bits != 0, known.place[here], place)
                if runs:
                    total = total | runs[-1][position] ^ number(lanes.r[register])
                put(lanes, register, total, computed, place)

        return lambda lanes: follow(lanes) if lanes.frame.poison else step(lanes)

    def guard(self, site: Site, step: Step) -> Step:
        """Return a guarded step that reports a predicate."""
        register = site.instruction.guard.number if site.instruction.guard is not None else -1

        def run(lanes: Lanes) -> None:
            self.use(site, lanes, register, "branch")
            step(lanes)

        return run

    def end(self, site: Site, lanes: Lanes) -> None:
        """Report what the end of a block depends on."""
        for register in site.reads:
            self.use(site, lanes, register, "branch" if site.root in ("bra", "brx") else "shuffle")
        for register in site.writes:
            put(lanes, register)

    # Memory

    def memory(self, site: Site, lanes: Lanes, touched: list[Touched]) -> None:
        """Follow the values of an instruction that has accessed memory."""
        for register in site.address:
            self.use(site, lanes, register, "address")
        for register in site.writes if site.root in ("ld", "ldu") else ():
            put(lanes, register)
        source = None
        for each in touched:
            if each.access == "read":
                if site.root in ("ld", "ldu"):
                    self.load(site, each)
                source = each if site.root == "cp" else None
            elif site.root == "st":
                self.store(site, each)
            else:
                if (
                    site.root in ("atom", "red")
                    and "exch" not in site.instruction.opcode
                    and (held := each.states()[0].view(U8).reshape(len(each.index), -1)).any()
                ):
                    most = held.max(axis=1)
                    place = places(each, 0, most)
                    self.report(site, each.lanes, most != WRITTEN, place, "atomic", "updates")
                same = (
                    source is not None
                    and source.dtype == each.dtype
                    and len(source.index) == len(each.index)
                )
                states: list[Any] = [WRITTEN] * each.count
                if same and source is not None:
                    states = [copied(state.view(U8)).view(each.dtype) for state in source.states()]
                each.set_states(states)

    def load(self, site: Site, each: Touched) -> None:
        """Mark the registers of lanes that have loaded bytes that nothing wrote."""
        size = each.dtype.itemsize
        for part, (register, state) in enumerate(zip(site.values, each.states(), strict=False)):
            if register >= 0 and state.any():
                table = state.view(U8).reshape(-1, size)
                bits = number(
                    np.where(table == WRITTEN, U8.type(0), U8.type(255))
                    .reshape(-1)
                    .view(each.dtype)
                )
                put(
                    each.lanes,
                    register,
                    bits,
                    (table == COMPUTED).any(axis=1),
                    places(each, part, table.max(axis=1)),
                )

    def store(self, site: Site, each: Touched) -> None:
        """Mark the bytes that lanes have stored as what their registers are, and report those in
        global memory.
        """
        states = [np.zeros(1, each.dtype)] * each.count
        for part, register in enumerate(site.values):
            known = each.lanes.frame.poison.get(register)
            if known is not None and each.memory.space == "global":
                computed = known.computed[where(each.lanes)]
                self.use(
                    site,
                    each.lanes,
                    register,
                    "stored result" if computed.any() else "copy",
                    computed | self.copies,
                )
                known = each.lanes.frame.poison.get(register)
            if known is not None:
                table = (
                    known.bits[where(each.lanes)]
                    .astype(each.dtype)
                    .view(U8)
                    .reshape(-1, each.dtype.itemsize)
                )
                state = np.where(known.computed[where(each.lanes)], COMPUTED, COPIED)[:, None]
                states[part] = (
                    np.where(table == 0, WRITTEN, state).astype(U8).reshape(-1).view(each.dtype)
                )
        each.set_states(states)
