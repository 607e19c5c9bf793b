"""The interpreter of PTX: kernels that NVRTC compiles, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_sources import AXPY, run_source
from numpy.testing import assert_allclose

from devmod_simulators.ptx import PtxError

REDUCTION = """extern "C" __global__ void k(const float *x, float *o, int n) {
    __shared__ float s[256];
    float a = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) a += x[i];
    s[threadIdx.x] = a;
    __syncthreads();
    for (int k = 128; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(o, s[0]);
}"""

MATMUL = """#define T 16
extern "C" __global__ void k(const float *A, const float *B, float *C, int n) {
    __shared__ float a[T][T], b[T][T];
    int r = blockIdx.y * T + threadIdx.y, c = blockIdx.x * T + threadIdx.x;
    float s = 0;
    for (int t = 0; t < n; t += T) {
        a[threadIdx.y][threadIdx.x] = A[r * n + t + threadIdx.x];
        b[threadIdx.y][threadIdx.x] = B[(t + threadIdx.y) * n + c];
        __syncthreads();
        for (int k = 0; k < T; k++) s += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    C[r * n + c] = s;
}"""


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)


def test_axpy_leaves_the_elements_past_n_alone(random: np.random.Generator) -> None:
    x, y = random.random((2, 1024), np.float32)
    expected = y.copy()
    expected[:1000] = np.float32(2) * x[:1000] + y[:1000]
    run_source(AXPY, 4, 256, [2.0, x, y, 1000])
    assert_allclose(y, expected, rtol=1e-6)


@pytest.mark.parametrize("blocks", [1, 7, 1024])
def test_a_reduction_in_shared_memory_with_an_atomic_sum(
    random: np.random.Generator, blocks: int
) -> None:
    x = random.random(1 << 18, np.float32)
    out = run_source(REDUCTION, blocks, 256, [x, np.zeros(1, np.float32), len(x)])
    assert_allclose(out[0], x.sum(dtype=np.float64), rtol=1e-5)


def test_a_tiled_product_of_matrices(random: np.random.Generator) -> None:
    a, b = random.random((2, 64, 64), np.float32)
    c = run_source(MATMUL, (4, 4), (16, 16), [a, b, np.zeros_like(a), 64])
    assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.parametrize(
    ("option", "place"), [("-lineinfo", "kernel.cu:3, PTX line "), ("-default-device", "PTX line ")]
)
def test_an_illegal_address_names_the_access_the_thread_and_the_line(
    option: str, place: str
) -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(PtxError) as caught:
        run_source(AXPY, 1, 32, [1.0, x, x.copy(), 10], option)
    assert caught.value.name == "CUDA_ERROR_ILLEGAL_ADDRESS"
    where = f"kernel k, block (0, 0, 0), thread (8, 0, 0), {place}"
    assert caught.value.text.startswith(
        f"read of 4 bytes at global address 0x70000000120 is out of bounds, {where}"
    )
    assert caught.value.text.endswith(" (ld.global.f32)")
