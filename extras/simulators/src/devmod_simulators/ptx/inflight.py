"""Asynchronous copies of threads (cp.async) that nothing has waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ptx_types import S64, Array
from devmod_simulators.ptx.reports import source_of
from devmod_simulators.ptx.shadows import Touched

if TYPE_CHECKING:
    from devmod_simulators.ptx.checked import CheckedExecution, Site

#: The fewest bytes of a copy, to which it is aligned.
_GRAIN = 4


@dataclass
class Copies:
    """Copies of an instruction: the lane, its thread of the launch, the group and the grain of
    shared memory of each.
    """

    lanes: Array
    threads: Array
    groups: Array
    grains: Array
    site: Site

    def where(self, chosen: Array) -> Copies:
        """Return some of the copies."""
        return Copies(
            self.lanes[chosen],
            self.threads[chosen],
            self.groups[chosen],
            self.grains[chosen],
            self.site,
        )


class InFlight:
    """The copies of an execution that their threads have not waited for.

    A copy happens at once, but its bytes are valid once its thread has waited for it. The wait
    counts as the write, which a barrier then orders for others.
    """

    def __init__(self, execution: CheckedExecution) -> None:
        self.execution = execution
        self.pending: list[Copies] = []
        #: The groups of each lane that are committed.
        self.committed = np.zeros(execution.count, S64)

    def begin(self, site: Site, each: Touched) -> None:
        """Note copies, which belong to the open groups of their lanes."""
        size = each.access.dtype.itemsize
        lanes = each.lanes
        index = lanes.spread(each.index)
        for first in range(0, each.access.size, _GRAIN):
            self.pending.append(
                Copies(
                    lanes.lanes,
                    lanes.spread(lanes.column("number_thread")),
                    self.committed[lanes.lanes],
                    (index * size + first) // _GRAIN,
                    site,
                )
            )

    def wait(self, lanes: Lanes, kind: str, count: int) -> None:
        """Commit the open groups of lanes, or end all groups but the last `count` ones."""
        if kind != "wait_group":
            self.committed[lanes.lanes] += 1
        if kind == "commit_group" or not self.pending:
            return
        chosen = np.zeros(self.execution.count, bool)
        chosen[lanes.lanes] = True
        last = self.committed - count
        pending = []
        for each in self.pending:
            ended = chosen[each.lanes] & (each.groups < last[each.lanes])
            if ended.any():
                self.end(each.where(ended))
                each = each.where(~ended)
            if len(each.lanes):
                pending.append(each)
        self.pending = pending

    def end(self, copies: Copies) -> None:
        """Note the writes of copies."""
        shadow = self.execution.shared.shadow
        shadow.last_write = self.execution.sanitizer.tick(copies.site)
        record = copies.threads | shadow.last_write << 32
        parts = _GRAIN // shadow.grain
        for part in range(parts):
            shadow.writes[copies.grains * parts + part] = record

    def check(self, site: Site, each: Touched) -> None:
        """Report the lanes that access what a copy may still write."""
        first = each.index * each.access.dtype.itemsize // _GRAIN
        last = (each.index * each.access.dtype.itemsize + each.access.size - 1) // _GRAIN
        for copies in self.pending:
            order = np.argsort(copies.grains)
            grains = copies.grains[order]
            found = np.searchsorted(grains, first)
            nearest = np.minimum(found, len(grains) - 1)
            bad = each.lanes.spread((grains[nearest] >= first) & (grains[nearest] <= last))
            positions = np.flatnonzero(bad)
            if len(positions):
                number = int(order[each.lanes.spread(nearest)[positions[0]]])
                self.report(site, each, positions, copies, number)
                return

    def report(
        self, site: Site, each: Touched, positions: Array, copies: Copies, number: int
    ) -> None:
        """Report lanes that access the bytes of a copy."""
        execution = self.execution
        block, thread = execution.launch.place(int(copies.threads[number]))
        place = execution.element(site, int(copies.grains[number]) * _GRAIN, "shared")
        line = source_of(execution.program.module, copies.site.instruction)
        detail = (
            f"{place.element}; block {block}, thread {thread} copies to it at {line}, "
            "and has not waited for the copy (cp.async.wait_group)"
        )
        execution.sanitizer.report(
            execution,
            "race",
            f"copy in flight ({each.access.kind.split()[0]})",
            site,
            each.lanes.lanes[positions],
            detail,
            place.name,
            place.index,
        )
