"""Operations of a warp: shuffles, votes, matches, reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from devmod_simulators.ptx.decoder import Decoder
from devmod_simulators.ptx.lanes import NARROW, Lanes
from devmod_simulators.ptx.ops_bits import population
from devmod_simulators.ptx.ops_fragments import MATRIX, decode_matrix
from devmod_simulators.ptx.ops_integer import REDUCTIONS
from devmod_simulators.ptx.ops_matrix import Run
from devmod_simulators.ptx.ptx_types import DTYPES, F32, PRED, S32, S64, U32, U64, Array

if TYPE_CHECKING:
    from devmod_simulators.ptx.execution import Execution


class Warps:
    """Where the lanes of a group are in their warps."""

    def __init__(self, lanes: Lanes) -> None:
        slots = lanes.frame.execution.slots
        self.slots = lanes.spread(lanes.column("slot"))
        self.warps = self.slots >> 5
        self.count = slots // 32
        self.present = np.zeros(slots, bool)
        self.present[self.slots] = True
        self.dense = lanes.count == slots

    def positions(self) -> Array:
        """Return the position of each slot's lane in the group, or 0 where the slot has none."""
        table = np.zeros(len(self.present), S64)
        table[self.slots] = np.arange(len(self.slots))
        return table

    def bits(self, flags: Array | None = None) -> Array:
        """Return 32 bits for each warp: the lanes whose flag is set, by default all of the
        group.
        """
        table = self.present
        if flags is not None:
            table = np.zeros(len(self.present), bool)
            table[self.slots] = flags
        return np.packbits(table, bitorder="little").view(U32)


def warps_of(lanes: Lanes) -> Warps:
    """Return where the lanes of a group are in their warps: they never change."""
    if lanes.warps is None:
        lanes.warps = Warps(lanes)
    warps: Warps = lanes.warps
    return warps


def bits_of(execution: "Execution", chosen: Array) -> Array:
    """Return 32 bits for each warp: the lanes of an execution that are chosen."""
    table = np.zeros(execution.slots, bool)
    table[execution.column("slot")[chosen]] = True
    return np.packbits(table, bitorder="little").view(U32)


def alive_bits(execution: "Execution") -> Array:
    """Return 32 bits for each warp: the lanes that have not exited."""
    if execution.alive_bits_now is None:
        execution.alive_bits_now = bits_of(execution, execution.alive)
    return execution.alive_bits_now


def _shfl(decoder: Decoder) -> Run:
    mode = decoder.first(("up", "down", "bfly", "idx"))
    out, valid_out = decoder.pair(U32, PRED)
    a = decoder.source(1, U32)
    b = decoder.source(2, U32)
    c = decoder.source(3, U32)
    five = U32.type(31)
    target = getattr(decoder.operands[0], "first", decoder.operands[0])
    registers = getattr(target, "number", -1), getattr(decoder.operands[1], "number", -1)

    def sources(
        lanes: Lanes, warps: Warps, selector: Array, packed: Array
    ) -> tuple[Array, Array | None, Array, Array]:
        """Return the position of each lane's source, whether that is here (None if all are),
        whether it is in range, and its number in the warp.
        """
        lane = lanes.column("laneid").view(S32)
        operand = (selector & five).view(S32)
        clamp = (packed & five).view(S32)
        segment = ((packed >> U32.type(8)) & five).view(S32)
        first = lane & segment
        limit = first | (clamp & ~segment)
        if mode == "up":
            source = lane - operand
        elif mode == "down":
            source = lane + operand
        elif mode == "bfly":
            source = lane ^ operand
        else:
            source = first | (operand & ~segment)
        compare = np.greater_equal if mode == "up" else np.less_equal
        valid = compare(source, limit)
        source = np.where(valid, source, lane)
        slot = (warps.slots & ~np.int64(31)) + source
        if warps.dense:
            return slot, None, valid, source
        return warps.positions().take(slot), warps.present.take(slot), valid, source

    def run(lanes: Lanes, warps: Warps, members: Array) -> None:
        selector = b(lanes)
        packed = c(lanes)
        known = lanes.found.get(run)
        # Registers never change in place, so the same ones mean the same lanes.
        if known is None or known[0] is not selector or known[1] is not packed:
            known = selector, packed, *sources(lanes, warps, selector, packed)
            if lanes.count <= NARROW:
                lanes.found[run] = known
        _, _, position, here, valid, source = known
        value = a(lanes)
        if len(value) > 1:
            value = value.take(position)
            if here is not None:
                value = np.where(here, value, U32.type(0))
        out(lanes, value)
        valid_out(lanes, valid)
        execution = lanes.frame.execution
        if execution.checks:
            one = U32.type(1)
            absent = members >> lanes.spread(source).astype(U32) & one == 0
            if here is not None:
                absent |= ~here
            # A lane outside of its own mask is another fault.
            absent &= members >> lanes.column("laneid") & one == one
            execution.shuffled(lanes, registers, position, absent, source)  # type: ignore[attr-defined]

    return run


def _vote(decoder: Decoder) -> Run:
    mode = decoder.first(("all", "any", "uni", "ballot"))
    out = decoder.target(0, U32 if mode == "ballot" else PRED)
    predicate = decoder.source(1, PRED)

    def run(lanes: Lanes, warps: Warps, members: Array) -> None:
        flags = predicate(lanes)
        holds = warps.bits(flags)[warps.warps] & members
        here = warps.bits()[warps.warps] & members
        if mode == "ballot":
            out(lanes, holds)
        elif mode == "any":
            out(lanes, holds != 0)
        elif mode == "all":
            out(lanes, holds == here)
        else:
            out(lanes, (holds == here) | (holds == 0))

    return run


def _match(decoder: Decoder) -> Run:
    everyone = decoder.has("all")
    dtype = U64 if decoder.type == "b64" else U32
    out, same_out = decoder.pair(U32, PRED)
    a = decoder.source(1, dtype)

    def run(lanes: Lanes, warps: Warps, members: Array) -> None:
        values = lanes.spread(a(lanes))
        here = warps.bits()
        table = np.zeros(warps.count * 32, dtype)
        table[warps.slots] = values
        rows = table.reshape(-1, 32)
        equal = np.zeros(lanes.count, U32)
        for number in range(32):
            same = rows[warps.warps, number] == values
            equal |= np.where(same, U32.type(1 << number), U32.type(0))
        members_here = here[warps.warps] & members
        equal &= members_here
        if not everyone:
            out(lanes, equal)
            return
        same = equal == members_here
        out(lanes, np.where(same, equal, U32.type(0)))
        same_out(lanes, same)

    return run


def _redux(decoder: Decoder) -> Run:
    name = decoder.first(REDUCTIONS)
    function = REDUCTIONS[name]
    dtype = DTYPES[decoder.type]
    if dtype == F32 and not decoder.has("NaN"):
        function = {"min": np.fmin, "max": np.fmax}[name]
    out = decoder.target(0, dtype)
    a = decoder.source(1, dtype)

    def run(lanes: Lanes, warps: Warps, members: Array) -> None:
        values = lanes.spread(a(lanes))
        sets = np.unique(
            np.stack([warps.warps.astype(U64), lanes.spread(members).astype(U64)]),
            axis=1,
            return_inverse=True,
        )[1].reshape(-1)
        order = np.argsort(sets, kind="stable")
        starts = np.flatnonzero(np.diff(sets[order], prepend=-1))
        if decoder.has("abs"):
            values = np.abs(values)
        out(lanes, function.reduceat(values[order], starts).astype(dtype)[sets])

    return run


def _elect(decoder: Decoder) -> Run:
    out, chosen_out = decoder.pair(U32, PRED)

    def run(lanes: Lanes, warps: Warps, members: Array) -> None:
        here = warps.bits()[warps.warps] & members
        leader = population((here & (~here + U32.type(1))) - U32.type(1))
        out(lanes, leader)
        chosen_out(lanes, leader == lanes.column("laneid"))

    return run


def _activemask(decoder: Decoder) -> Run:
    out = decoder.target(0, U32)
    return lambda lanes, warps, members: out(lanes, warps.bits()[warps.warps])


WARP_OPERATIONS: dict[str, Callable[[Decoder], Run]] = {
    "shfl": _shfl,
    "vote": _vote,
    "match": _match,
    "redux": _redux,
    "elect": _elect,
    "activemask": _activemask,
    **dict.fromkeys(MATRIX, decode_matrix),
}
