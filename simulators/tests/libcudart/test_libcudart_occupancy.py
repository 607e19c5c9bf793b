"""The stand-in CUDA runtimes: how many blocks and clusters are resident at once."""

from __future__ import annotations

import ctypes
from ctypes import byref

import pytest
from cudart_calls import Dim3, Program
from runtime_calls import INVALID_VALUE, Runtime

pytestmark = pytest.mark.row("R55")
OF_MULTIPROCESSOR = 228 << 10
MOST_OF_A_BLOCK = 227 << 10
RESERVED = 1 << 10


class Config(ctypes.Structure):
    """cudaLaunchConfig_t, with no shared memory, stream and attributes."""

    _fields_ = (("grid", Dim3), ("block", Dim3), ("zeros", ctypes.c_uint64 * 4))


@pytest.mark.parametrize(
    ("threads", "shared", "blocks"), [(256, 0, 8), (1024, 0, 2), (32, 0, 32), (32, 56 << 10, 4)]
)
def test_blocks_are_resident_by_their_threads_and_memory(
    calls: Runtime, program: Program, threads: int, shared: int, blocks: int
) -> None:
    name = "cudaOccupancyMaxActiveBlocksPerMultiprocessor"
    found = ctypes.c_int()
    kernel = program.address("count")
    calls.check(name, byref(found), kernel, threads, shared)
    assert found.value == blocks
    calls.check(f"{name}WithFlags", byref(found), kernel, threads, shared, 1)
    assert found.value == blocks
    assert calls.cudaOccupancyMaxActiveBlocksPerMultiprocessor(byref(found), kernel, 0, 0) == (
        INVALID_VALUE
    )


@pytest.mark.parametrize(
    ("blocks", "threads", "size"),
    [(1, 256, MOST_OF_A_BLOCK), (4, 256, OF_MULTIPROCESSOR // 4 - RESERVED), (3, 1024, 0)],
)
def test_blocks_that_are_resident_share_the_memory(
    calls: Runtime, program: Program, blocks: int, threads: int, size: int
) -> None:
    found = ctypes.c_size_t()
    name = "cudaOccupancyAvailableDynamicSMemPerBlock"
    calls.check(name, byref(found), program.address("count"), blocks, threads)
    assert found.value == size


def test_clusters_have_eight_blocks_unless_the_kernel_allows_more(
    calls: Runtime, program: Program
) -> None:
    kernel = program.address("count")
    config = Config(Dim3(16, 1, 1), Dim3(1024, 1, 1))
    size, clusters = ctypes.c_int(), ctypes.c_int()
    calls.check("cudaOccupancyMaxPotentialClusterSize", byref(size), kernel, byref(config))
    calls.check("cudaOccupancyMaxActiveClusters", byref(clusters), kernel, byref(config))
    assert (size.value, clusters.value) == (8, 32)
    calls.check("cudaFuncSetAttribute", kernel, 14, 1)  # clusters that not each device has
    calls.check("cudaOccupancyMaxPotentialClusterSize", byref(size), kernel, byref(config))
    assert size.value == 16
