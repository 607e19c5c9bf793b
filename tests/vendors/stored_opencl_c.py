"""A file with OpenCL C that devmod once compiled for cuda and rocm: it loads, saves and runs.
`reverse` takes an offset as local memory.

opencl_c.devmod has PTX for compute_80 and a code object for gfx1100. Another compiler wrote it,
which is gone, so nothing writes this file again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import devmod

STORED = Path(__file__).with_name("opencl_c.devmod")


def check_stored(device: Any) -> None:
    """Run the functions of the file on a device."""
    module = devmod.load(STORED)
    data = devmod.dumps(module)
    assert devmod.dumps(devmod.loads(data)) == data
    x, y = np.arange(6, dtype="float32"), np.ones(6, "float32")
    module["axpy"].on(device)(y=y, x=x, a=2.0, n=5, grid=1, block=6)
    np.testing.assert_array_equal(y, [1, 3, 5, 7, 9, 1])
    module["scale"].on(device)(x, np.array([1, 2, 3], "float32"), grid=1, block=2)
    np.testing.assert_array_equal(x, [0, 2, 6, 3, 8, 15])
    reverse = module["reverse"].on(device)
    for arguments in ({}, {"tile": devmod.Local(24)}):
        y = np.arange(6, dtype="float32")
        reverse(y, grid=1, block=6, **arguments)
        np.testing.assert_array_equal(y, [5, 4, 3, 2, 1, 0])
