"""CUDA C++ compiled with NVRTC and run by the interpreter of PTX, for the tests of the
interpreter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx_sources import ptx_of

from devmod_simulators.ptx import PtxError, run_ptx

AXPY = """extern "C" __global__ void k(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}"""


def run_source(
    source: str,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    args: list[Any],
    *options: str,
    name: str = "k",
    **launch: Any,
) -> Any:
    """Compile a source and run its kernel `k`; arrays among the arguments change in place. Return
    the last one.
    """
    run_ptx(ptx_of(source, *options), name, grid, block, args, **launch)
    return next(
        (each for each in reversed(args) if isinstance(each, np.ndarray) and each.ndim), None
    )


def error_of(source: str, grid: int, block: int, args: list[Any], **launch: Any) -> tuple[str, str]:
    """Return the name and the text, without the place in the PTX, of the error of a kernel."""
    with pytest.raises(PtxError) as caught:
        run_source(source, grid, block, args, **launch)
    return caught.value.name, caught.value.text.rpartition(", PTX line ")[0] or caught.value.text
