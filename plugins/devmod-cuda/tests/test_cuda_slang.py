"""Kernels in Slang with names of CUDA."""

from __future__ import annotations

from typing import Any

import numpy as np

import devmod


def test_entry_points_with_names_of_cuda(device: Any) -> None:
    """The kernels use what CUDA has under these names: a barrier, the number of a thread, a
    minimum.
    """
    head = '[shader("compute")] [numthreads(8, 1, 1)] void'
    arguments = "(uint t : SV_GroupIndex, uniform RWStructuredBuffer<int> y)"
    source = (
        f"groupshared int s[8]; {head} threadIdx{arguments} {{ s[t] = int(t); GroupMemoryBarrierWithGroupSync(); y[t] = s[7 - t]; }}"
        f"{head} __syncthreads{arguments} {{ y[t] = min(int(t), 3); }} {head} min{arguments} {{ y[t] = 7; }}"
    )
    module = devmod.compile(source, "cuda -arch=compute_80", language="Slang")
    expected = {
        "threadIdx": [7, 6, 5, 4, 3, 2, 1, 0],
        "__syncthreads": [0, 1, 2, 3, 3, 3, 3, 3],
        "min": [7] * 8,
    }
    for name, values in expected.items():
        y = np.zeros(8, np.int32)
        module[name].on(device)(y, grid=1)
        assert y.tolist() == values


def test_a_function_with_atomics_of_two_sizes_on_a_byte_buffer(device: Any) -> None:
    """Slang writes the signed atomic with a cast of its address, and both on a buffer of words."""
    source = """
    int64_t both(RWByteAddressBuffer b, uint i) { uint o; b.InterlockedAdd(0, 1, o); int64_t p; b.InterlockedAddI64(i * 8, 5, p); return p; }
    [shader("compute")] [numthreads(1, 1, 1)]
    void f(uniform RWByteAddressBuffer y, uniform RWStructuredBuffer<int64_t> old) { old[0] = both(y, 2); }
    """
    module = devmod.compile(source, "cuda -arch=compute_80", language="Slang")
    y = np.arange(4, dtype=np.int64)
    old = np.zeros(1, np.int64)
    module["f"].on(device)(y.view(np.uint32), old, grid=1)
    assert (y.tolist(), old.tolist()) == ([1, 1, 7, 3], [2])
