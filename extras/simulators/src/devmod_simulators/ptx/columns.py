"""Values of each lane that do not change while it runs: special registers and places in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import add, floordiv, mul
from typing import Any

import numpy as np

from devmod_simulators.ptx.ptx_types import S64, U32, U64, Array

Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Launch:
    """The configuration of a launch."""

    grid: Triple
    block: Triple
    parameters: bytes
    shared: int = 0  # bytes of dynamic shared memory
    cluster: Triple = (1, 1, 1)
    cooperative: bool = False
    seconds: float = 60  # how long its threads may wait for others; 0 for no limit
    is_last: bool = False  # the program has ended, and no thread of it does what this one waits for
    depth: int = 0  # the grids that have launched it, one the next

    @property
    def clusters(self) -> Triple:
        """How many clusters the grid has along each axis."""
        x, y, z = map(floordiv, self.grid, self.cluster)
        return x, y, z

    def place(self, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return block and thread of a thread, by its number in the order of execution: the blocks
        of a cluster are next to each other.
        """
        number, thread = divmod(number, math.prod(self.block))
        cluster, rank = divmod(number, math.prod(self.cluster))
        outer = _coordinates(cluster, self.clusters)
        inner = _coordinates(rank, self.cluster)
        block = tuple(map(add, map(mul, outer, self.cluster), inner))
        return block, _coordinates(thread, self.block)


def _coordinates(number: int, extent: Triple) -> tuple[int, ...]:
    return tuple(map(int, np.unravel_index(number, extent[::-1])[::-1]))


def _one(value: int) -> Array:
    return np.array([value], U32)


def _place(index: Array, extent: Triple, axis: str) -> Array:
    """Return the coordinates of linear indices on one axis."""
    position = "xyz".index(axis)
    if extent[position] == 1:
        return np.zeros(1, U32)
    below = math.prod(extent[:position])
    above = math.prod(extent[position + 1 :])
    place = index
    if below > 1:
        place = place // below
    if above > 1:
        place = place % extent[position]
    return place.astype(U32)


def _axis_column(execution: Any, base: str, axis: str) -> Array:
    """Compute a special register with three components."""
    launch = execution.launch
    extents = {
        "ntid": launch.block,
        "nctaid": launch.grid,
        "cluster_nctaid": launch.cluster,
        "nclusterid": launch.clusters,
    }
    if base in extents:
        return _one(extents[base]["xyz".index(axis)])
    if base == "tid":
        return _place(execution.column("thread"), launch.block, axis)
    if base == "clusterid":
        return _place(
            execution.column("number") // math.prod(launch.cluster), launch.clusters, axis
        )
    if base == "cluster_ctaid":
        return _place(execution.column("cluster_ctarank"), launch.cluster, axis)
    # %ctaid: the blocks of a cluster are next to each other in the order of execution.
    if math.prod(launch.cluster) == 1:
        return _place(execution.column("number"), launch.grid, axis)
    outer = execution.column(f"clusterid.{axis}")
    inner = execution.column(f"cluster_ctaid.{axis}")
    return np.asarray(outer * U32.type(launch.cluster["xyz".index(axis)]) + inner, U32)


def _lane_bits(change: Callable[[Array], Array]) -> Callable[[Any], Array]:
    """Return the function that computes a mask of lanes from each lane's own bit."""
    return lambda execution: change(U32.type(1) << execution.column("laneid"))


#: The columns that differ between executions of one form begin so.
MOVING = ("number", "ctaid", "clusterid", "envreg")
#: Special registers.
_SPECIAL: dict[str, Callable[[Any], Array]] = {
    "laneid": lambda execution: (execution.column("thread") & 31).astype(U32),
    "warpid": lambda execution: (execution.column("thread") >> 5).astype(U32),
    "nwarpid": lambda execution: _one(64),
    "smid": lambda execution: (execution.column("block") % 132).astype(U32),
    "nsmid": lambda execution: _one(132),
    "gridid": lambda execution: np.ones(1, U64),
    "cluster_ctarank": lambda execution: (
        execution.column("number") % math.prod(execution.launch.cluster)
    ).astype(U32),
    "cluster_nctarank": lambda execution: _one(math.prod(execution.launch.cluster)),
    "is_explicit_cluster": lambda execution: np.array([math.prod(execution.launch.cluster) > 1]),
    "lanemask_eq": _lane_bits(lambda bit: bit),
    "lanemask_lt": _lane_bits(lambda bit: bit - U32.type(1)),
    "lanemask_le": _lane_bits(lambda bit: bit - U32.type(1) | bit),
    "lanemask_gt": _lane_bits(lambda bit: ~(bit - U32.type(1) | bit)),
    "lanemask_ge": _lane_bits(lambda bit: ~(bit - U32.type(1))),
    "dynamic_smem_size": lambda execution: _one(execution.launch.shared),
    "total_smem_size": lambda execution: _one(execution.shared.size),
    "aggr_smem_size": lambda execution: _one(execution.shared.size),
    "reserved_smem_offset_begin": lambda execution: _one(0),
    "current_graph_exec": lambda execution: np.zeros(1, U64),
}

#: Of the interpreter: the place of a lane in its block, of its block among those that run at once
#: and in the grid.
_PLACES: dict[str, Callable[[Any], Array]] = {
    "lanes": lambda execution: np.arange(execution.count, dtype=S64),
    "thread": lambda execution: np.tile(
        np.arange(execution.threads, dtype=S64), len(execution.blocks)
    ),
    "block": lambda execution: np.repeat(
        np.arange(len(execution.blocks), dtype=S64), execution.threads
    ),
    "number": lambda execution: execution.column("block") + execution.blocks.start,
    "number_thread": lambda execution: (
        execution.column("number") * execution.threads + execution.column("thread")
    ),
    "slot": lambda execution: (
        execution.column("block") * (execution.warps_per_block * 32) + execution.column("thread")
    ),
    "shared": lambda execution: (
        execution.column("block") * execution.shared.stride
        if len(execution.blocks) > 1
        else np.zeros(1, S64)
    ),
}
CHANGING_REGISTERS = {
    "clock",
    "clock64",
    "clock_hi",
    "globaltimer",
    "globaltimer_lo",
    "globaltimer_hi",
}
_TRIPLES = (
    "tid",
    "ntid",
    "ctaid",
    "nctaid",
    "clusterid",
    "nclusterid",
    "cluster_ctaid",
    "cluster_nctaid",
)
SPECIAL_REGISTERS = {*_SPECIAL, *CHANGING_REGISTERS, *(f"envreg{number}" for number in range(32))}
SPECIAL_REGISTERS |= {f"{name}.{axis}" for name in _TRIPLES for axis in "xyz"}


def make_column(execution: Any, name: str) -> Array:
    """Compute a column: an element for each lane, or one if it is the same for all."""
    base, _, axis = name.partition(".")
    if axis:
        return _axis_column(execution, base, axis)
    if name.startswith("envreg"):
        # The cooperative groups of CUDA's headers find the barrier of the grid through these two.
        return _one(
            {1: execution.workspace >> 32, 2: execution.workspace}.get(int(name[6:]), 0)
            & 0xFFFFFFFF
        )
    return (_SPECIAL.get(name) or _PLACES[name])(execution)
