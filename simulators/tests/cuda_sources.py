"""CUDA C++ compiled with NVRTC and run by the interpreter of PTX, for the tests of the interpreter."""

from typing import Any

from ptx_sources import ptx_of

from devmod_simulators.ptx import Module, run_ptx

AXPY = """extern "C" __global__ void k(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}"""


def run_source(
    source: str, grid: int | tuple[int, ...], block: int | tuple[int, ...], args: list[Any], *options: str, name: str = "k", **launch: Any
) -> Module:
    """Compile a source and run its kernel `k`; arrays among the arguments change in place."""
    return run_ptx(ptx_of(source, *options), name, grid, block, args, **launch)
