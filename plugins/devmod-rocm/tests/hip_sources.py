"""HIP source for the tests of the driver, compiled once."""

from __future__ import annotations

from functools import cache

from backend_checks import code_of

import devmod

KERNELS = """
__device__ int total = 5;
extern "C" __global__ void axpy(const float *x, float *y, float f, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += f * x[i];
}
extern "C" __global__ void __launch_bounds__(128) bounded(int *out) { *out = total; }
"""


@cache
def code_object() -> bytes:
    """Return the code object of the source."""
    code: bytes = code_of(devmod.compile(KERNELS, "rocm -arch=gfx1100", language="HIP"))
    return code
