"""Kernels of several tests, compiled once for the device."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from standin_rocm import device_arch, needs_emulator

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


#: The environment variable by which a child process gets the compiled kernels of its parent.
VARIABLE = "DEVMOD_TEST_ROCM_KERNELS"


@cache
def payload() -> bytes:
    """Return the file with the kernels."""
    path = os.environ.get(VARIABLE)
    return (
        Path(path).read_bytes()
        if path
        else devmod.dumps(devmod.compile(KERNELS, f"rocm -arch={device_arch()}", language="HIP"))
    )


def module(*, executes: bool = True) -> devmod.Module:
    """Return a new module with `add`, `twice`, `step` (x = 2 x + a) and `fault`, which writes to an
    invalid address.

    The test is skipped if nothing executes machine code here, unless `executes` is false.
    """
    if executes:
        needs_emulator()
    return devmod.loads(payload())
