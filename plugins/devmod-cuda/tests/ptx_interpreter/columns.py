"""Values of each lane that do not change while it runs: special registers and places in memory."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .ptx_types import S64, U32, U64, Array

if TYPE_CHECKING:
    from .execution import Execution

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


def make_column(execution: "Execution", name: str) -> Array:
    """Compute a column."""
    launch = execution.launch
    base, _, axis = name.partition(".")
    sizes: dict[str, Triple] = {
        "ntid": launch.block, "nctaid": launch.grid, "cluster_nctaid": launch.cluster,
        "nclusterid": tuple(a // b for a, b in zip(launch.grid, launch.cluster, strict=True)),  # type: ignore[dict-item]
    }  # fmt: skip
    if base in sizes:
        return np.array([sizes[base]["xyz".index(axis)]], U32)
    lane = execution.columns["lanes"]
    thread = lane % execution.threads
    block = lane // execution.threads
    numbers = block + execution.blocks.start
    in_cluster = int(np.prod(launch.cluster))
    place = {
        "tid": (thread, launch.block),
        "clusterid": (numbers // in_cluster, sizes["nclusterid"]),
        "cluster_ctaid": (numbers % in_cluster, launch.cluster),
    }
    if base in place:
        index, extent = place[base]
        position = "xyz".index(axis)
        if extent[position] == 1:
            return np.zeros(1, U32)
        return (index // int(np.prod(extent[:position], dtype=int)) % extent[position]).astype(U32)
    if base == "ctaid":
        length = launch.cluster["xyz".index(axis)]
        outer, inner = execution.column(f"clusterid.{axis}"), execution.column(f"cluster_ctaid.{axis}")
        return np.asarray(outer * U32.type(length) + inner, U32)
    if name.startswith("envreg"):
        # The cooperative groups of CUDA's headers find the barrier of the grid through these two.
        return np.array([{1: execution.workspace >> 32, 2: execution.workspace}.get(int(name[6:]), 0) & 0xFFFFFFFF], U32)
    laneid = (thread % 32).astype(U32)
    one = np.ones(1, U32)
    special: dict[str, Any] = {
        "block": lambda: block,
        "slot": lambda: block * (execution.warps_per_block * 32) + thread,
        "warp": lambda: block * execution.warps_per_block + thread // 32,
        "shared": lambda: block * execution.shared.stride if len(execution.blocks) > 1 else np.zeros(1, S64),
        "laneid": lambda: laneid,
        "warpid": lambda: (thread // 32).astype(U32),
        "nwarpid": lambda: np.array([64], U32),
        "smid": lambda: (block % 132).astype(U32),
        "nsmid": lambda: np.array([132], U32),
        "gridid": lambda: np.ones(1, U64),
        "cluster_ctarank": lambda: (numbers % in_cluster).astype(U32),
        "cluster_nctarank": lambda: np.array([in_cluster], U32),
        "is_explicit_cluster": lambda: np.array([in_cluster > 1]),
        "lanemask_eq": lambda: one << laneid,
        "lanemask_lt": lambda: (one << laneid) - one,
        "lanemask_le": lambda: (one << laneid) - one | (one << laneid),
        "lanemask_gt": lambda: ~((one << laneid) - one | (one << laneid)),
        "lanemask_ge": lambda: ~((one << laneid) - one),
        "dynamic_smem_size": lambda: np.array([launch.shared], U32),
        "total_smem_size": lambda: np.array([execution.shared.size], U32),
        "aggr_smem_size": lambda: np.array([execution.shared.size], U32),
        "reserved_smem_offset_begin": lambda: np.zeros(1, U32),
        "current_graph_exec": lambda: np.zeros(1, U64),
    }
    value: Array = special[name]()
    return value
