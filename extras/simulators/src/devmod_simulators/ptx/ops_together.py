"""Instructions whose result depends on other lanes: warp operations and barriers. Each ends a
block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Source, Target
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ops_fragments import MATRIX
from devmod_simulators.ptx.ops_matrix import Run
from devmod_simulators.ptx.ops_warp import WARP_OPERATIONS, alive_bits, warps_of
from devmod_simulators.ptx.ptx_types import PRED, U32, Array, Integer, Name

if TYPE_CHECKING:
    from devmod_simulators.ptx.execution import Execution
    from devmod_simulators.ptx.program import Block

_ALL = np.array([0xFFFFFFFF], U32)


@dataclass(frozen=True, slots=True)
class WarpOperation:
    """An operation that runs once all lanes in its mask have come."""

    mask: Source | None
    run_lanes: Run
    writes: int
    barrier: bool = False

    def run(self, execution: "Execution", block: "Block", lanes: Lanes) -> int | None:
        """Run for the warps whose lanes are all here; the others wait."""
        came = lanes
        key = (lanes.frame, block.number)
        parked = execution.parked.pop(key, None)
        if parked is not None:
            lanes = execution.join([parked, lanes], block.number)
            lanes.load(block.reads)
        warps = warps_of(lanes)
        mask = _ALL if self.mask is None else self.mask(lanes)
        if self.mask is not None and lanes.count != execution.alive_count:
            missing = mask & (alive_bits(execution) & ~warps.bits())[warps.warps]
            wait = missing != 0
            if wait.any():
                waiting, lanes = execution.split(lanes, wait, block.live)
                execution.parked[key] = waiting
                if not lanes.count:
                    return None
                lanes.load(block.reads)
                warps = warps_of(lanes)
                mask = self.mask(lanes)
        if lanes.index is not None:
            lanes.dirty |= self.writes
        self.run_lanes(lanes, warps, mask)
        if lanes is came:
            return block.next
        execution.add(lanes, block.next)
        return None


def release_warps(execution: "Execution") -> bool:
    """Release lanes at different bar.warp.sync instructions whose warps are complete together, and
    return whether there were any.
    """
    groups = []
    for key, lanes in execution.parked.items():
        block = lanes.frame.code.blocks[key[1]]
        if isinstance(block.end, WarpOperation) and block.end.barrier:
            lanes.load(block.reads)
            groups.append((key, block, lanes, warps_of(lanes)))
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

    number: Source | int
    threads: Source | None
    arrive_only: bool
    reduction: str
    predicate: Source | None
    out: Target
    writes: int

    def run(self, execution: "Execution", block: "Block", lanes: Lanes) -> int | None:
        """Let the lanes arrive."""
        if isinstance(self.number, int):
            return self.arrive(execution, block, lanes, self.number)
        numbers = self.number(lanes)
        if len(numbers) > 1 and not (numbers == numbers[0]).all():
            lanes.flush(block.live)
            for number in np.unique(numbers):
                part = lanes.select(np.flatnonzero(numbers == number), block.reads)
                following = self.arrive(execution, block, part, int(number))
                if following is not None:
                    execution.add(part, following)
            return None
        return self.arrive(execution, block, lanes, int(numbers[0]))

    def arrive(
        self, execution: "Execution", block: "Block", lanes: Lanes, number: int
    ) -> int | None:
        """Let lanes with one barrier number arrive, and return the block that they go to if they do
        not wait.
        """
        threads = 0
        if self.threads is not None:
            threads = int(self.threads(lanes)[0])
        value = None
        if self.predicate is not None:
            value = self.predicate(lanes)
        following: int | None = execution.barriers.arrive(number, lanes, threads, block, value)
        return following

    def release(self, lanes: Lanes, count: Array, arrived: Array) -> None:
        """Give lanes that go on the result of a reduction: of the threads that `arrived` in their
        block, the predicate of `count` held.
        """
        if lanes.index is not None:
            lanes.dirty |= self.writes
        if self.reduction:
            results = {"popc": count.astype(U32), "or": count > 0, "and": count == arrived}
            self.out(lanes, results[self.reduction])


@dataclass(frozen=True, slots=True)
class ClusterBarrier:
    """barrier.cluster.arrive and wait."""

    wait: bool

    def run(self, execution: "Execution", block: "Block", lanes: Lanes) -> None:
        """Let the lanes arrive at, or wait for, the barrier of their cluster."""
        if self.wait:
            execution.barriers.cluster_wait(lanes, block)
        else:
            execution.barriers.cluster_arrive(lanes)
            execution.add(lanes, block.next)


def _all_lanes(lanes: Lanes) -> Array:
    return _ALL


def _warp(decoder: Decoder) -> WarpOperation:
    root = decoder.root
    run = WARP_OPERATIONS[root](decoder)
    mask: Source | None = None
    if root in MATRIX:
        mask = _all_lanes
    elif decoder.has("sync"):
        mask = decoder.source(len(decoder.operands) - 1, U32)
    return WarpOperation(mask, run, sum(1 << number for number in decoder.writes))


def _barrier(decoder: Decoder) -> Any:
    if decoder.has("cluster"):
        return ClusterBarrier(decoder.has("wait"))
    if decoder.has("warp"):
        return WarpOperation(decoder.source(0, U32), lambda lanes, warps, mask: None, 0, True)
    operands = list(decoder.operands)
    reduction = decoder.first(("popc", "and", "or"))
    out = decoder.target(Name("_"), PRED)
    predicate = None
    if reduction:
        out = decoder.target(operands.pop(0), U32 if reduction == "popc" else PRED)
        predicate = decoder.source(operands.pop(), PRED)
    number: Source | int = 0
    if operands and isinstance(operands[0], Integer):
        number = operands[0].value
    elif operands:
        number = decoder.source(operands[0], U32)
    threads = None
    if len(operands) > 1:
        threads = decoder.source(operands[1], U32)
    return BarrierOperation(
        number,
        threads,
        decoder.has("arrive"),
        reduction,
        predicate,
        out,
        sum(1 << each for each in decoder.writes),
    )


#: The decoders of the instructions of this file.
TOGETHER: dict[str, Callable[[Decoder], Any]] = {
    **dict.fromkeys(WARP_OPERATIONS, _warp),
    **dict.fromkeys(("bar", "barrier"), _barrier),
}
