"""Kernels in HIP for the tests of the stand-in runtime, compiled once for each target."""

from __future__ import annotations

from functools import cache

from backend_checks import code_of

import devmod

KERNELS = """
struct Pair { char tag; double value; };
__device__ int total = 5;
__constant__ int factor;
__device__ int *total_place = &total;

extern "C" __global__ void axpy(const float *x, float *y, float f, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += f * x[i];
}
extern "C" __global__ void add(int *out, int value) { out[threadIdx.x] = value + *total_place * factor; }
extern "C" __global__ void pair(Pair p, char c, short s, double *out) { *out = p.value + c + s; }
extern "C" __global__ void dimensions(int *out)
{
    out[0] = gridDim.x; out[1] = gridDim.y; out[2] = gridDim.z;
    out[3] = blockDim.x; out[4] = blockDim.y; out[5] = blockDim.z;
}
extern "C" __global__ void dynamic(int *out)
{
    extern __shared__ int memory[];
    memory[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = memory[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(128) bounded(int *out) { *out = 1; }
extern "C" __global__ void endless(volatile int *out) { while (*out == 0) out[1] = 1; }
extern "C" __global__ void fill(int *out, int value, int count) { for (int i = 0; i < count; i++) out[i] = value; }
"""


@cache
def code_object(target: str = "gfx1100", source: str = KERNELS) -> bytes:
    """Return the code object of a source."""
    code: bytes = code_of(devmod.compile(source, f"rocm -arch={target}", language="HIP"))
    return code
