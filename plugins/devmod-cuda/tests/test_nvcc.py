"""Kernels of a program with host code, which nvcc compiles, run on a device."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import devmod
from devmod.backend import find_program
from devmod_targets.cuda import _wheels

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not find_program("g++") or not _wheels.folder_of("bin/nvcc"),
    reason="nvcc needs its wheels, Linux and g++",
)

PROGRAM = """
#include <cstdio>
#include <vector>
struct Line { float slope, offset; };
__constant__ float weights[2];
template <class T> __global__ void apply(const T *in, T *out, Line line, std::size_t n) {
  std::size_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * line.slope + line.offset;
}
static __global__ void weigh(float *x) { x[threadIdx.x] *= weights[threadIdx.x % 2]; }
int main() {
  std::vector<float> host(64);
  float *x = nullptr;
  if (cudaMalloc(&x, sizeof(float) * host.size()) != cudaSuccess) std::puts("no memory");
  apply<float><<<1, 64>>>(x, x, Line{2, 1}, host.size());
  weigh<<<1, 64>>>(x);
}
"""


@pytest.mark.once
@pytest.mark.usefixtures("cuda_driver")
def test_kernels_of_a_program_with_host_code_run() -> None:
    module = devmod.loads(
        devmod.dumps(devmod.compile(PROGRAM, "cuda -arch=compute_75 -compiler=nvcc"))
    )
    x, out = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    module["apply<float>"](x, out, (2, 1), 64, grid=2, block=32)
    np.testing.assert_array_equal(out, 2 * x + 1)
    module.get_global("weights", dtype="float32").copy_from(np.array([1, 10], "float32"))
    module["weigh"](out, grid=1, block=64)
    np.testing.assert_array_equal(out, (2 * x + 1) * np.where(np.arange(64) % 2, 10, 1))
