"""Kernels of several tests, compiled once for gfx1100."""

from __future__ import annotations

from functools import cache

from standin_rocm import needs_emulator

import devmod

KERNELS = """
extern "C" __global__ void add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void twice(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }
extern "C" __global__ void step(int *x, int a) { x[threadIdx.x] = 2 * x[threadIdx.x] + a; }
extern "C" __global__ void fault(float *x) { *(volatile float *)(x + (1 << 28)) = 1; }
"""


@cache
def _payload(arch: str) -> bytes:
    return devmod.dumps(devmod.compile(KERNELS, f"rocm -arch={arch}", language="HIP"))


def module(arch: str = "gfx1100") -> devmod.Module:
    """Return a new module with `add`, `twice`, `step` (x = 2 x + a) and `fault`, which writes to an invalid address.

    The test is skipped if nothing executes machine code here.
    """
    needs_emulator()
    return devmod.loads(_payload(arch))
