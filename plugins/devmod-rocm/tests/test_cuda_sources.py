"""CUDA C++ sources run on ROCm: those of the tests, and the demo's kernels for CUDA."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from family import EXAMPLES, check, compiled
from standin_rocm import on_hardware

import devmod

REPOSITORY = Path(__file__).parents[3]
sys.path.insert(0, str(REPOSITORY / "examples" / "demo"))

from build import OPTIONS  # noqa: E402
from cases import SMALL_CASES  # noqa: E402


def target(device: Any) -> str:
    """Return the target of a device: gfx1100 for the emulator."""
    return f"rocm -arch={device.arch.partition(':')[0] if on_hardware() else 'gfx1100'}"


@pytest.mark.volume_but("warps.cu")
@pytest.mark.usefixtures("emulator")
@pytest.mark.parametrize("name", ["warps.cu", "warps.hip"])
def test_one_source_of_both_vendors(name: str, device: Any) -> None:
    """It compiles for CUDA too, with one interface (compilers/targets/tests/test_family.py)."""
    check(compiled(name, target(device)), device)


@pytest.mark.row("R37")
@pytest.mark.volume_but("reduction-sum")
@pytest.mark.usefixtures("emulator")
@pytest.mark.parametrize(("stem", "case"), EXAMPLES.items())
def test_an_example_for_cuda(stem: str, case: str, device: Any) -> None:
    source = REPOSITORY / "examples/cuda" / f"{stem}.cu"
    module = devmod.compile(source, target(device), **OPTIONS.get(source.name, {}))
    result = SMALL_CASES[case](module, device, REPOSITORY)
    assert result.error <= result.tolerance


GROUPS = """
__managed__ int start = 5;
extern "C" __global__ void agree(const int *x, unsigned *lanes, int *equal)
{
    int i = threadIdx.x;
    lanes[i] = __match_all_sync(i < 16 ? 0xffffu : 0xffff0000u, x[i] + start, equal + i);
}
"""


@pytest.mark.usefixtures("emulator")
def test_groups_of_lanes_and_managed_memory(device: Any) -> None:
    """Each lane compares its value with those of the lanes in its own mask. A managed variable is
    one of the device.
    """
    module = devmod.compile(GROUPS, target(device), language="CUDA C++")
    x = np.repeat(np.array([1, 2], np.int32), 16)
    lanes, equal = np.zeros(32, np.uint32), np.zeros(32, np.int32)
    module["agree"].on(device)(x, lanes, equal, grid=1, block=32)
    assert lanes.tolist() == [0xFFFF] * 16 + [0xFFFF0000] * 16
    assert equal.tolist() == [1] * 32
    x[20] = 3
    module["agree"].on(device)(x, lanes, equal, grid=1, block=32)
    assert lanes.tolist() == [0xFFFF] * 16 + [0] * 16
    assert equal.tolist() == [1] * 16 + [0] * 16
    assert module.get_global("start", device).numpy() == 5
