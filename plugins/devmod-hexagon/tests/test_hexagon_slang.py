"""Kernels in Slang: each computes what NumPy computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import random_programs
from slang_computations import PLAIN, check

import devmod


@pytest.mark.volume_but("saxpy", "particles", "halves", "functions", "atomics", "constants")
@pytest.mark.parametrize("name", PLAIN)
def test_results(device: Any, name: str) -> None:
    check(name, "hexagon -arch=v66")


def test_two_instances_of_one_entry_point(device: Any) -> None:
    source = """
    [shader("compute")] [numthreads(4, 1, 1)]
    void times<let Factor : int>(uint3 id : SV_DispatchThreadID, uniform RWStructuredBuffer<int> y) { y[id.x] *= Factor; }
    """
    names = ["times<3>", "times<-3>"]
    module = devmod.compile(source, "hexagon -arch=v66", language="Slang", name_expressions=names)
    y = np.ones(4, "int32")
    for name in names:
        module[name].on(device)(y, threads=4)
    assert y.tolist() == [-9] * 4


@pytest.mark.volume_but("few")
@pytest.mark.parametrize("seeds", random_programs.SEEDS)
def test_random_programs(device: Any, seeds: str) -> None:
    random_programs.check(device, seeds)
