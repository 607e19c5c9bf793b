"""Whole kernels in the interpreter of PTX: examples, CUDA's libraries of functions, TVM's kernels,
clang's output.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_sources import run_source
from numpy.testing import assert_allclose, assert_array_equal

import devmod
from devmod_simulators.ptx import run_ptx

ROOT = Path(__file__).resolve().parents[3]
CLANG = ROOT / "plugins" / "devmod-cuda" / "tests" / "vectors"
VECTORS = ROOT / "core" / "tests" / "vectors" / "tvm"

SOFTMAX = """extern "C" __global__ void k(const float *x, float *y, int n) {
    extern __shared__ float s[];
    const float *row = x + blockIdx.x * n;
    float m = -1e30f, t = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, row[i]);
    for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = m;
    __syncthreads();
    for (int i = 0; i < blockDim.x / 32; i++) m = fmaxf(m, s[i]);
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) t += expf(row[i] - m);
    for (int d = 16; d; d >>= 1) t += __shfl_xor_sync(~0u, t, d);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = t;
    __syncthreads();
    t = 0;
    for (int i = 0; i < blockDim.x / 32; i++) t += s[i];
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = expf(row[i] - m) / t;
}"""


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(11)


def test_a_softmax_of_rows(random: np.random.Generator) -> None:
    x = random.normal(size=(64, 500)).astype(np.float32)
    y = run_source(SOFTMAX, 64, 128, [x, np.zeros_like(x), 500], shared_memory=16)
    expected = np.exp(x - x.max(1, keepdims=True))
    assert_allclose(y, expected / expected.sum(1, keepdims=True), rtol=1e-5)


FUNCTIONS: dict[str, Any] = {
    "sin(x)": np.sin,
    "cos(x)": np.cos,
    "tan(x)": np.tan,
    "exp(x)": np.exp,
    "exp2(x)": np.exp2,
    "expm1(x)": np.expm1,
    "log(x)": np.log,
    "log2(x)": np.log2,
    "log10(x)": np.log10,
    "log1p(x)": np.log1p,
    "sqrt(x)": np.sqrt,
    "rsqrt(x)": lambda x: 1 / np.sqrt(x),
    "cbrt(x)": np.cbrt,
    "pow(x, T(1.75))": lambda x: x**1.75,
    "tanh(x)": np.tanh,
    "sinh(x)": np.sinh,
    "atan(x)": np.arctan,
    "atan2(x, T(2))": lambda x: np.arctan2(x, 2),
    "asin(x / 8)": lambda x: np.arcsin(x / 8),
    "erf(x)": np.vectorize(math.erf),
    "lgamma(x + 2)": np.vectorize(lambda x: math.lgamma(x + 2)),
    "fmod(x, T(0.25))": lambda x: np.fmod(x, 0.25),
    "hypot(x, T(2))": lambda x: np.hypot(x, 2),
    "floor(x)": np.floor,
    "ceil(x)": np.ceil,
    "rint(x)": np.rint,
    "trunc(x)": np.trunc,
    "ldexp(x, 3)": lambda x: x * 8,
    "fma(x, x, x)": lambda x: x * x + x,
    "1 / x": lambda x: 1 / x,
    "x / 3": lambda x: x / 3,
    "fmax(x, T(1))": lambda x: np.maximum(x, 1),
    "sin(x * 100000)": lambda x: np.sin(x * 100000),
}


@pytest.mark.parametrize("kind", ["float", "double"])
def test_functions_of_numbers(kind: str) -> None:
    lines = "\n".join(f"o[{number} * n + i] = {text};" for number, text in enumerate(FUNCTIONS))
    source = (
        f"typedef {kind} T;\n"
        + 'extern "C" __global__ void k(const T *a, T *o, int n) { int i = threadIdx.x; T x = a[i];'
        + lines
        + "}"
    )
    dtype = np.float32 if kind == "float" else np.float64
    # Multiples of 1/64 are exact in float32, with 100000 times them.
    x = (np.random.default_rng(12).integers(7, 320, 64) / 64).astype(dtype)
    out = run_source(source, 1, 64, [x, np.zeros((len(FUNCTIONS), 64), dtype), 64])
    for row, (text, oracle) in zip(out, FUNCTIONS.items(), strict=True):
        expected = oracle(x.astype(np.float64))
        assert_allclose(
            row,
            expected,
            rtol=1e-6 if kind == "float" else 1e-13,
            atol=1e-7 if kind == "float" else 1e-15,
            err_msg=text,
        )


def test_fast_math() -> None:
    source = """extern "C" __global__ void k(const float *a, float *o) {
        float x = a[threadIdx.x];
        o[threadIdx.x] = sinf(x) + expf(x) / logf(x) + sqrtf(x) * powf(x, 2.25f) + tanhf(x) + rsqrtf(x) + __saturatef(x)
            + __frcp_rn(x) + __fadd_rz(x, 1e-8f) + __fmul_ru(x, 1.25f) + cosf(x) / x;
    }"""
    a = (np.random.default_rng(13).random(64) * 3 + 1.25).astype(np.float32)
    out = run_source(source, 1, 64, [a, np.zeros_like(a)], "--use_fast_math")
    x = a.astype(np.float64)
    expected = (
        np.sin(x)
        + np.exp(x) / np.log(x)
        + np.sqrt(x) * x**2.25
        + np.tanh(x)
        + 1 / np.sqrt(x)
        + 1
        + 1 / x
        + x
        + x * 1.25
        + np.cos(x) / x
    )
    assert_allclose(out, expected, rtol=1e-5)


def test_half_precision_types() -> None:
    source = """#include <cuda_fp16.h>
    #include <cuda_bf16.h>
    #include <cuda_fp8.h>
    extern "C" __global__ void k(const __half *a, const __half *b, __half *o, __nv_bfloat16 *p, float *q, __nv_fp8_e4m3 *r) {
        int i = threadIdx.x;
        o[i] = __hfma(a[i], b[i], __float2half(0.5f)) + hexp(a[i]) / b[i];
        p[i] = __float2bfloat16(__half2float(a[i])) * __float2bfloat16(2.5f) + hsin(__float2bfloat16(1.f));
        __half2 h = __halves2half2(a[i], b[i]);
        h = __hadd2(__hmul2(h, h), h);
        q[i] = __low2float(h) * 1000 + __high2float(h);
        if (__hgt(a[i], b[i])) q[i] = -1;
        q[i] += __half2float(__hmax(a[i], b[i]));
        r[i] = __nv_fp8_e4m3(__half2float(a[i]) * 10);
    }"""
    a, b = (np.random.default_rng(14).random((2, 64)) + 0.5).astype(np.float16)
    o, p, q, r = (
        np.zeros_like(a),
        np.zeros(64, ml_dtypes.bfloat16),
        np.zeros(64, np.float32),
        np.zeros(64, ml_dtypes.float8_e4m3fn),
    )
    run_source(source, 1, 64, [a, b, o, p, q, r])
    x, y = a.astype(np.float64), b.astype(np.float64)
    assert_allclose(o.astype(np.float64), x * y + 0.5 + np.exp(x) / y, rtol=3e-3)
    assert_allclose(p.astype(np.float64), x * 2.5 + np.sin(1), rtol=2e-2)
    expected = np.where(
        a > b, -1, (a * a + a).astype(np.float64) * 1000 + (b * b + b)
    ) + np.maximum(a, b)
    assert_allclose(q, expected, rtol=1e-3)
    assert_array_equal(
        r.view(np.uint8), (a.astype(np.float32) * 10).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    )


def test_integers_of_64_and_128_bits() -> None:
    source = """extern "C" __global__ void k(const long long *a, const long long *b, long long *o, int n) {
        int i = threadIdx.x;
        o[i] = a[i] / b[i];
        o[n + i] = a[i] % b[i];
        o[2 * n + i] = __mul64hi(a[i], b[i]);
        o[3 * n + i] = a[i] * b[i] >> 5;
        o[4 * n + i] = __popcll(a[i]) * 1000000 + __clzll(b[i]) * 1000 + __ffsll(a[i]);
        __int128 p = (__int128)a[i] * b[i];
        o[5 * n + i] = (long long)((p + a[i]) >> 3);
        o[6 * n + i] = (long long)(p / (b[i] | 1));
    }"""
    random = np.random.default_rng(15)
    a = random.integers(-(2**63), 2**63 - 1, 64)
    b = random.integers(-(2**63), 2**63 - 1, 64) >> random.integers(0, 40, 64)
    b[b == 0] = 3
    out = run_source(source, 1, 64, [a, b, np.zeros((7, 64), np.int64), 64], "--device-int128")

    def wrap(number: int) -> int:
        return (number + 2**63) % 2**64 - 2**63

    def quotient(x: int, y: int) -> int:
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

    for column, x, y in zip(out.T.tolist(), a.tolist(), b.tolist(), strict=True):
        low = x % 2**64
        counts = (
            low.bit_count() * 1000000
            + (64 - (y % 2**64).bit_length()) * 1000
            + (low & -low).bit_length()
        )
        expected = [
            quotient(x, y),
            x - y * quotient(x, y),
            x * y >> 64,
            wrap(x * y) >> 5,
            counts,
            wrap((x * y + x) >> 3),
            wrap(quotient(x * y, y | 1)),
        ]
        assert column == [wrap(number) for number in expected]


def test_variables_of_the_module_have_initial_values() -> None:
    source = """__constant__ float scale[3] = {1.5f, -2.f, 4.f};
    __device__ int counter = 7;
    __device__ short table[2][3] = {{1, 2, 3}, {4, 5, 6}};
    __device__ const char *names[2] = {"ab", "xyz"};
    __device__ int *pointer = &counter;
    extern "C" __global__ void k(float *o) {
        int i = threadIdx.x;
        o[i] = scale[i % 3] + table[i % 2][i % 3] * 10 + names[i % 2][1] * 1000 + atomicAdd(pointer, 0) * 1000000;
    }"""
    out = run_source(source, 1, 32, [np.zeros(32, np.float32)])
    i = np.arange(32)
    table = np.array([[1, 2, 3], [4, 5, 6]])
    assert_array_equal(
        out,
        np.array([1.5, -2, 4])[i % 3]
        + table[i % 2, i % 3] * 10
        + np.array([ord("b"), ord("y")])[i % 2] * 1000
        + 7e6,
    )


def test_printf(capsys: pytest.CaptureFixture[str]) -> None:
    source = r"""extern "C" __global__ void k(float x) {
        if (threadIdx.x % 2) printf("%5.2f|%-6d|%#x %s %c %llu%% %*d %hd\n", x, threadIdx.x, 255, "text", 'q', 1ull << 40, 4, 7, 70000);
    }"""
    run_source(source, 1, 4, [1.5])
    assert capsys.readouterr().out == "".join(
        f" 1.50|{i:<6}|0xff text q 1099511627776%    7 4464\n" for i in (1, 3)
    )


def test_memory_that_a_kernel_allocates() -> None:
    source = """extern "C" __global__ void k(int *o) {
        int *p = (int *)malloc(16), *q = new int[threadIdx.x + 1];
        p[0] = threadIdx.x; p[3] = 2;
        for (int i = 0; i <= threadIdx.x; i++) q[i] = i;
        o[threadIdx.x] = p[0] + p[3] + q[threadIdx.x] + (p == (int *)q);
        free(p);
        delete[] q;
    }"""
    out = run_source(source, 1, 64, [np.zeros(64, np.int32)])
    assert_array_equal(out, np.arange(64) * 2 + 2)


def test_local_arrays_and_structs_with_indices_of_run_time() -> None:
    source = """struct P { int a[10]; };
    extern "C" __global__ void k(int *o, P p) {
        P q, r;
        memset(&q, 0, sizeof q);
        memcpy(q.a + 2, p.a, 16);
        r = q;
        r.a[threadIdx.x % 10] += 5;
        int s = 0;
        for (int i = 0; i < 10; i++) s += r.a[i] * (i + 1) * p.a[(threadIdx.x + i) % 10];
        o[threadIdx.x] = s;
    }"""
    p = np.arange(3, 13, dtype=np.int32)
    out = run_source(source, 1, 32, [np.zeros(32, np.int32), p.tobytes()])
    for t in range(32):
        r = np.concatenate([[0, 0], p[:4], [0] * 4])
        r[t % 10] += 5
        assert out[t] == sum(r[i] * (i + 1) * p[(t + i) % 10] for i in range(10))


@pytest.mark.parametrize(("name", "grid", "block"), [("vadd", 16, 64), ("matmul", (8, 8), (8, 8))])
def test_kernels_of_tvm(random: np.random.Generator, name: str, grid: Any, block: Any) -> None:
    root = devmod.interop.tvm.load_imports((VECTORS / f"{name}.cuda.tvmimports").read_bytes())
    source = root.imports[0].inspect_source()
    a, b = random.random((2, 1024) if name == "vadd" else (2, 64, 64), np.float32)
    c = run_source(source, grid, block, [a, b, np.zeros_like(a)], name=f"{name}_kernel")
    assert_allclose(c, a + b if name == "vadd" else a @ b, rtol=1e-5)


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_a_kernel_that_clang_compiled(random: np.random.Generator, level: str) -> None:
    x = random.random(64, np.float32)
    out = np.zeros_like(x)
    pair = np.zeros((), np.dtype([("a", "i4"), ("b", "f8")], align=True))
    pair["a"], pair["b"] = 9, 0.75
    run_ptx((CLANG / f"clang-{level}.ptx").read_text(), "k", 1, 64, [out, x, 11, pair])
    for i in range(64):
        table = [0] * 8
        for j in range(8):
            table[j * i % 8] = j + 11
        v = float(x[63 - i])
        for _ in range(i % 5):
            v = v * 1.5 + math.sqrt(v)
        total = sum(v * j + 0.75 for j in range(i % 3))
        r = v + table[i % 8] + total + (v * v if i % 7 == 3 else 0) + [5, 6, 7, 8][i % 4]
        expected = [r + 1, r * 2, r - 7, r, -r, r + float(x[i])][i % 6]
        assert math.isclose(out[i], expected, rel_tol=1e-5)


@pytest.mark.parametrize("option", ["-G", "-lineinfo"])
def test_a_kernel_for_a_debugger(random: np.random.Generator, option: str) -> None:
    source = """struct V { float x, y, z; };
    __device__ V cross(V a, V b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }
    template <class T> __device__ T sum(const T *p, int n) { T s = 0; for (int i = 0; i < n; i++) s += p[i]; return s; }
    extern "C" __global__ void k(const float *x, float *y, int n) {
        __shared__ float s[64];
        int i = threadIdx.x;
        s[i] = x[i];
        __syncthreads();
        if (i < n) {
            V a{s[i], s[(i + 1) % n], 1}, b{2, s[i], 3}, c = cross(a, b);
            y[i] = c.x + c.y * 2 + c.z + sum(s, i % 5) + __shfl_xor_sync(__activemask(), x[i], 1);
        }
    }"""
    x = random.random(64, np.float32)
    y = run_source(source, 1, 64, [x, np.zeros_like(x), 64], option)
    i = np.arange(64)
    after = np.roll(x, -1)
    total = np.array([x[: number % 5].sum() for number in i])
    expected = (after * 3 - x) + 2 * (2 - x * 3) + (x * x - after * 2) + total + x[i ^ 1]
    assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
