"""OpenCL C's functions keep OpenCL's bounds of error in machine code of gfx1100, which an emulator
executes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import opencl_functions as functions
import pytest

import devmod

pytestmark = [pytest.mark.row("R58"), pytest.mark.usefixtures("emulator")]
DRAWS = 128


def draws(type_: str) -> functions.Array:
    random = np.random.default_rng(3)
    bits = random.integers(0, 256, DRAWS // 2 * 8, np.uint8).view(functions.DTYPES[type_])
    return np.concatenate(
        [
            [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, 100, 1e-3],
            random.uniform(-10, 10, DRAWS // 4),
            random.uniform(-1, 1, DRAWS // 4),
            bits,
        ]
    )[:DRAWS].astype(functions.DTYPES[type_])


@pytest.mark.parametrize("type_", ["float", "double", "half"])
@pytest.mark.parametrize("name", functions.UNARY)
def test_functions_of_one_number(name: str, type_: str, device: Any) -> None:
    source = (
        f"kernel void k(global const {type_} *x, global {type_} *y)"
        f" {{ size_t i = get_global_id(0); y[i] = {name}(x[i]); }}"
    )
    module = devmod.compile(source, "rocm -arch=gfx1100", language="OpenCL C")
    with np.errstate(all="ignore"):
        x = draws(type_)
    y = np.zeros_like(x)
    module["k"].on(device)(x, y, grid=4, block=32)
    assert functions.wrong_results(functions.UNARY[name], type_, [x], y) == []
