"""Kernels in Slang: each computes what NumPy computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import random_programs
from slang_computations import KERNELS, check

import devmod


@pytest.mark.parametrize("name", KERNELS)
def test_results(device: Any, name: str) -> None:
    check(name, "cuda -arch=compute_80")


def test_entry_points_with_names_of_cuda(device: Any) -> None:
    """The kernels use what CUDA has under these names: a barrier, the number of a thread, a minimum."""
    head = '[shader("compute")] [numthreads(8, 1, 1)] void'
    arguments = "(uint t : SV_GroupIndex, uniform RWStructuredBuffer<int> y)"
    source = (
        f"groupshared int s[8]; {head} threadIdx{arguments} {{ s[t] = int(t); GroupMemoryBarrierWithGroupSync(); y[t] = s[7 - t]; }}"
        f"{head} __syncthreads{arguments} {{ y[t] = min(int(t), 3); }} {head} min{arguments} {{ y[t] = 7; }}"
    )
    module = devmod.compile(source, "cuda -arch=compute_80", language="Slang")
    expected = {"threadIdx": [7, 6, 5, 4, 3, 2, 1, 0], "__syncthreads": [0, 1, 2, 3, 3, 3, 3, 3], "min": [7] * 8}
    for name, values in expected.items():
        y = np.zeros(8, np.int32)
        module[name].on(device)(y, grid=1)
        assert y.tolist() == values


@pytest.mark.volume_but("few")
@pytest.mark.parametrize("seeds", random_programs.SEEDS)
def test_random_programs(device: Any, seeds: str) -> None:
    random_programs.check(device, seeds)
