"""Barriers of blocks and of clusters."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ptx_types import S64, Array

if TYPE_CHECKING:
    from devmod_simulators.ptx.execution import Execution
    from devmod_simulators.ptx.program import Block


@dataclass(slots=True)
class Waiting:
    """Lanes that wait at a barrier, and the block of instructions that it ends."""

    lanes: Lanes
    block: Block


class Barrier:
    """One barrier number: arrivals in each block of threads."""

    def __init__(self, blocks: int) -> None:
        self.arrived = np.zeros(blocks, S64)
        self.expected = np.zeros(blocks, S64)  # 0: all threads that have not exited
        self.count = np.zeros(blocks, S64)  # lanes whose predicate holds
        self.waiting: list[Waiting] = []
        #: With checks: what the warps of each block knew that arrived.
        self.known: Array | None = None


class Barriers:
    """The barriers of an execution: those of blocks by number, and one for each cluster."""

    def __init__(self, execution: "Execution") -> None:
        self.execution = execution
        self.alive = np.full(len(execution.blocks), execution.threads, S64)
        self.barriers: defaultdict[int, Barrier] = defaultdict(lambda: Barrier(len(self.alive)))
        self.cluster_size = math.prod(execution.launch.cluster)
        self.cluster_arrived = np.zeros(len(execution.blocks) // self.cluster_size, S64)
        self.cluster_phase = np.zeros(len(execution.blocks) // self.cluster_size, S64)
        self.lane_phase = np.zeros(execution.count, S64)
        self.cluster_waiting: list[Waiting] = []

    @property
    def waiting(self) -> bool:
        """Whether lanes wait."""
        return bool(self.groups())

    def groups(self) -> list[Waiting]:
        """Return the groups of lanes that wait."""
        groups = [*self.cluster_waiting]
        for barrier in self.barriers.values():
            groups += barrier.waiting
        return groups

    def leave(self, lanes: Lanes) -> None:
        """Count lanes that exit."""
        self.alive -= np.bincount(lanes.spread(lanes.column("block")), minlength=len(self.alive))
        if self.waiting:
            self.release()

    def arrive(
        self,
        number: int,
        lanes: Lanes,
        threads: int,
        block: Block,
        value: Array | None = None,
    ) -> int | None:
        """Count lanes that arrive at a barrier, with the values of a predicate. They wait, unless
        they only arrive.

        Return the block that they go to if all are there.
        """
        operation = block.end
        barrier = self.barriers[number]
        whole = lanes.count == self.execution.alive_count and not barrier.waiting and not threads
        if (
            whole
            and value is None
            and not operation.arrive_only
            and not np.count_nonzero(barrier.arrived)
        ):
            return block.next
        blocks = lanes.spread(lanes.column("block"))
        barrier.arrived += np.bincount(blocks, minlength=len(self.alive))
        if threads:
            barrier.expected[blocks] = threads
        if value is not None:
            barrier.count += np.bincount(
                blocks, weights=lanes.spread(value), minlength=len(self.alive)
            ).astype(S64)
        if not operation.arrive_only:
            barrier.waiting.append(Waiting(lanes, block))
        self.release()
        return block.next if operation.arrive_only else None

    def release(self) -> bool:
        """Release the lanes of each block whose barrier is complete, and return whether there were
        any.
        """
        released = bool(self.cluster_waiting) and self.cluster_release()
        for barrier in self.barriers.values():
            complete = self.complete(barrier)
            if not complete.any():
                continue
            released = True
            groups = barrier.waiting
            barrier.waiting = []
            for group in groups:
                self.release_group(barrier, group, complete)
            barrier.arrived[complete] = 0
            barrier.count[complete] = 0
            barrier.expected[complete] = 0
        return released

    def complete(self, barrier: Barrier) -> Array:
        """Return which blocks have all their threads at a barrier."""
        expected = np.where(barrier.expected > 0, barrier.expected, self.alive)
        # Warps count whole: a partial last warp completes a barrier with an explicit number of
        # threads.
        reached = np.where(barrier.expected > 0, -(-barrier.arrived // 32) * 32, barrier.arrived)
        return np.asarray((barrier.arrived > 0) & (reached >= expected))

    def release_group(self, barrier: Barrier, group: Waiting, complete: Array) -> None:
        """Release the lanes of a group whose block is complete."""
        lanes = self.part(
            group, complete[group.lanes.spread(group.lanes.column("block"))], barrier.waiting
        )
        if lanes is not None:
            blocks = lanes.spread(lanes.column("block"))
            group.block.end.release(lanes, barrier.count[blocks], barrier.arrived[blocks])
            self.execution.add(lanes, group.block.next)

    def part(self, group: Waiting, chosen: Array, waiting: list[Waiting]) -> Lanes | None:
        """Return the lanes of a group that are released. The others wait on."""
        if chosen.all():
            return group.lanes
        lanes = None
        rest = group
        if chosen.any():
            following = group.lanes.frame.code.blocks[group.block.next]
            lanes, others = self.execution.split(group.lanes, chosen, following.live)
            rest = Waiting(others, group.block)
        waiting.append(rest)
        return lanes

    # Clusters: each arrival of all threads of a cluster ends a phase; a thread waits for the phase
    # in which it arrived.

    def clusters(self, lanes: Lanes) -> Array:
        """Return the number of each lane's cluster."""
        return lanes.spread(lanes.column("block")) // self.cluster_size

    def cluster_arrive(self, lanes: Lanes) -> None:
        """Count lanes that arrive at the barrier of their cluster."""
        clusters = self.clusters(lanes)
        self.cluster_arrived += np.bincount(clusters, minlength=len(self.cluster_arrived))
        self.lane_phase[lanes.lanes] = self.cluster_phase[clusters] + 1
        self.cluster_release()

    def cluster_wait(self, lanes: Lanes, block: Block) -> None:
        """Let lanes wait for the end of the phase in which they arrived."""
        self.cluster_waiting.append(Waiting(lanes, block))
        self.cluster_release()

    def cluster_release(self) -> bool:
        """End the phases that are complete and release the lanes that wait for them."""
        alive = self.alive.reshape(-1, self.cluster_size).sum(axis=1)
        complete = (self.cluster_arrived > 0) & (self.cluster_arrived >= alive)
        self.cluster_phase[complete] += 1
        self.cluster_arrived[complete] = 0
        released = False
        groups = self.cluster_waiting
        self.cluster_waiting = []
        for group in groups:
            over = (
                self.cluster_phase[self.clusters(group.lanes)] >= self.lane_phase[group.lanes.lanes]
            )
            lanes = self.part(group, over, self.cluster_waiting)
            if lanes is not None:
                released = True
                self.execution.add(lanes, group.block.next)
        return released
