"""Tensor-core instructions in the interpreter of PTX."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_sources import run_source
from numpy.testing import assert_array_equal

WMMA = """#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const IN *a, const IN *b, const OUT *c, OUT *d) {
    wmma::fragment<wmma::matrix_a, M, N, K, PRECISION, wmma::A_LAYOUT> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, PRECISION, wmma::B_LAYOUT> fb;
    wmma::fragment<wmma::accumulator, M, N, K, OUT> fc;
    wmma::load_matrix_sync(fa, a, A_STEP);
    wmma::load_matrix_sync(fb, b, B_STEP);
    wmma::load_matrix_sync(fc, c, N + 4, wmma::mem_row_major);
    wmma::mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] = fc.x[i] + fc.x[i];
    wmma::store_matrix_sync(d, fc, M, wmma::mem_col_major);
}"""


@pytest.mark.parametrize(
    ("kind", "out", "shape"),
    [
        ("half", "float", (16, 16, 16)),
        ("half", "half", (16, 16, 16)),
        ("half", "float", (32, 8, 16)),
        ("half", "float", (8, 32, 16)),
        ("__nv_bfloat16", "float", (16, 16, 16)),
        ("signed char", "int", (16, 16, 16)),
        ("unsigned char", "int", (8, 32, 16)),
        ("float", "float", (16, 16, 8)),
        ("double", "double", (8, 8, 4)),
    ],
)
@pytest.mark.parametrize("layout", ["row", "col"])
def test_fragments_of_the_header_mma(
    kind: str, out: str, shape: tuple[int, int, int], layout: str
) -> None:
    m, n, k = shape
    dtypes: dict[str, Any] = {
        "half": np.float16,
        "float": np.float32,
        "double": np.float64,
        "int": np.int32,
    }
    dtypes |= {
        "__nv_bfloat16": ml_dtypes.bfloat16,
        "signed char": np.int8,
        "unsigned char": np.uint8,
    }
    random = np.random.default_rng(1)
    # Small integers are exact in every type, TF32 with its 10 bits included.
    a, b, c = (
        random.integers(0 if "unsigned" in kind else -9, 9, size).astype(
            dtypes[kind if number < 2 else out]
        )
        for number, size in enumerate([(m, k), (k, n), (m, n)])
    )
    d = np.zeros((n, m), dtypes[out])
    source = WMMA.replace("PRECISION", "wmma::precision::tf32" if kind == "float" else "IN")
    rows = {"A_LAYOUT": "row_major", "A_STEP": str(k), "B_LAYOUT": "row_major", "B_STEP": str(n)}
    columns = {"A_LAYOUT": "col_major", "A_STEP": str(m), "B_LAYOUT": "col_major", "B_STEP": str(k)}
    for name, text in (rows if layout == "row" else columns).items():
        source = source.replace(name, text)
    head = f"#define IN {kind}\n#define OUT {out}\nconstexpr int M = {m}, N = {n}, K = {k};\n"
    padded = np.zeros((m, n + 4), c.dtype)
    padded[:, :n] = c
    stored = [each if layout == "row" else np.ascontiguousarray(each.T) for each in (a, b)]
    run_source(head + source, 1, 32, [*stored, padded, d])
    expected = 2 * (a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64))
    assert_array_equal(d.T.astype(np.float64), expected)


LDMATRIX = """#include <cuda_fp16.h>
extern "C" __global__ void k(const half *a, const half *b, float *d) {
    __shared__ half sa[16][24], sb[TRANS ? 16 : 8][TRANS ? 8 : 24];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) sa[i / 16][i % 16] = a[i];
    for (int i = lane; i < 128; i += 32) if (TRANS) sb[i / 8][i % 8] = b[i]; else sb[i % 8][i / 8] = b[i];
    __syncwarp();
    unsigned x[4], y[2];
    float c[4] = {1, 1, 1, 1};
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
        : "r"((unsigned)__cvta_generic_to_shared(&sa[lane % 16][lane / 16 * 8])));
    if (TRANS) asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(y[0]), "=r"(y[1])
        : "r"((unsigned)__cvta_generic_to_shared(&sb[lane % 16][0])));
    else asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(y[0]), "=r"(y[1])
        : "r"((unsigned)__cvta_generic_to_shared(&sb[lane % 8][lane / 8 % 2 * 8])));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    for (int i = 0; i < 4; i++) d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i];
}"""


@pytest.mark.parametrize("transposed", [0, 1])
def test_mma_of_matrices_that_ldmatrix_loads(transposed: int) -> None:
    random = np.random.default_rng(2)
    a, b = (
        random.integers(-9, 9, (16, 16)).astype(np.float16),
        random.integers(-9, 9, (16, 8)).astype(np.float16),
    )
    d = run_source(
        f"#define TRANS {transposed}\n" + LDMATRIX, 1, 32, [a, b, np.zeros((16, 8), np.float32)]
    )
    assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32) + 1)


STMATRIX = """extern "C" __global__ void k(const short *a, short *d) {
    __shared__ __align__(16) short from[128], to[128];
    int lane = threadIdx.x, row = threadIdx.x % 16 * 8;
    for (int i = lane; i < 128; i += 32) from[i] = a[i];
    __syncwarp();
    unsigned x, y;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(x), "=r"(y)
        : "r"((unsigned)__cvta_generic_to_shared(&from[row])));
    asm volatile("stmatrix.sync.aligned.m8n8.x2FORM.shared.b16 [%0], {%1,%2};"
        :: "r"((unsigned)__cvta_generic_to_shared(&to[row])), "r"(x), "r"(y));
    __syncwarp();
    for (int i = lane; i < 128; i += 32) d[i] = to[i];
}"""


@pytest.mark.volume_but(".trans")
@pytest.mark.parametrize("form", ["", ".trans"])
def test_stmatrix_is_the_inverse_of_ldmatrix(form: str) -> None:
    a = np.arange(128, dtype=np.int16).reshape(2, 8, 8)
    d = run_source(STMATRIX.replace("FORM", form), 1, 32, [a, np.zeros_like(a)])
    assert_array_equal(d, a.transpose(0, 2, 1) if form else a)


MMA = """extern "C" __global__ void k(const unsigned *a, const unsigned *b, unsigned *d) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned c[4] = {0, 0, 0, 0};
    const unsigned *x = a + (warp * 32 + lane) * COUNT, *y = b + (warp * 32 + lane) * COUNT / 2;
    asm volatile("mma.sync.aligned.SHAPE.row.col.KINDS {%0,%1,%2,%3}, {X}, {Y}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : INPUTS);
    for (int i = 0; i < 4; i++) d[(warp * 32 + lane) * 4 + i] = c[i];
}"""


def products(kinds: str, shape: tuple[int, int, int], a: Any, b: Any, threads: int = 64) -> Any:
    """Return the products of two pairs of matrices, each by a warp."""
    m, n, k = shape
    dtype = a.dtype
    each = 4 // dtype.itemsize
    count = m * k // 32 // each
    # The manual's tables, element by element.
    left, right = np.zeros((2, 32, count, each), dtype), np.zeros((2, 32, count // 2, each), dtype)
    for lane in range(32):
        for register in range(count):
            for part in range(each):
                left[:, lane, register, part] = a[
                    :,
                    lane // 4 + 8 * (register % 2),
                    lane % 4 * each + part + 4 * each * (register // 2),
                ]
                if register < count // 2:
                    right[:, lane, register, part] = b[
                        :, lane % 4 * each + part + 4 * each * register, lane // 4
                    ]
    names = [f"%{number}" for number in range(4, 4 + count + count // 2)]
    inputs = ", ".join(
        [f'"r"(x[{number}])' for number in range(count)]
        + [f'"r"(y[{number}])' for number in range(count // 2)]
    )
    source = (
        MMA.replace("COUNT", str(count))
        .replace("SHAPE", f"m{m}n{n}k{k}")
        .replace("KINDS", kinds)
        .replace("INPUTS", inputs)
    )
    source = source.replace("{X}", "{" + ",".join(names[:count]) + "}").replace(
        "{Y}", "{" + ",".join(names[count:]) + "}"
    )
    d = run_source(
        source,
        1,
        threads,
        [left, right, np.zeros((2, 32, 4), np.int32 if kinds.startswith("s32") else np.float32)],
    )
    result = np.zeros((2, m, n), d.dtype)
    for lane in range(32):
        for number in range(4):
            place = (lane // 4 + 8 * (number // 2), lane % 4 * 2 + number % 2)
            result[:, *place] = d[:, lane, number]
    return result


@pytest.mark.parametrize(
    ("kinds", "shape", "dtype"),
    [
        ("f32.bf16.bf16.f32", (16, 8, 8), ml_dtypes.bfloat16),
        ("f32.bf16.bf16.f32", (16, 8, 16), ml_dtypes.bfloat16),
        ("f32.tf32.tf32.f32", (16, 8, 4), np.float32),
        ("f32.tf32.tf32.f32", (16, 8, 8), np.float32),
        ("s32.s8.s8.s32", (16, 8, 16), np.int8),
        ("s32.u8.u8.s32", (16, 8, 32), np.uint8),
        ("f32.e4m3.e4m3.f32", (16, 8, 32), ml_dtypes.float8_e4m3fn),
        ("f32.e5m2.e5m2.f32", (16, 8, 32), ml_dtypes.float8_e5m2),
    ],
)
def test_mma_of_other_types(kinds: str, shape: tuple[int, int, int], dtype: Any) -> None:
    m, n, k = shape
    random = np.random.default_rng(3)
    a, b = (
        random.integers(0 if dtype is np.uint8 else -9, 9, (2, *size)).astype(dtype)
        for size in ((m, k), (k, n))
    )
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert_array_equal(products(kinds, shape, a, b), expected)


@pytest.mark.volume_but("f32.f16.f16.f32-shape0-float16")
@pytest.mark.parametrize(
    ("kinds", "shape", "dtype"),
    [
        ("f32.f16.f16.f32", (16, 8, 16), np.float16),
        ("f32.bf16.bf16.f32", (16, 8, 16), ml_dtypes.bfloat16),
        ("f32.tf32.tf32.f32", (16, 8, 8), np.float32),
        ("f32.e4m3.e4m3.f32", (16, 8, 32), ml_dtypes.float8_e4m3fn),
        ("f32.e5m2.e5m2.f32", (16, 8, 32), ml_dtypes.float8_e5m2),
    ],
)
def test_mma_adds_the_products_in_order(
    kinds: str, shape: tuple[int, int, int], dtype: Any
) -> None:
    """Of any bits: each sum is rounded once. The second warp has 16 threads."""
    m, n, k = shape
    random = np.random.default_rng(5)
    a, b = (
        random.integers(0, 256, (2, *size, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]
        for size in ((m, k), (k, n))
    )
    if dtype is np.float32:
        # A tf32 has 10 bits behind the point.
        a, b = ((each.view(np.uint32) & 0xFFFFE000).view(np.float32) for each in (a, b))
    # Threads that are not there have zeros, and no results.
    d = products(kinds, shape, a, b, 48)
    there = a.astype(np.float32), b.astype(np.float32)
    there[0][1, 4:8] = there[0][1, 12:] = 0
    there[1][1, :, 4:] = 0
    with np.errstate(all="ignore"):
        for number, row, column in np.ndindex(2, m, n):
            total = np.float32(0)
            for place in range(k):
                total += there[0][number, row, place] * there[1][number, place, column]
            if number and row % 8 >= 4:
                total = np.float32(0)
            assert_array_equal(d[number, row, column], total)
