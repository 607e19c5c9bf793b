"""Kernels in OpenCL C as source and as SPIR-V (`opencl -format=il`): each computes what NumPy
does.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmod

SOURCE = Path(__file__).with_name("il_kernels.cl")
TARGETS = {
    "source": "opencl",
    "SPIR-V": "opencl -format=il",
    "CUDA": "cuda -arch=compute_75",
    "ROCm": "rocm -arch=gfx1100",
}


@cache
def module_of(target: str, text: str = "") -> devmod.Module:
    return devmod.compile(text or SOURCE, TARGETS[target], language="OpenCL C" if text else None)


@pytest.fixture(params=[pytest.param("source", marks=pytest.mark.volume), "SPIR-V"])
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(
        "DEVMOD_OPENCL_TRIAL", "0"
    )  # a trial builds everything once more; test_il.py has the tests of it
    name: str = request.param
    devices = devmod.devices("opencl")
    if not devices:
        pytest.skip("there is no OpenCL device")
    if name == "SPIR-V" and not any("SPIR-V" in each.handle.il_version for each in devices):
        pytest.skip("no OpenCL device here takes SPIR-V: pip install 'devmod-opencl[intel]'")
    return name


def run(target: str, name: str, *args: Any, grid: Any = 1, block: Any = 1, text: str = "") -> None:
    """Launch a kernel. Arrays change in place."""
    module_of(target, text)[name](*args, grid=grid, block=block)


RANDOM = np.random.default_rng(24)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype("float32")


def test_axpy(target: str) -> None:
    x, y = floats(100), floats(100)
    expected = np.float32(2.5) * x + y
    expected[90:] = y[90:]
    run(target, "axpy", y, x, np.float32(2.5), np.int32(90), grid=4, block=32)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)


def test_the_ids_of_three_dimensions(target: str) -> None:
    grid, block = (3, 2, 4), (4, 3, 2)
    x, y, z = (each * size for each, size in zip(grid, block, strict=True))
    out = np.zeros((z, y, x, 4), "int32")
    run(target, "ids", out, grid=grid, block=block)
    at = np.stack(np.meshgrid(np.arange(z), np.arange(y), np.arange(x), indexing="ij"), -1)[
        ..., ::-1
    ]
    digits = np.array([1, 10, 100])
    np.testing.assert_array_equal(out[..., 0], at // block @ digits)
    np.testing.assert_array_equal(out[..., 1], at % block @ digits)
    assert (out[..., 2] == np.dot(block, digits)).all()
    expected = np.dot(grid, digits) + 10000
    if target == "source" and "PoCL" in devmod.devices("opencl")[0].handle.version:
        expected -= 10000  # get_local_size(3) is 0 on PoCL 3.0
    assert (out[..., 3] == expected).all()


@pytest.mark.parametrize(
    ("grid", "block", "expected"),
    [
        (2, 4, 1),
        ((2, 1, 1), (4, 1, 1), 1),
        ((2, 2), 4, 2),
        (2, (4, 2), 2),
        ((1, 1, 2), 1, 3),
        (1, (1, 1, 2), 3),
    ],
)
def test_the_number_of_dimensions(target: str, grid: Any, block: Any, expected: int) -> None:
    """That of the last dimension with more than one thread."""
    x = np.zeros(1, "int32")
    text = "kernel void k(global int *x) { x[0] = get_work_dim(); }"
    run(target, "k", x, grid=grid, block=block, text=text)
    assert x[0] == expected


SATURATED = """
kernel void k(global const long *x, global long *r, global long *pairs) {
    int i = get_global_id(0);
    r[i] = mad_sat(x[3 * i], x[3 * i + 1], x[3 * i + 2]);
    long2 pair = mad_sat((long2)(x[3 * i]), (long2)(x[3 * i + 1], 1), (long2)(x[3 * i + 2]));
    vstore2(pair, i, pairs);
}
"""


def test_a_product_and_sum_of_long_is_saturated(target: str) -> None:
    if target == "source" and devmod.device("opencl").handle.platform.name.startswith("Intel"):
        pytest.skip("Intel's runtime computes mad_sat of long wrongly from the source")
    low, high = -(2**63), 2**63 - 1
    edges = [0, 1, -1, 3, -386, 2**32, -(2**32), high, low, high - 5, low + 5]
    rows = list(itertools.product(edges, repeat=3))
    rows += rows[: -len(rows) % 32]
    results, pairs = np.zeros(len(rows), "int64"), np.zeros((len(rows), 2), "int64")
    x = np.array(rows, "int64")
    run(target, "k", x, results, pairs, grid=len(rows) // 32, block=32, text=SATURATED)
    expected = [min(max(a * b + c, low), high) for a, b, c in rows]
    np.testing.assert_array_equal(results, expected)
    np.testing.assert_array_equal(pairs[:, 0], expected)
    np.testing.assert_array_equal(pairs[:, 1], [min(max(a + c, low), high) for a, _, c in rows])


@pytest.mark.parametrize("lanes", [2, 3, 4, 8])
def test_vectors_are_stored_at_any_element(lanes: int, target: str) -> None:
    """Their address is a multiple of the size of an element alone."""
    text = f"""kernel void k(global const short *x, global short *y) {{
        int i = get_global_id(0);
        vstore{lanes}(vload{lanes}(i, x), i, y + 1);
    }}"""
    x, y = (
        RANDOM.integers(-1000, 1000, 32 * lanes).astype("int16"),
        np.zeros(32 * lanes + 2, "int16"),
    )
    run(target, "k", x, y, block=32, text=text)
    np.testing.assert_array_equal(y, [0, *x, 0])


INTEGERS = {
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "uchar": "uint8",
    "ushort": "uint16",
    "uint": "uint32",
    "ulong": "uint64",
}


@pytest.mark.parametrize("source", INTEGERS)
def test_integers_are_converted_to_each_type(source: str, target: str) -> None:
    kernels = []
    for each in INTEGERS:
        for name in (each, f"{each}_sat"):
            kernels.append(
                f"kernel void k_{name}(global const {source} *x, global {each} *y, global {each} *z) {{"
                f" int i = get_global_id(0); y[i] = convert_{name}(x[i]);"
                f" vstore3(convert_{each}3{name.removeprefix(each)}(vload3(i, x)), i, z); }}"
            )
    least, most = range_of(source)
    values = {least, most, least + 1, most - 2, most // 2 + 1, max(least, -3), 0, 7, 200 & most}
    x = np.array(sorted(values)[:9] * 3, INTEGERS[source])
    count = len(x) // 3
    for each, type_ in INTEGERS.items():
        low, high = range_of(each)
        wrapped = [(int(v) - low) % (high - low + 1) + low for v in x]
        for name, expected in {
            each: wrapped,
            f"{each}_sat": [min(max(int(v), low), high) for v in x],
        }.items():
            y, z = np.zeros(count, type_), np.zeros(len(x), type_)
            run(target, f"k_{name}", x, y, z, grid=count, text="\n".join(kernels))
            assert (y.tolist(), z.tolist()) == (expected[:count], expected), name


def range_of(type_: str) -> tuple[int, int]:
    """Return the least and the largest number of a type."""
    info = np.iinfo(INTEGERS[type_])
    return int(info.min), int(info.max)


def test_a_number_is_converted_to_its_own_type(target: str) -> None:
    """A driver refuses the instruction for it."""
    text = "kernel void k(global const float *x, global float *y) { y[0] = convert_float(x[0]); vstore2(convert_float2_rtz(vload2(0, x)), 1, y); }"
    y = np.zeros(4, "float32")
    run(target, "k", np.array([1.25, -2.5], "float32"), y, text=text)
    assert y.tolist() == [1.25, 0, 1.25, -2.5]


def test_a_histogram_in_static_local_memory(target: str) -> None:
    values, bins = RANDOM.integers(0, 256, 1000).astype("uint8"), np.zeros(16, "int32")
    run(target, "histogram", values, bins, np.int32(1000), grid=3, block=64)
    np.testing.assert_array_equal(bins, np.bincount(values >> 4, minlength=16))


def test_a_product_of_matrices_with_two_local_arguments(target: str) -> None:
    a, b, c = floats(16, 16), floats(16, 16), np.zeros((16, 16), "float32")
    run(
        target,
        "matmul",
        a,
        b,
        c,
        np.int32(16),
        devmod.Local(256),
        devmod.Local(256),
        grid=(2, 2),
        block=(8, 8),
    )
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def test_a_reduction_with_a_fixed_block(target: str) -> None:
    x, sums = floats(256), np.zeros(4, "float32")
    assert module_of(target).functions["reduction"].interface.block == (64, 1, 1)  # type: ignore[union-attr]
    run(target, "reduction", x, sums, devmod.Local(256), grid=4, block=64)
    np.testing.assert_allclose(sums, x.reshape(4, 64).sum(1), rtol=1e-4, atol=1e-5)


def test_softmax(target: str) -> None:
    x, y = floats(4, 50), np.zeros((4, 50), "float32")
    run(target, "softmax", x, y, np.int32(50), devmod.Local(200), grid=4, block=32)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


def test_a_blur_of_bytes(target: str) -> None:
    image, out = (
        RANDOM.integers(0, 256, (12, 16, 4)).astype("uint8"),
        np.zeros((12, 16, 4), "uint8"),
    )
    run(target, "blur", image, out, np.int32(16), np.int32(12), grid=(2, 3), block=(8, 4))
    padded = np.pad(image.astype(float), ((2, 2), (2, 2), (0, 0)), mode="edge")
    weights = np.array([1, 4, 6, 4, 1])
    expected = (
        sum(
            weights[i] * weights[j] * padded[i : i + 12, j : j + 16]
            for i in range(5)
            for j in range(5)
        )
        / 256
    )
    assert np.abs(out - expected).max() <= 0.5


def test_mandelbrot(target: str) -> None:
    out = np.zeros((16, 24), "int32")
    corner, step = np.array([-2, -1], "float32"), np.float32(0.125)
    run(
        target,
        "mandelbrot",
        out,
        np.int32(24),
        corner,
        step,
        np.int32(50),
        grid=(3, 2),
        block=(8, 8),
    )
    c = (-2 + 0.125 * np.arange(24)) + 1j * (-1 + 0.125 * np.arange(16))[:, None]
    z, expected = np.zeros_like(c), np.zeros(c.shape, "int32")
    for _ in range(50):
        inside = np.abs(z) < 2
        expected += inside
        z = np.where(inside, z * z + c, z)
    assert (out != expected).mean() < 0.02  # points on the border
    assert out.max() == 50


def test_vectors_of_three(target: str) -> None:
    x, y = floats(32, 3), np.zeros((32, 3), "float32")
    shift, added = np.array([1, 2, 3], "float32"), np.array([7, 0, 255], "uint8")
    run(target, "three", x, y, shift, added, grid=1, block=32)
    np.testing.assert_allclose(y, np.cross(x, shift) + added, rtol=1e-5, atol=1e-5)
    assert module_of(target).functions["three"].arg_types == (
        "handle",
        "handle",
        "float32x3",
        "uint8x3",
    )


WAVE = np.dtype([("height", "float32"), ("period", "int32")])
MIXED = np.dtype(
    {
        "names": ["tag", "weight", "pair"],
        "formats": ["int8", "float64", ("int16", 2)],
        "offsets": [0, 8, 16],
        "itemsize": 24,
    }
)


CONSTANT_VECTORS = """
typedef struct { char3 pair[2]; int last; } Pairs;
constant float3 FLOATS[2] = {(float3)(1, 2, 3), (float3)(-4, 5, 6)};
constant Pairs PAIRS[2] = {{{(char3)(1, 2, 3), (char3)(4, 5, 6)}, 7}, {{(char3)(-1, -2, -3), (char3)(40, 50, 60)}, 77}};
constant char TEXT[] = "<3 x i8> <%struct.Pairs>";
kernel void k(global float *x, global int *y, global long *z) {
    const long3 own[3] = {(long3)(7, 8, 9), (long3)(0), (long3)(11, 12, 13)};
    size_t i = get_global_id(0);
    vstore3(FLOATS[i % 2], i, x);
    Pairs pairs = PAIRS[i % 2];
    pairs.last += TEXT[i];
    vstore4((int4)(convert_int3(pairs.pair[i / 2]), pairs.last), i, y);
    vstore3(own[i % 3], i, z);
}
"""


def test_constant_arrays_of_vectors_of_three(target: str) -> None:
    """Each vector takes the memory of four elements."""
    x, y, z = np.zeros((4, 3), "float32"), np.zeros((4, 4), "int32"), np.zeros((4, 3), "int64")
    run(target, "k", x, y, z, grid=2, block=2, text=CONSTANT_VECTORS)
    assert x.tolist() == [[1, 2, 3], [-4, 5, 6]] * 2
    last = [7 + ord("<"), 77 + ord("3"), 7 + ord(" "), 77 + ord("x")]
    vectors = [[1, 2, 3], [-1, -2, -3], [4, 5, 6], [40, 50, 60]]
    assert y.tolist() == [[*each, number] for each, number in zip(vectors, last, strict=True)]
    assert z.tolist() == [[7, 8, 9], [0, 0, 0], [11, 12, 13], [7, 8, 9]]


def test_structs(target: str) -> None:
    waves, out = np.zeros(16, WAVE), np.zeros(16, MIXED)
    waves["height"], waves["period"] = np.arange(16), np.arange(16) * 3
    added, mixed = np.array((0.5, 2), WAVE), np.array((-3, 1.25, (7, -9)), MIXED)
    expected = waves["height"] + np.float32(0.5) * waves["period"]
    run(target, "structs", waves, added, mixed, out, grid=1, block=16)
    np.testing.assert_array_equal(waves["height"], expected)
    np.testing.assert_array_equal(waves["period"], np.arange(16) * 3 - 2)
    assert (out["tag"] == -3).all()
    np.testing.assert_array_equal(out["pair"], [[7, -9]] * 16)
    np.testing.assert_array_equal(out["weight"], 1.25 + np.arange(16))


ONE_MEMBER = """
typedef struct { float value; } One;
typedef struct { One inner[1]; } Nested;
typedef struct { float3 value; } Vector;
typedef struct { double value; } Double;
typedef struct { char value; } Byte;
kernel void k(global double *x, char tag, One one, Byte byte, Nested nested, char last, Vector vector, Double number, int n) {
    x[0] = tag, x[1] = one.value, x[2] = byte.value, x[3] = nested.inner[0].value;
    x[4] = last, x[5] = vector.value.x + 10 * vector.value.y + 100 * vector.value.z, x[6] = number.value, x[7] = n;
}
"""


def test_structs_of_one_member(target: str) -> None:
    """For AMD's processors, clang passes the member."""
    x = np.zeros(8)
    values = [
        np.array((number,), [("value", type_)])
        for number, type_ in ((1.5, "float32"), (-2, "int8"), (2.5, "float32"), (3.25, "float64"))
    ]
    vector = np.zeros((), {"names": ["v"], "formats": ["3f4"], "itemsize": 16})
    vector["v"] = [1, 2, 3]
    one, byte, nested, number = values
    run(target, "k", x, 7, one, byte, nested, -8, vector, number, 9, text=ONE_MEMBER)
    assert x.tolist() == [7, 1.5, -2, 2.5, -8, 321, 3.25, 9]


def test_conversions(target: str) -> None:
    x = np.array(
        [
            0,
            0.5,
            1.5,
            2.5,
            -0.5,
            -1.5,
            -2.5,
            3.75,
            -3.75,
            100.4,
            127.5,
            128.5,
            200.6,
            255.5,
            300,
            -130,
        ],
        "float32",
    )
    out, halves = np.zeros((16, 16), "int32"), np.zeros(16, "float16")
    run(target, "conversions", x, out, halves, grid=1, block=16)
    exact = x.astype(float)

    def clip(values: Any, low: float, high: float) -> Any:
        return np.clip(np.trunc(values), low, high)

    rounded = exact * 1e7
    whole = (x * np.float32(1e7)).astype("float64").astype("int64")
    up = np.array(
        [
            np.float32(each)
            if np.float32(each) >= each
            else np.nextafter(np.float32(each), np.float32(np.inf))
            for each in whole
        ]
    )
    expected = [
        *(np.rint(exact), np.trunc(exact), np.ceil(exact), np.floor(exact)),
        *(clip(exact, 0, 255), np.clip(np.rint(exact), -128, 127)),
        *(clip(x * np.float32(10000), -32768, 32767), clip(x * np.float32(10000), 0, 65535)),
        *(x.view("int32"), clip(exact, 0, 2**32 - 1), x.view("uint8").reshape(16, 4)[:, 2]),
        clip((x * np.float32(1e9)).astype(float), -(2**31), 2**31 - 1),
        *(np.clip(np.trunc(exact), 0, 255), np.clip(np.trunc(exact), 0, 127)),
    ]
    for number, each in enumerate(expected):
        np.testing.assert_array_equal(out[:, number], each, str(number))
    fits = np.abs(rounded) < 2**31 - 1
    np.testing.assert_array_equal(out[:, 14].view("float32")[fits], up[fits])
    assert (out[:, 15].view("float32") == np.float32(4294967040)).all()
    np.testing.assert_array_equal(halves, x.astype("float16"))


def signed(values: Any) -> Any:
    return (
        np.asarray(values, "int64").astype("uint64").astype("uint32").view("int32")
        if np.ndim(values)
        else signed([values])[0]
    )


def test_vectors_of_integers(target: str) -> None:
    a, b = RANDOM.integers(-100, 100, (2, 16, 4)).astype("int32")
    out = np.zeros((16, 12, 4), "int32")
    run(target, "vectors", a, b, out, grid=1, block=16)
    ua = a.view("uint32").astype("uint64")
    x, y = a.astype("int64"), b.astype("int64")
    count = np.vectorize(lambda v: (int(v) & 0xFFFFFFFF).bit_count())
    zeros = np.vectorize(lambda v: 32 - (int(v) & 0xFFFFFFFF).bit_length())
    shifted = [
        np.vectorize(lambda v, s=s: ((int(v) << s) + 2**31) % 2**32 - 2**31)(each)
        for s in (20, 28)
        for each in (a, b)
    ]
    saturated = [np.clip(shifted[2] + sign * shifted[3], -(2**31), 2**31 - 1) for sign in (1, -1)]
    mask = 0xFF00FF
    expected = [
        np.where(a > b, b, a),
        a[:, ::-1],
        np.stack([a[:, 0], b[:, 0], a[:, 1], b[:, 1]], 1),
        np.maximum(a, 3) + np.minimum(b, 5),
        np.abs(a) + np.abs(x - y),
        a[:, ::-1] * b,
        (a & ~mask) | (b & mask),
        signed((ua << np.uint64(5) | ua >> np.uint64(27)) & np.uint64(0xFFFFFFFF)) ^ count(b),
        (shifted[0].astype(object) * shifted[1].astype(object) // 2**32).astype("int64")
        + x * y
        + 1,
        zeros(a) + (x + y >> 1) + (x + y + 1 >> 1),
        np.stack(
            [
                (a < 0).any(1),
                (a < b).all(1),
                a[:, 0] == b[:, 0],
                (x[:, 0] << 16) | (y[:, 0] & 0xFFFF),
            ],
            1,
        ),
        saturated[0] ^ saturated[1],
    ]
    for number, each in enumerate(expected):
        np.testing.assert_array_equal(out[:, number], signed(each), str(number))


def test_atomics(target: str) -> None:
    cells, most = np.zeros(9, "int32"), np.zeros(1, "uint32")
    cells[4] = 0xFFFF
    run(target, "atomics", cells, most, np.int32(3), grid=2, block=32)
    i = np.arange(64)
    expected = [i.sum(), -3 * 64, -63, 63, 0xFF00, 0xFFFF, np.bitwise_xor.reduce(i), -64, 3 * 64]
    assert cells.tolist() == expected
    assert most[0] == 0xF0000000


ATOMICS_OF_2 = """//devmod: -cl-std=CL2.0
kernel void k(global atomic_int *a, global atomic_uint *u, global int *out, global atomic_float *f) {
    int i = get_global_id(0);
    local atomic_int own;
    if (get_local_id(0) == 0) atomic_init(&own, 5);
    work_group_barrier(CLK_LOCAL_MEM_FENCE);
    atomic_fetch_add_explicit(&a[0], i, memory_order_relaxed, memory_scope_device);
    atomic_fetch_sub(&a[1], 3);
    atomic_fetch_max_explicit(&a[2], i, memory_order_acq_rel);
    atomic_fetch_min(&a[3], -i);
    atomic_fetch_or(&u[0], 1u << (i & 31));
    atomic_fetch_xor_explicit(&u[1], i, memory_order_seq_cst, memory_scope_device);
    atomic_fetch_and(&u[2], ~(1u << (i & 15)));
    int seen = atomic_load(&a[4]);
    while (!atomic_compare_exchange_strong(&a[4], &seen, seen + 2)) ;
    atomic_fetch_add(&own, get_local_id(0));
    work_group_barrier(CLK_LOCAL_MEM_FENCE);
    out[i] = atomic_load_explicit(&own, memory_order_acquire, memory_scope_work_group);
    if (i == 3) {
        atomic_store(&a[5], 77);
        out[64] = atomic_exchange(&a[6], 12);
        atomic_store_explicit(&f[0], 1.5f, memory_order_release);
        out[65] = atomic_exchange(&f[0], 2.5f) * 2 + atomic_load(&f[0]) * 100;
    }
}
"""


def without_atomics_of_2(target: str) -> bool:
    return target == "source" and "PoCL" in devmod.devices("opencl")[0].handle.version


def test_atomics_of_opencl_c_2(target: str) -> None:
    if without_atomics_of_2(target):
        pytest.skip("PoCL 3.0 does not compile them")
    a, u = np.arange(8, dtype="int32"), np.array([0, 9, 0xFFFFFFFF], "uint32")
    out, f = np.zeros(66, "int32"), np.zeros(1, "float32")
    run(target, "k", a, u, out, f, grid=2, block=32, text=ATOMICS_OF_2)
    assert a.tolist() == [2016, 1 - 192, 63, -63, 4 + 128, 77, 12, 7]
    assert u.tolist() == [0xFFFFFFFF, 9, 0xFFFF0000]
    assert out.tolist() == [5 + 496] * 64 + [6, 253]
    assert f.tolist() == [2.5]


ANY_SPACE = """//devmod: -cl-std=CL2.0
int bump(atomic_int *p) { return atomic_fetch_add(p, 2); }
int first(const int *p) { return to_local(p) ? *to_local(p) : -1; }
kernel void k(global atomic_int *a, global int *x, global int *y, local int *given) {
    int i = get_global_id(0);
    local atomic_int own;
    if (get_local_id(0) == 0) { atomic_init(&own, 1); given[0] = 70; given[1] = 71; }
    work_group_barrier(CLK_LOCAL_MEM_FENCE);
    atomic_int *p = a;
    if (i % 3) p = &own;
    bump(p);
    work_group_barrier(CLK_LOCAL_MEM_FENCE);
    const int *q = given + (i & 1);
    const int *r = x;
    y[4 * i] = atomic_load(&own);
    y[4 * i + 1] = first(q);
    y[4 * i + 2] = *to_global(r);
    y[4 * i + 3] = get_fence(r) == CLK_GLOBAL_MEM_FENCE;
}
"""


def test_pointers_to_any_address_space(target: str) -> None:
    if without_atomics_of_2(target):
        pytest.skip("PoCL 3.0 does not compile them")
    a, x, y = np.zeros(1, "int32"), np.array([9], "int32"), np.zeros((64, 4), "int32")
    run(target, "k", a, x, y, devmod.Local(8), grid=2, block=32, text=ANY_SPACE)
    assert a.tolist() == [2 * 22]
    own = [1 + 2 * 21] * 64
    assert y.tolist() == [[each, 70 + (i & 1), 9, 1] for i, each in enumerate(own)]


HALVES = """
kernel void k(global const half *h, global half *to, global float *y) {
    int i = get_global_id(0);
    float3 v = vloada_half3(i, h);
    vstore3(v, i, y);
    vstorea_half3(v * 2, i, to);
}
"""


def test_aligned_vectors_of_three_halves(target: str) -> None:
    """Their stride is that of four."""
    h, to, y = np.arange(64, dtype="float16"), np.zeros(64, "float16"), np.zeros((16, 3), "float32")
    run(target, "k", h, to, y, grid=2, block=8, text=HALVES)
    expected = h.reshape(16, 4)[:, :3]
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(to.reshape(16, 4)[:, :3], 2 * expected)


def test_asynchronous_copies(target: str) -> None:
    x, y = floats(64), np.zeros(64, "float32")
    run(target, "copies", x, y, devmod.Local(128), grid=2, block=32)
    np.testing.assert_array_equal(y.reshape(2, 32), x.reshape(2, 32)[:, ::-1])


def test_results_behind_pointers(target: str) -> None:
    x = np.array([0, 1.5, -1.5, 2.75, -2.75, 1e-3, 100.25, -7.125], "float32")
    out, parts = np.zeros((8, 8), "float32"), np.zeros((8, 2), "int32")
    run(target, "pointers", x, out, parts, grid=1, block=8)
    mantissa, exponent = np.frexp(x)
    rest = np.array([math.remainder(float(each), 0.75) for each in x])
    floor = np.floor(x)
    expected = [
        x - floor,
        floor,
        np.modf(x)[0],
        np.trunc(x),
        np.sin(x.astype(float)),
        np.cos(x.astype(float)),
        mantissa,
        rest,
    ]
    np.testing.assert_allclose(out, np.stack(expected, 1), rtol=2e-6, atol=2e-6)
    np.testing.assert_array_equal(parts[:, 0], exponent)
    quotient = np.rint((x - rest) / 0.75).astype(int)
    np.testing.assert_array_equal(np.abs(parts[:, 1]) & 7, np.abs(quotient) & 7)


def test_integers_of_64_bits(target: str) -> None:
    a = RANDOM.integers(-(2**40), 2**40, 8)
    b = RANDOM.integers(0, 2**63, 8).astype("uint64")
    out = np.zeros((8, 6), "int64")
    run(target, "longs", a, b, out, grid=1, block=8)
    for i in range(8):
        x, y = int(a[i]), int(b[i])
        most = max(x, -3)
        rotated = (y << 13 | y >> 51) % 2**64
        expected = [
            abs(x * 3) // 7 * (1 if x >= 0 else -1),
            x * y >> 64,
            64 - y.bit_length(),
            abs(x - 5),
        ]
        expected += [
            rotated - 2**64 if rotated >= 2**63 else rotated,
            abs(most) % 11 * (1 if most >= 0 else -1),
        ]
        assert out[i].tolist() == expected


PRINTS = r"""
kernel void k(global const float4 *v, global const int *n, global const half *h) {
    printf("start %5s|%-6.3s|%%\\41\n", "a%b", "abcdef");
    if (n[0] > 3) {
        printf("%d %+.2f %lx %c %hhd\n", n[0], v[0].y, (ulong)n[0] << 40, 'q', (char)n[0]);
        printf("%.1v4hlf %v2hlu %#v3hx %v2ld %.1f\n", v[0], as_uint2(v[0].xy), (ushort3)(65535), (long2)(-1, 2), h[0]);
    }
}
"""


def test_print(capfd: pytest.CaptureFixture[str]) -> None:
    if not any(each.index == 0 and "fp16" in each.features for each in devmod.devices("opencl")):
        pytest.skip("there is no OpenCL device, or the first has no half")
    expected = print_values("source")
    assert capfd.readouterr().out == expected


def print_values(target: str) -> str:
    """Run a kernel that prints, and return what it prints."""
    v, n, h = (
        np.array([[1, -2.5, 3, 4]], "float32"),
        np.array([300], "int32"),
        np.array([0.5], "float16"),
    )
    run(target, "k", v, n, h, text=PRINTS)
    words = ",".join(str(each) for each in v[0, :2].view("uint32"))
    return f"start   a%b|abc   |%\\41\n300 -2.50 12c0000000000 q 44\n1.0,-2.5,3.0,4.0 {words} 0xffff,0xffff,0xffff -1,2 0.5\n"


NAMES = """
int devmod_fence(int x) { return 2 * x; }
inline int devmod_linear(int x) { return x * x; }
kernel void k(global int *x) {
    x[0] = devmod_fence(x[0]) + devmod_linear(x[0]) + atomic_max(&x[1], x[0]);
}
"""


def test_names_of_the_source_that_the_definitions_have_too(target: str) -> None:
    x = np.array([10, 4], "int32")
    run(target, "k", x, text=NAMES)
    assert x.tolist() == [20 + 100 + 4, 10]


CONVERTED = """
kernel void k(global const ulong *u, global const long *n, global const double *d, global double *doubles, global half *halves) {
    int i = get_global_id(0);
    global double *o = doubles + 6 * i;
    o[0] = convert_double_rtz(u[i]); o[1] = convert_double_rtp(u[i]); o[2] = convert_double_rtn(u[i]);
    o[3] = convert_double_rtz(n[i]); o[4] = convert_double_rtp(n[i]); o[5] = convert_double_rtn(n[i]);
    vstore_half_rtz(d[i], 6 * i, halves); vstore_half_rtp(d[i], 6 * i + 1, halves); vstore_half_rtn(d[i], 6 * i + 2, halves);
    half2 pair = (half2)(convert_half_rtz(d[i]), convert_half_rtp((float)d[i]));
    halves[6 * i + 3] = pair.x; halves[6 * i + 4] = pair.y; halves[6 * i + 5] = convert_half2_rtn((double2)(d[i], 0)).x;
}
"""


def directed(exact: Fraction, dtype: type[np.floating[Any]], mode: str) -> Any:
    """Convert a number with a rounding: toward zero, up or down."""
    with np.errstate(over="ignore"):
        near = dtype(float(exact))
    low = near if float(near) <= exact else np.nextafter(near, dtype(-np.inf))
    high = near if float(near) >= exact else np.nextafter(near, dtype(np.inf))
    return {"rtz": low if exact >= 0 else high, "rtp": high, "rtn": low}[mode]


def test_conversions_with_a_rounding() -> None:
    if not any(
        {"fp16", "fp64"} <= each.features and "SPIR-V" in each.handle.il_version
        for each in devmod.devices("opencl")
    ):
        pytest.skip(
            "no OpenCL device here takes SPIR-V with half and double: pip install 'devmod-opencl[intel]'"
        )
    check_rounded("SPIR-V")


def check_rounded(target: str) -> None:
    """Compare conversions with each rounding."""
    u = np.array([2**64 - 1, 2**63 + 1025, 2**53 + 1, 7], "uint64")
    n = np.array([-(2**63), -(2**63) + 1025, -(2**53) - 1, 2**63 - 1], "int64")
    d = np.array([-1e-9, 1 / 3, -70000, 2.5], "float64")
    doubles, halves = np.zeros((4, 6)), np.zeros((4, 6), "float16")
    run(target, "k", u, n, d, doubles, halves, grid=1, block=4, text=CONVERTED)
    modes = ("rtz", "rtp", "rtn")
    expected = [
        [directed(Fraction(int(each)), np.float64, mode) for each in pair for mode in modes]
        for pair in zip(u, n, strict=True)
    ]
    np.testing.assert_array_equal(doubles, expected)
    small = [[directed(Fraction(each), np.float16, mode) for mode in modes] for each in d.tolist()]
    np.testing.assert_array_equal(halves, [[*each, *each] for each in small])
