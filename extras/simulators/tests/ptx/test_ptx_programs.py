"""Whole kernels in the interpreter of PTX: CUDA's library of functions, malloc, clang's
output, code for debuggers.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_sources import run_source
from numpy.testing import assert_allclose, assert_array_equal

from devmod_simulators.ptx import run_ptx

ROOT = Path(__file__).resolve().parents[4]
CLANG = ROOT / "plugins" / "devmod-cuda" / "tests" / "vectors"


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(11)


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
