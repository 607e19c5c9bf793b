"""The stand-in CUDA runtimes: how many blocks and clusters are resident at once."""

from __future__ import annotations

import pytest
from runtime_calls import Program, Runtime

pytestmark = pytest.mark.row("R55")

#: cudaFuncAttributeMaxDynamicSharedMemorySize.
MAX_DYNAMIC_SHARED = 8


@pytest.mark.parametrize(
    ("threads", "shared", "blocks"), [(256, 0, 8), (1024, 0, 2), (32, 0, 32), (32, 56 << 10, 4)]
)
def test_blocks_are_resident_by_their_threads_and_memory(
    calls: Runtime, program: Program, threads: int, shared: int, blocks: int
) -> None:
    name, kernel = "cudaOccupancyMaxActiveBlocksPerMultiprocessor", program.address("count")
    for suffix, flags in (("", ()), ("WithFlags", (1,))):
        found = calls.get(f"{name}{suffix}", ..., kernel, threads, shared, *flags)
        assert found == (blocks,)
    name = "cudaOccupancyAvailableDynamicSMemPerBlock"
    # What a block gets without the attribute, with it, and again without.
    for most in (48 << 10, 200 << 10, 48 << 10):
        program.check("cudaFuncSetAttribute", kernel, MAX_DYNAMIC_SHARED, most)
        (size,) = calls.get(name, ..., kernel, blocks, threads, form="Q")
        assert size == min(most, (228 << 10) // blocks - 1024)
