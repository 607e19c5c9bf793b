"""CUDA C++ compiled with NVRTC and run by the interpreter of PTX, for the tests of the interpreter."""

from functools import cache
from typing import Any

from devmod_simulators.ptx import Module, run_ptx
from devmod_targets.cuda.nvrtc import compile_program

AXPY = """extern "C" __global__ void k(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}"""


@cache
def ptx_of(source: str, *options: str) -> str:
    """Return the PTX of CUDA C++, for compute_90 unless the options name an architecture."""
    if not any(option.startswith("--gpu-architecture") for option in options):
        options = ("--gpu-architecture=compute_90", *options)
    return compile_program(source, "kernel.cu", list(options)).ptx.rstrip(b"\0").decode()


def run_source(
    source: str, grid: int | tuple[int, ...], block: int | tuple[int, ...], args: list[Any], *options: str, name: str = "k", **launch: Any
) -> Module:
    """Compile a source and run its kernel `k`; arrays among the arguments change in place."""
    return run_ptx(ptx_of(source, *options), name, grid, block, args, **launch)
