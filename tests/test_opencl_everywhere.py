"""One source in OpenCL C for opencl (source and SPIR-V), cuda and rocm: each kernel computes what NumPy does on all of them."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import code_of

import devmod
from devmod_simulators import rdna3
from devmod_simulators.ptx import run_ptx

SOURCE = Path(__file__).with_name("everywhere.cl")
#: The targets, and what executes each here.
TARGETS = {
    "source": "opencl",
    "SPIR-V": "opencl -format=il",
    "PTX": "cuda -arch=compute_80",
    "gfx1100": "rocm -arch=gfx1100",
}


@cache
def module_of(target: str, text: str = "") -> devmod.Module:
    return devmod.compile(text or SOURCE, TARGETS[target], language="OpenCL C" if text else None)


@cache
def il_devices() -> list[Any]:
    return [each for each in devmod.devices() if each.kind == "opencl" and "SPIR-V" in each.handle.il_version]


@pytest.fixture(params=list(TARGETS))
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "gfx1100" and rdna3.missing():
        pytest.skip(rdna3.missing())
    if name == "SPIR-V" and not il_devices():
        pytest.skip("no OpenCL device here takes SPIR-V: pip install 'devmod-opencl[intel]'")
    if name == "source" and not any(each.kind == "opencl" for each in devmod.devices()):
        pytest.skip("there is no OpenCL device")
    return name


def run(target: str, tmp_path: Path, name: str, *args: Any, grid: Any = 1, block: Any = 1, text: str = "") -> None:
    """Launch a kernel. A `devmod.Local` is local memory; arrays change in place; other arguments are NumPy scalars or bytes."""
    module = module_of(target, text)
    grid, block = (tuple(each) + (1,) * (3 - len(each)) if isinstance(each, tuple) else (each, 1, 1) for each in (grid, block))
    if target in ("source", "SPIR-V"):
        module[name](*args, grid=grid, block=block)
        return
    values, size = [], 0
    for arg in args:
        if isinstance(arg, devmod.Local):
            values.append(np.uint32(size))
            size += -(-arg.nbytes // 16) * 16
        else:
            values.append(arg)
    if target == "PTX":
        ptx = [np.frombuffer(each, f"V{len(each)}")[0] if isinstance(each, bytes) else each for each in values]
        run_ptx(code_of(module).decode(), name, grid, block, ptx, size)
        return
    emulator = rdna3.Emulator(code_of(module), tmp_path)
    emulator.add(name, *values, grid=grid, block=block, shared_memory=size)
    emulator.run()


RANDOM = np.random.default_rng(24)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype("float32")


def test_axpy(target: str, tmp_path: Path) -> None:
    x, y = floats(100), floats(100)
    expected = np.float32(2.5) * x + y
    expected[90:] = y[90:]
    run(target, tmp_path, "axpy", y, x, np.float32(2.5), np.int32(90), grid=4, block=32)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)


def test_the_ids_of_three_dimensions(target: str, tmp_path: Path) -> None:
    grid, block = (3, 2, 4), (4, 3, 2)
    x, y, z = (each * size for each, size in zip(grid, block, strict=True))
    out = np.zeros((z, y, x, 4), "int32")
    run(target, tmp_path, "ids", out, grid=grid, block=block)
    at = np.stack(np.meshgrid(np.arange(z), np.arange(y), np.arange(x), indexing="ij"), -1)[..., ::-1]
    digits = np.array([1, 10, 100])
    np.testing.assert_array_equal(out[..., 0], at // block @ digits)
    np.testing.assert_array_equal(out[..., 1], at % block @ digits)
    assert (out[..., 2] == np.dot(block, digits)).all()
    assert (out[..., 3] == np.dot(grid, digits) + 10000).all()


def test_a_histogram_in_static_local_memory(target: str, tmp_path: Path) -> None:
    values, bins = RANDOM.integers(0, 256, 1000).astype("uint8"), np.zeros(16, "int32")
    run(target, tmp_path, "histogram", values, bins, np.int32(1000), grid=3, block=64)
    np.testing.assert_array_equal(bins, np.bincount(values >> 4, minlength=16))


def test_a_product_of_matrices_with_two_local_arguments(target: str, tmp_path: Path) -> None:
    a, b, c = floats(16, 16), floats(16, 16), np.zeros((16, 16), "float32")
    run(target, tmp_path, "matmul", a, b, c, np.int32(16), devmod.Local(256), devmod.Local(256), grid=(2, 2), block=(8, 8))
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def test_a_reduction_with_a_fixed_block(target: str, tmp_path: Path) -> None:
    x, sums = floats(256), np.zeros(4, "float32")
    assert module_of(target).functions["reduction"].interface.block == (64, 1, 1)  # type: ignore[union-attr]
    run(target, tmp_path, "reduction", x, sums, devmod.Local(256), grid=4, block=64)
    np.testing.assert_allclose(sums, x.reshape(4, 64).sum(1), rtol=1e-4, atol=1e-5)


def test_softmax(target: str, tmp_path: Path) -> None:
    x, y = floats(4, 50), np.zeros((4, 50), "float32")
    run(target, tmp_path, "softmax", x, y, np.int32(50), devmod.Local(200), grid=4, block=32)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


def test_a_blur_of_bytes(target: str, tmp_path: Path) -> None:
    image, out = RANDOM.integers(0, 256, (12, 16, 4)).astype("uint8"), np.zeros((12, 16, 4), "uint8")
    run(target, tmp_path, "blur", image, out, np.int32(16), np.int32(12), grid=(2, 3), block=(8, 4))
    padded = np.pad(image.astype(float), ((2, 2), (2, 2), (0, 0)), mode="edge")
    weights = np.array([1, 4, 6, 4, 1])
    expected = sum(weights[i] * weights[j] * padded[i : i + 12, j : j + 16] for i in range(5) for j in range(5)) / 256
    assert np.abs(out - expected).max() <= 0.5


def test_mandelbrot(target: str, tmp_path: Path) -> None:
    out = np.zeros((16, 24), "int32")
    corner, step = np.array([-2, -1], "float32"), np.float32(0.125)
    vector = corner if target in ("source", "SPIR-V") else corner.tobytes()
    run(target, tmp_path, "mandelbrot", out, np.int32(24), vector, step, np.int32(50), grid=(3, 2), block=(8, 8))
    c = (-2 + 0.125 * np.arange(24)) + 1j * (-1 + 0.125 * np.arange(16))[:, None]
    z, expected = np.zeros_like(c), np.zeros(c.shape, "int32")
    for _ in range(50):
        inside = np.abs(z) < 2
        expected += inside
        z = np.where(inside, z * z + c, z)
    assert (out != expected).mean() < 0.02  # points on the border
    assert out.max() == 50


def test_vectors_of_three(target: str, tmp_path: Path) -> None:
    x, y = floats(32, 3), np.zeros((32, 3), "float32")
    shift, added = np.array([1, 2, 3], "float32"), np.array([7, 0, 255], "uint8")
    values = (shift, added) if target in ("source", "SPIR-V") else (shift.tobytes(), added.tobytes())
    run(target, tmp_path, "three", x, y, *values, grid=1, block=32)
    np.testing.assert_allclose(y, np.cross(x, shift) + added, rtol=1e-5, atol=1e-5)
    types = [module_of(each).functions["three"].arg_types for each in TARGETS]
    assert types == [("handle", "handle", "float32x3", "uint8x3")] * 4


WAVE = np.dtype([("height", "float32"), ("period", "int32")])
MIXED = np.dtype({"names": ["tag", "weight", "pair"], "formats": ["int8", "float64", ("int16", 2)], "offsets": [0, 8, 16], "itemsize": 24})


def test_structs(target: str, tmp_path: Path) -> None:
    waves, out = np.zeros(16, WAVE), np.zeros(16, MIXED)
    waves["height"], waves["period"] = np.arange(16), np.arange(16) * 3
    added, mixed = np.array((0.5, 2), WAVE), np.array((-3, 1.25, (7, -9)), MIXED)
    expected = waves["height"] + np.float32(0.5) * waves["period"]
    values = (added, mixed) if target in ("source", "SPIR-V") else (added.tobytes(), mixed.tobytes())
    run(target, tmp_path, "structs", waves, *values, out, grid=1, block=16)
    np.testing.assert_array_equal(waves["height"], expected)
    np.testing.assert_array_equal(waves["period"], np.arange(16) * 3 - 2)
    assert (out["tag"] == -3).all()
    np.testing.assert_array_equal(out["pair"], [[7, -9]] * 16)
    np.testing.assert_array_equal(out["weight"], 1.25 + np.arange(16))


def test_conversions(target: str, tmp_path: Path) -> None:
    x = np.array([0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.75, -3.75, 100.4, 127.5, 128.5, 200.6, 255.5, 300, -130], "float32")
    out, halves = np.zeros((16, 16), "int32"), np.zeros(16, "float16")
    run(target, tmp_path, "conversions", x, out, halves, grid=1, block=16)
    exact = x.astype(float)

    def clip(values: Any, low: float, high: float) -> Any:
        return np.clip(np.trunc(values), low, high)

    rounded = exact * 1e7
    whole = (x * np.float32(1e7)).astype("float64").astype("int64")
    up = np.array([np.float32(each) if np.float32(each) >= each else np.nextafter(np.float32(each), np.float32(np.inf)) for each in whole])
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
    return np.asarray(values, "int64").astype("uint64").astype("uint32").view("int32") if np.ndim(values) else signed([values])[0]


def test_vectors_of_integers(target: str, tmp_path: Path) -> None:
    a, b = RANDOM.integers(-100, 100, (2, 16, 4)).astype("int32")
    out = np.zeros((16, 12, 4), "int32")
    run(target, tmp_path, "vectors", a, b, out, grid=1, block=16)
    ua = a.view("uint32").astype("uint64")
    x, y = a.astype("int64"), b.astype("int64")
    count = np.vectorize(lambda v: (int(v) & 0xFFFFFFFF).bit_count())
    zeros = np.vectorize(lambda v: 32 - (int(v) & 0xFFFFFFFF).bit_length())
    shifted = [np.vectorize(lambda v, s=s: ((int(v) << s) + 2**31) % 2**32 - 2**31)(each) for s in (20, 28) for each in (a, b)]
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
        (shifted[0].astype(object) * shifted[1].astype(object) // 2**32).astype("int64") + x * y + 1,
        zeros(a) + (x + y >> 1) + (x + y + 1 >> 1),
        np.stack([(a < 0).any(1), (a < b).all(1), a[:, 0] == b[:, 0], (x[:, 0] << 16) | (y[:, 0] & 0xFFFF)], 1),
        saturated[0] ^ saturated[1],
    ]
    for number, each in enumerate(expected):
        np.testing.assert_array_equal(out[:, number], signed(each), str(number))


def test_atomics(target: str, tmp_path: Path) -> None:
    cells, most = np.zeros(9, "int32"), np.zeros(1, "uint32")
    cells[4] = 0xFFFF
    run(target, tmp_path, "atomics", cells, most, np.int32(3), grid=2, block=32)
    i = np.arange(64)
    expected = [i.sum(), -3 * 64, -63, 63, 0xFF00, 0xFFFF, np.bitwise_xor.reduce(i), -64, 3 * 64]
    assert cells.tolist() == expected
    assert most[0] == 0xF0000000


def test_asynchronous_copies(target: str, tmp_path: Path) -> None:
    x, y = floats(64), np.zeros(64, "float32")
    run(target, tmp_path, "copies", x, y, devmod.Local(128), grid=2, block=32)
    np.testing.assert_array_equal(y.reshape(2, 32), x.reshape(2, 32)[:, ::-1])


def test_results_behind_pointers(target: str, tmp_path: Path) -> None:
    x = np.array([0, 1.5, -1.5, 2.75, -2.75, 1e-3, 100.25, -7.125], "float32")
    out, parts = np.zeros((8, 8), "float32"), np.zeros((8, 2), "int32")
    run(target, tmp_path, "pointers", x, out, parts, grid=1, block=8)
    mantissa, exponent = np.frexp(x)
    rest = np.array([math.remainder(float(each), 0.75) for each in x])
    floor = np.floor(x)
    expected = [x - floor, floor, np.modf(x)[0], np.trunc(x), np.sin(x.astype(float)), np.cos(x.astype(float)), mantissa, rest]
    np.testing.assert_allclose(out, np.stack(expected, 1), rtol=2e-6, atol=2e-6)
    np.testing.assert_array_equal(parts[:, 0], exponent)
    quotient = np.rint((x - rest) / 0.75).astype(int)
    np.testing.assert_array_equal(np.abs(parts[:, 1]) & 7, np.abs(quotient) & 7)


def test_integers_of_64_bits(target: str, tmp_path: Path) -> None:
    a = RANDOM.integers(-(2**40), 2**40, 8)
    b = RANDOM.integers(0, 2**63, 8).astype("uint64")
    out = np.zeros((8, 6), "int64")
    run(target, tmp_path, "longs", a, b, out, grid=1, block=8)
    for i in range(8):
        x, y = int(a[i]), int(b[i])
        most = max(x, -3)
        rotated = (y << 13 | y >> 51) % 2**64
        expected = [abs(x * 3) // 7 * (1 if x >= 0 else -1), x * y >> 64, 64 - y.bit_length(), abs(x - 5)]
        expected += [rotated - 2**64 if rotated >= 2**63 else rotated, abs(most) % 11 * (1 if most >= 0 else -1)]
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


def test_print(target: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if target in ("gfx1100", "SPIR-V"):
        pytest.skip("the emulator has none of ROCm's runtime; SPIR-V is printed by the same driver")
    v, n, h = np.array([[1, -2.5, 3, 4]], "float32"), np.array([300], "int32"), np.array([0.5], "float16")
    run(target, tmp_path, "k", v, n, h, text=PRINTS)
    words = ",".join(str(each) for each in v[0, :2].view("uint32"))
    assert capfd.readouterr().out == (
        f"start   a%b|abc   |%\\41\n300 -2.50 12c0000000000 q 44\n1.0,-2.5,3.0,4.0 {words} 0xffff,0xffff,0xffff -1,2 0.5\n"
    )


NAMES = r"""
constant int malloc = 7;
constant int devmod_local_memory = 5;
int vprintf(int x) { return 2 * x; }
int free(int x) { return x + 1; }
inline int devmod_print_0(int x) { return x * x; }
int devmod_3absi(int x) { return 3 * x; }
kernel void k(global int *x) {
    x[0] = vprintf(x[0]) + malloc + free(x[0]) + devmod_print_0(x[0]) + devmod_local_memory + devmod_3absi(x[0]) + abs(x[0]);
    printf("@vprintf(%d) %s\n", x[0], "@malloc");
}
"""


def test_names_of_the_source_that_printing_has_too(target: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    x, prints = np.array([10], "int32"), target not in ("gfx1100", "SPIR-V")
    run(target, tmp_path, "k", x, text=NAMES if prints else NAMES.replace("    printf", "    // printf"))
    assert x.tolist() == [20 + 7 + 11 + 100 + 5 + 30 + 10]
    if prints:
        assert capfd.readouterr().out == "@vprintf(183) @malloc\n"
