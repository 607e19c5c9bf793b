"""Instructions whose result depends on other lanes: warp operations and barriers. Each ends a block."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .decoder import Decoder, Source, Target
from .ops_integer import population
from .ops_matrix import MATRIX, decode_matrix
from .ptx_types import DTYPES, F32, PRED, S32, S64, U32, U64, Array, Pair

if TYPE_CHECKING:
    from .execution import Execution
    from .lanes import Lanes
    from .program import Block

_ALL = np.array([0xFFFFFFFF], U32)


class Warps:
    """Where the lanes of a group are in their warps."""

    def __init__(self, execution: "Execution", lanes: "Lanes") -> None:
        self.slots = lanes.spread(lanes.column("slot"))
        self.warps = self.slots >> 5
        self.count = execution.slots // 32
        self.present = np.zeros(execution.slots, bool)
        self.present[self.slots] = True
        self.dense = lanes.count == execution.slots

    def positions(self) -> Array:
        """Return the position of each slot's lane in the group, or 0 where the slot has none."""
        table = np.zeros(len(self.present), S64)
        table[self.slots] = np.arange(len(self.slots))
        return table

    def bits(self, flags: Array | None = None) -> Array:
        """Return 32 bits for each warp: the lanes whose flag is set, by default all of the group."""
        table = self.present
        if flags is not None:
            table = np.zeros(len(self.present), bool)
            table[self.slots] = flags
        return np.packbits(table, bitorder="little").view(U32)


def alive_bits(execution: "Execution") -> Array:
    """Return 32 bits for each warp: the lanes that have not exited."""
    if execution.alive_bits_now is None:
        table = np.zeros(execution.slots, bool)
        table[execution.column("slot")[execution.alive]] = True
        execution.alive_bits_now = np.packbits(table, bitorder="little").view(U32)
    return execution.alive_bits_now


Run = Callable[["Lanes", Warps, Array], None]


@dataclass(frozen=True, slots=True)
class WarpOperation:
    """An operation that runs once all lanes in its mask have come."""

    mask: Source | None
    run_lanes: Run
    writes: int
    barrier: bool = False

    def run(self, execution: "Execution", block: "Block", lanes: "Lanes") -> None:
        """Run for the warps whose lanes are all here; the others wait."""
        key = (lanes.frame, block.number)
        parked = execution.parked.pop(key, None)
        if parked is not None:
            lanes = execution.join(parked, lanes, block.number)
            lanes.load(block.reads)
        warps = Warps(execution, lanes)
        mask = _ALL if self.mask is None else self.mask(lanes)
        if self.mask is not None and lanes.count != execution.alive_count:
            missing = mask & (alive_bits(execution) & ~warps.bits())[warps.warps]
            wait = missing != 0
            if wait.any():
                waiting, lanes = execution.split(lanes, wait, block.live)
                execution.parked[key] = waiting
                if not lanes.count:
                    return
                lanes.load(block.reads)
                warps = Warps(execution, lanes)
                mask = self.mask(lanes)
        if lanes.index is not None:
            lanes.dirty |= self.writes
        self.run_lanes(lanes, warps, mask)
        execution.add(lanes, block.next)


def release_warps(execution: "Execution") -> bool:
    """Release lanes at different bar.warp.sync instructions whose warps are complete together, and return whether there were any."""
    groups = []
    for key, lanes in execution.parked.items():
        block = lanes.frame.code.blocks[key[1]]
        if isinstance(block.end, WarpOperation) and block.end.barrier:
            lanes.load(block.reads)
            groups.append((key, block, lanes, Warps(execution, lanes)))
    present = np.zeros(execution.slots // 32, U32)
    for _, _, _, warps in groups:
        present |= warps.bits()
    released = False
    missing = alive_bits(execution) & ~present
    for key, block, lanes, warps in groups:
        complete = (block.end.mask(lanes) & missing[warps.warps]) == 0
        if complete.any():
            released = True
            del execution.parked[key]
            if not complete.all():
                lanes, execution.parked[key] = execution.split(lanes, complete, block.live)
            execution.add(lanes, block.next)
    return released


@dataclass(frozen=True, slots=True)
class BarrierOperation:
    """A barrier of blocks or clusters."""

    number: Source | None
    threads: Source | None
    arrive_only: bool
    reduction: str
    predicate: Source | None
    out: Target | None
    writes: int

    def run(self, execution: "Execution", block: "Block", lanes: "Lanes") -> None:
        """Let the lanes arrive."""
        numbers = self.number(lanes) if self.number is not None else np.zeros(1, U32)
        if len(numbers) > 1 and not (numbers == numbers[0]).all():
            lanes.flush(block.live)
            for number in np.unique(numbers):
                part = lanes.select(np.flatnonzero(numbers == number), block.reads)
                self.arrive(execution, block, part, int(number))
            return
        self.arrive(execution, block, lanes, int(numbers[0]))

    def arrive(self, execution: "Execution", block: "Block", lanes: "Lanes", number: int) -> None:
        """Let lanes with one barrier number arrive."""
        threads = int(self.threads(lanes)[0]) if self.threads is not None else 0
        if self.arrive_only:
            execution.barriers.arrive(number, lanes, threads, None)
            execution.add(lanes, block.next)
            return
        if self.predicate is None or self.out is None:
            execution.barriers.arrive(number, lanes, threads, block)
            return
        out, reduction, writes = self.out, self.reduction, self.writes

        def release(released: "Lanes", count: Array, arrived: Array) -> None:
            if released.index is not None:
                released.dirty |= writes
            out(released, {"popc": count.astype(U32), "or": count > 0, "and": count == arrived}[reduction])

        execution.barriers.arrive(number, lanes, threads, block, release, self.predicate(lanes))


@dataclass(frozen=True, slots=True)
class ClusterBarrier:
    """barrier.cluster.arrive and wait."""

    wait: bool

    def run(self, execution: "Execution", block: "Block", lanes: "Lanes") -> None:
        """Let the lanes arrive at, or wait for, the barrier of their cluster."""
        if self.wait:
            execution.barriers.cluster_wait(lanes, block)
        else:
            execution.barriers.cluster_arrive(lanes)
            execution.add(lanes, block.next)


def decode_together(decoder: Decoder) -> Any:
    """Decode an instruction of this file."""
    root = decoder.parts[0]
    if root in ("bar", "barrier"):
        return _barrier(decoder)
    if root in MATRIX:
        run = decode_matrix(decoder)
        return WarpOperation(lambda lanes: _ALL, run, sum(1 << number for number in decoder.writes))
    makers = {"shfl": _shfl, "vote": _vote, "match": _match, "redux": _redux, "elect": _elect, "activemask": _activemask}
    mask, run = makers[root](decoder)
    return WarpOperation(mask, run, sum(1 << number for number in decoder.writes))


def _barrier(decoder: Decoder) -> Any:
    if decoder.has("cluster"):
        return ClusterBarrier(decoder.has("wait"))
    if decoder.has("warp"):
        return WarpOperation(decoder.source(0, U32), lambda lanes, warps, mask: None, 0, True)
    operands = list(decoder.operands)
    if decoder.has("red"):
        reduction = decoder.first(("popc", "and", "or"))
        out = decoder.target(operands.pop(0), U32 if reduction == "popc" else PRED)
        predicate = decoder.source(operands.pop(), PRED)
        number = decoder.source(operands.pop(0), U32)
        threads = decoder.source(operands[0], U32) if operands else None
        return BarrierOperation(number, threads, False, reduction, predicate, out, sum(1 << each for each in decoder.writes))
    number = decoder.source(operands[0], U32) if operands else None
    threads = decoder.source(operands[1], U32) if len(operands) > 1 else None
    return BarrierOperation(number, threads, decoder.has("arrive"), "", None, None, 0)


def _shfl(decoder: Decoder) -> tuple[Source | None, Run]:
    mode = decoder.first(("up", "down", "bfly", "idx"))
    target = decoder.operands[0]
    out = decoder.target(target.first if isinstance(target, Pair) else target, U32)
    valid_out = decoder.target(target.second, PRED) if isinstance(target, Pair) else None
    a, b, c = decoder.source(1, U32), decoder.source(2, U32), decoder.source(3, U32)
    mask = decoder.source(4, U32) if decoder.has("sync") else None
    five = U32.type(31)

    def run(lanes: "Lanes", warps: Warps, members: Array) -> None:
        lane = lanes.column("laneid").view(S32)
        operand = (b(lanes) & five).view(S32)
        packed = c(lanes)
        clamp = (packed & five).view(S32)
        segment = ((packed >> U32.type(8)) & five).view(S32)
        first = lane & segment
        limit = first | (clamp & ~segment)
        if mode == "up":
            source = lane - operand
            valid = source >= limit
        elif mode == "down":
            source = lane + operand
            valid = source <= limit
        elif mode == "bfly":
            source = lane ^ operand
            valid = source <= limit
        else:
            source = first | (operand & ~segment)
            valid = source <= limit
        source = np.where(valid, source, lane)
        value = a(lanes)
        if len(value) > 1:
            slot = (warps.slots & ~np.int64(31)) + source
            if warps.dense:
                value = value.take(slot)
            else:
                here = warps.present.take(slot)
                value = np.where(here, value.take(warps.positions().take(slot)), U32.type(0))
        out(lanes, value)
        if valid_out is not None:
            valid_out(lanes, valid)

    return mask, run


def _vote(decoder: Decoder) -> tuple[Source | None, Run]:
    mode = decoder.first(("all", "any", "uni", "ballot"))
    out = decoder.target(0, U32 if mode == "ballot" else PRED)
    predicate = decoder.source(1, PRED)
    mask = decoder.source(2, U32) if decoder.has("sync") else None

    def run(lanes: "Lanes", warps: Warps, members: Array) -> None:
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

    return mask, run


def _match(decoder: Decoder) -> tuple[Source | None, Run]:
    everyone = decoder.has("all")
    dtype = U64 if decoder.type == "b64" else U32
    target = decoder.operands[0]
    out = decoder.target(target.first if isinstance(target, Pair) else target, U32)
    same_out = decoder.target(target.second, PRED) if isinstance(target, Pair) else None
    a, mask = decoder.source(1, dtype), decoder.source(2, U32)

    def run(lanes: "Lanes", warps: Warps, members: Array) -> None:
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
        if same_out is not None:
            same_out(lanes, same)

    return mask, run


_REDUCTIONS: dict[str, Any] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _redux(decoder: Decoder) -> tuple[Source | None, Run]:
    function = _REDUCTIONS[decoder.first(tuple(_REDUCTIONS))]
    dtype = DTYPES[decoder.type]
    out, a, mask = decoder.target(0, dtype), decoder.source(1, dtype), decoder.source(2, U32)

    def run(lanes: "Lanes", warps: Warps, members: Array) -> None:
        values = lanes.spread(a(lanes))
        sets = np.unique(np.stack([warps.warps.astype(U64), lanes.spread(members).astype(U64)]), axis=1, return_inverse=True)[1].reshape(-1)
        order = np.argsort(sets, kind="stable")
        starts = np.flatnonzero(np.diff(sets[order], prepend=-1))
        if dtype == F32 and decoder.has("abs"):
            values = np.abs(values)
        out(lanes, function.reduceat(values[order], starts).astype(dtype)[sets])

    return mask, run


def _elect(decoder: Decoder) -> tuple[Source | None, Run]:
    target = decoder.operands[0]
    out = decoder.target(target.first if isinstance(target, Pair) else target, U32)
    chosen_out = decoder.target(target.second, PRED) if isinstance(target, Pair) else None
    mask = decoder.source(1, U32)

    def run(lanes: "Lanes", warps: Warps, members: Array) -> None:
        here = warps.bits()[warps.warps] & members
        leader = population((here & (~here + U32.type(1))) - U32.type(1))
        out(lanes, leader)
        if chosen_out is not None:
            chosen_out(lanes, leader == lanes.column("laneid"))

    return mask, run


def _activemask(decoder: Decoder) -> tuple[Source | None, Run]:
    out = decoder.target(0, U32)
    return None, lambda lanes, warps, members: out(lanes, warps.bits()[warps.warps])
