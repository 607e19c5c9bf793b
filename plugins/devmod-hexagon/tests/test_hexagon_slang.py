"""Kernels in Slang: instances of an entry point."""

from __future__ import annotations

from typing import Any

import numpy as np

import devmod


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
