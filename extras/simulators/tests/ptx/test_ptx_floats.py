"""Floating-point instructions of the interpreter of PTX, compared with NumPy, Python's fractions
and ml_dtypes.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from ptx_snippets import numpy_type, run_alike, run_snippet

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    1.5,
    2.5,
    3.5,
    math.inf,
    -math.inf,
    math.nan,
    65504.0,
    1e-40,
    -1e-40,
    3e38,
    1e-7,
    255.5,
    -0.3,
    1e10,
    4e9,
    -4e9,
    1e19,
    2e19,
]
Array = np.ndarray[Any, np.dtype[Any]]


def values(kind: str, seed: int) -> Array:
    """Return special and random numbers of a type, in a random order."""
    random = np.random.default_rng(seed)
    numbers = np.concatenate(
        [np.array(SPECIAL * 6), random.normal(size=200) * 10.0 ** random.integers(-6, 7, 200)]
    )
    return random.permutation(numbers).astype(numpy_type(kind))


def same(result: Any, expected: Any) -> None:
    """Compare bits, where all NaN are equal."""
    result, expected = np.asarray(result), np.asarray(expected)
    assert result.dtype == expected.dtype
    nan = np.isnan(expected)
    assert_array_equal(np.isnan(result), nan)
    bits = f"u{result.dtype.itemsize}"
    assert_array_equal(np.where(nan, 0, result.view(bits)), np.where(nan, 0, expected.view(bits)))


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("kind", ["f32", "f64", "f16"])
@pytest.mark.parametrize(
    ("name", "oracle"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)]
)
def test_arithmetic(kind: str, name: str, oracle: Any) -> None:
    a, b = values(kind, 1), values(kind, 2)
    same(run_alike(f"{name}.{kind} %o, %a, %b;", kind, a, b), oracle(a, b))


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_division_and_roots(kind: str) -> None:
    a, b = values(kind, 1), values(kind, 2)
    same(run_alike(f"div.rn.{kind} %o, %a, %b;", kind, a, b), a / b)
    same(run_alike(f"rcp.rn.{kind} %o, %a;", kind, a), numpy_type(kind).type(1) / a)
    same(run_alike(f"sqrt.rn.{kind} %o, %a;", kind, a), np.sqrt(a))


def nearest(number: Fraction, kind: str, mode: str) -> float:
    """Return the number of a type that a rounding mode gives."""
    dtype = numpy_type(kind)
    near = dtype.type(float(number))
    # float() rounds to 53 bits first; look at the neighbours.
    places = [
        float(near),
        *(float(np.nextafter(near, dtype.type(end))) for end in (-np.inf, np.inf)),
    ]
    if mode == "rz":
        mode = "rm" if number > 0 else "rp"
    if mode == "rm":
        return max(each for each in places if each <= number)
    if mode == "rp":
        return min(each for each in places if each >= number)

    def distance(each: float) -> tuple[Fraction, int]:
        last_bit = int(np.array(each, dtype).view(f"u{dtype.itemsize}")) & 1
        return abs(Fraction(each) - number), last_bit

    return min(places, key=distance)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["add", "mul", "fma", "div"])
def test_rounding_modes(kind: str, mode: str, name: str) -> None:
    random = np.random.default_rng(3)
    a, b, c = (random.normal(size=(3, 200)) * 10.0 ** random.integers(-8, 9, (3, 200))).astype(
        numpy_type(kind)
    )
    exact: dict[str, Callable[..., Fraction]] = {
        "add": lambda x, y, z: x + y,
        "mul": lambda x, y, z: x * y,
        "fma": lambda x, y, z: x * y + z,
        "div": lambda x, y, z: x / y,
    }
    expected = [
        nearest(exact[name](*(Fraction(float(each)) for each in row)), kind, mode)
        for row in zip(a, b, c, strict=True)
    ]
    operands = "%a, %b, %c" if name == "fma" else "%a, %b"
    result = run_alike(f"{name}.{mode}.{kind} %o, {operands};", kind, a, b, c)
    same(result, np.array(expected, numpy_type(kind)))


@pytest.mark.volume_but("fma-rn-f64")
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["add", "sub", "fma"])
def test_a_sum_of_zero_has_the_sign_of_ieee_754(kind: str, mode: str, name: str) -> None:
    a, b, c = np.array(list(itertools.product([0.0, -0.0, 2.0], repeat=3)), numpy_type(kind)).T
    if name == "fma":
        c = np.concatenate([c, -a * b])
        a = np.tile(a, 2)
        b = np.tile(b, 2)
        addends = (a * b, c)
        code = f"fma.{mode}.{kind} %o, %a, %b, %c;"
    else:
        addends = (a, b if name == "add" else -b)
        code = f"{name}.{mode}.{kind} %o, %a, %b;"
    # Addends of one sign keep it; others cancel to +0, or to -0 where they are rounded down.
    expected = addends[0] + addends[1]
    cancelled = (expected == 0) & (np.signbit(addends[0]) != np.signbit(addends[1]))
    expected[cancelled] = -0.0 if mode == "rm" else 0.0
    result = run_alike(code, kind, a, b, c)
    assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_roots_are_rounded_in_a_direction(mode: str) -> None:
    a = np.arange(1, 300, dtype=np.float32)
    result = run_alike(f"sqrt.{mode}.f32 %o, %a;", "f32", a)
    for number, root in zip(a.tolist(), result, strict=True):
        other = float(np.nextafter(root, np.float32(np.inf if mode != "rp" else -np.inf)))
        square = Fraction(float(root)) ** 2
        assert (
            (square >= number > Fraction(other) ** 2)
            if mode == "rp"
            else (square <= number < Fraction(other) ** 2)
        )


@pytest.mark.volume_but
def test_flushing_and_saturation() -> None:
    a, b = values("f32", 1), np.full(len(values("f32", 1)), 1, np.float32)
    least = np.float32(2.0**-126)
    a[:2] = least, -least
    zero = np.copysign(np.float32(0), a)
    # A flushed operand, whose product is normal, and a flushed product of normal operands.
    for factor in (np.float32(2.0**30), np.float32(2.0**-10)):
        product = a * factor
        is_flushed = (np.abs(a) < least) | (np.abs(product) < least)
        same(
            run_alike("mul.ftz.f32 %o, %a, %b;", "f32", a, b * factor),
            np.where(is_flushed, zero, product),
        )
    expected = np.where(np.isnan(a), np.float32(0), np.clip(a + b, np.float32(0), np.float32(1)))
    same(run_alike("add.sat.f32 %o, %a, %b;", "f32", a, b), expected)


@pytest.mark.parametrize("kind", ["f32", "f64", "f16"])
def test_minimum_and_maximum_ignore_nan(kind: str) -> None:
    a, b = values(kind, 1), values(kind, 2)
    a[:2], b[:2] = (0.0, -0.0), (-0.0, 0.0)
    # fmin and fmax take either zero.
    low = np.where(a == b, np.where(np.signbit(a), a, b), np.fmin(a, b))
    high = np.where(a == b, np.where(np.signbit(a), b, a), np.fmax(a, b))
    same(run_alike(f"min.{kind} %o, %a, %b;", kind, a, b), low)
    same(run_alike(f"max.{kind} %o, %a, %b;", kind, a, b), high)
    if kind != "f64":
        either = np.isnan(a) | np.isnan(b)
        same(
            run_alike(f"min.NaN.{kind} %o, %a, %b;", kind, a, b),
            np.where(either, a.dtype.type(np.nan), low),
        )


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_signs_and_tests(kind: str) -> None:
    a, b = values(kind, 1), values(kind, 2)
    same(run_alike(f"neg.{kind} %o, %a;", kind, a), -a)
    same(run_alike(f"abs.{kind} %o, %a;", kind, a), np.abs(a))
    same(run_alike(f"copysign.{kind} %o, %a, %b;", kind, a, b), np.copysign(b, a))
    normal = np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny)
    tests = {
        "finite": np.isfinite(a),
        "infinite": np.isinf(a),
        "number": ~np.isnan(a),
        "notanumber": np.isnan(a),
        "normal": normal,
    }
    tests["subnormal"] = np.isfinite(a) & ~normal & (a != 0)
    for name, expected in tests.items():
        assert_array_equal(run_alike(f"testp.{name}.{kind} %qo, %a;", kind, a, to="pred"), expected)


ORDERED = {
    "eq": np.equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@pytest.mark.parametrize("kind", ["f32", "f64", "f16"])
def test_comparisons_with_nan(kind: str) -> None:
    a, b = values(kind, 1), values(kind, 2)
    either = np.isnan(a) | np.isnan(b)
    expected = {name: function(a, b) for name, function in ORDERED.items()}
    expected |= {f"{name}u": function(a, b) | either for name, function in ORDERED.items()}
    expected |= {"ne": (a != b) & ~either, "neu": a != b, "num": ~either, "nan": either}
    for name, holds in expected.items():
        assert_array_equal(
            run_alike(f"setp.{name}.{kind} %qo, %a, %b;", kind, a, b, to="pred"),
            holds,
            err_msg=name,
        )


APPROXIMATE = {
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "rcp": np.reciprocal,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sqrt": np.sqrt,
}


@pytest.mark.parametrize("name", [*APPROXIMATE, "tanh"])
def test_approximations(name: str) -> None:
    a = np.linspace(0.05, 6, 300, dtype=np.float32)
    oracle = APPROXIMATE.get(name, np.tanh)
    result = run_alike(f"{name}.approx.f32 %o, %a;", "f32", a)
    assert_allclose(result, oracle(a.astype(np.float64)), rtol=1e-6, atol=1e-7)


@pytest.mark.volume_but("bf16")
@pytest.mark.parametrize("kind", ["bf16", "bf16x2"])
def test_a_power_of_bf16_is_flushed(kind: str) -> None:
    """ptxas takes ex2 of bf16 with .ftz alone."""
    numbers = [0.5, -3, 2, 2.0**-130, -(2.0**-130), -126.5, -126, 127, 129, -math.inf]
    inputs = np.array(numbers, ml_dtypes.bfloat16)
    powers = np.exp2(inputs.astype(np.float32))
    powers[np.abs(powers) < 2.0**-126] = 0
    expected = powers.astype(ml_dtypes.bfloat16).view(np.uint16)
    bits = inputs.view(np.uint16)
    if kind == "bf16":
        result = run_alike("ex2.approx.ftz.bf16 %o, %a;", "u16", bits)
    else:
        both = bits | bits[::-1].astype(np.uint32) << 16
        result = run_alike("ex2.approx.ftz.bf16x2 %o, %a;", "u32", both)
        expected = expected | expected[::-1].astype(np.uint32) << 16
    assert_array_equal(result, expected)


@pytest.mark.parametrize("name", ["min", "max"])
def test_an_extreme_of_three_magnitudes(name: str) -> None:
    a, b, c = (values("f32", seed) for seed in range(3))
    function = getattr(np, f"f{name}")
    expected = function(function(abs(a), abs(b)), abs(c))
    same(run_alike(f"{name}.abs.f32 %o, %a, %b, %c;", "f32", a, b, c), expected)


@pytest.mark.parametrize("kind", ["f32", "f64", "f16"])
@pytest.mark.parametrize("target", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize(
    ("mode", "oracle"),
    [
        ("rni", lambda a: Fraction(round(a))),
        ("rzi", math.trunc),
        ("rmi", math.floor),
        ("rpi", math.ceil),
    ],
)
def test_cvt_to_integers(
    kind: str, target: str, mode: str, oracle: Callable[[Fraction], int]
) -> None:
    a = values(kind, 1)
    limits = np.iinfo(numpy_type(target))
    bits = 8 * numpy_type(target).itemsize
    expected = []
    for number in a.tolist():
        if math.isnan(number):
            highest = 1 << (bits - 1)
            expected.append(
                0
                if bits < 64 and kind != "f64"
                else -highest
                if target.startswith("s")
                else highest
            )
        elif math.isinf(number):
            expected.append(int(limits.max if number > 0 else limits.min))
        else:
            expected.append(
                max(int(limits.min), min(int(limits.max), int(oracle(Fraction(number)))))
            )
    result = run_alike(f"cvt.{mode}.{target}.{kind} %o, %a;", kind, a, to=target)
    assert_array_equal(result, np.array(expected, numpy_type(target)))


@pytest.mark.parametrize("kind", ["u8", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("target", ["f32", "f64"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_cvt_from_integers(kind: str, target: str, mode: str) -> None:
    limits = np.iinfo(numpy_type(kind))
    random = np.random.default_rng(5)
    wide = random.integers(limits.min, limits.max, 100, limits.dtype)
    shifts = random.integers(0, limits.bits, 100, limits.dtype)
    numbers = [limits.max, limits.min, 0, 1, *(wide >> shifts).tolist()]
    result = run_alike(f"cvt.{mode}.{target}.{kind} %o, %a;", kind, numbers, to=target)
    same(
        result,
        np.array(
            [nearest(Fraction(number), target, mode) for number in numbers], numpy_type(target)
        ),
    )


def test_cvt_between_floats() -> None:
    a, b = values("f32", 1), values("f64", 2)
    same(run_alike("cvt.f64.f32 %o, %a;", "f32", a, to="f64"), a.astype(np.float64))
    same(run_alike("cvt.rn.f32.f64 %o, %a;", "f64", b, to="f32"), b.astype(np.float32))
    same(run_alike("cvt.rn.f16.f32 %o, %a;", "f32", a, to="f16"), a.astype(np.float16))
    same(
        run_alike("cvt.f32.f16 %o, %a;", "f16", a.astype(np.float16), to="f32"),
        a.astype(np.float16).astype(np.float32),
    )
    finite = b[np.isfinite(b) & (np.abs(b) < 1e30)]
    for mode in ("rz", "rm", "rp"):
        expected = np.array(
            [nearest(Fraction(float(number)), "f32", mode) for number in finite], np.float32
        )
        result = run_alike(f"cvt.{mode}.f32.f64 %o, %a;", "f64", finite, to="f32")
        assert_array_equal(result, expected)
    for mode, oracle in {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}.items():
        same(run_alike(f"cvt.{mode}.f32.f32 %o, %a;", "f32", a), oracle(a))
    # Without a sign of zero: the sum of -0 and +0 is +0.
    clamped = np.where(np.isnan(a), np.float32(0), np.clip(a, np.float32(0), np.float32(1)))
    same(run_alike("cvt.sat.f32.f32 %o, %a;", "f32", a), clamped + np.float32(0))


def pairs_of(numbers: Array, dtype: Any) -> Array:
    """Return each number with its counterpart from the end, as one of twice as many bits."""
    return np.stack([numbers, numbers[::-1]], axis=1).view(dtype).reshape(-1)


def parts_of(pairs: Array, dtype: Any) -> Array:
    """Return the lower number of each pair, and the higher one."""
    return np.ascontiguousarray(pairs.view(dtype).reshape(-1, 2).T)


def test_bfloat16() -> None:
    a, b = values("f32", 1), values("f32", 2)
    x, y = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
    bits = x.view(np.uint16), y.view(np.uint16)
    same(run_alike("cvt.rn.bf16.f32 %o, %a;", "f32", a, to="u16").view(x.dtype), x)
    same(run_alike("cvt.f32.bf16 %o, %a;", "u16", bits[0], to="f32"), x.astype(np.float32))
    for name, oracle in {"add": np.add, "mul": np.multiply, "sub": np.subtract}.items():
        expected = oracle(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
        same(run_alike(f"{name}.bf16 %o, %a, %b;", "u16", *bits).view(x.dtype), expected)
    pairs = run_alike("cvt.rn.bf16x2.f32 %o, %a, %b;", "f32", a, b, to="u32")
    same(parts_of(pairs, x.dtype), [y, x])


@pytest.mark.volume_but
def test_bfloat16_is_rounded_in_a_direction() -> None:
    a = values("f32", 1)
    a = a[np.isfinite(a)]
    toward_zero = (a.view(np.uint32) >> 16).astype(np.uint16)
    away = toward_zero + (a.view(np.uint32) & 0xFFFF != 0).astype(np.uint16)
    for mode, is_away in {"rz": False, "rm": a < 0, "rp": a > 0}.items():
        result = run_alike(f"cvt.{mode}.bf16.f32 %o, %a;", "f32", a, to="u16")
        assert_array_equal(result, np.where(is_away, away, toward_zero), err_msg=mode)


def test_fused_multiply_and_add_of_halves() -> None:
    a, b, c = (values("f16", seed) for seed in (1, 2, 3))
    exact = (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float16)
    same(run_alike("fma.rn.f16 %o, %a, %b, %c;", "f16", a, b, c), exact)
    pairs = [pairs_of(each, np.uint32) for each in (a, b, c)]
    both = run_alike("fma.rn.f16x2 %o, %a, %b, %c;", "u32", *pairs)
    same(parts_of(both, np.float16), [exact, exact[::-1]])
    total = run_alike("add.rn.f16x2 %o, %a, %b;", "u32", *pairs[:2])
    same(parts_of(total, np.float16), [a + b, (a + b)[::-1]])


@pytest.mark.parametrize(
    ("kind", "dtype"), [("e4m3x2", ml_dtypes.float8_e4m3fn), ("e5m2x2", ml_dtypes.float8_e5m2)]
)
def test_fp8(kind: str, dtype: Any) -> None:
    a, b = values("f32", 1), values("f32", 2)
    largest = float(ml_dtypes.finfo(dtype).max)
    pairs = run_alike(f"cvt.rn.satfinite.{kind}.f32 %o, %a, %b;", "f32", a, b, to="u16")
    same(parts_of(pairs, dtype), np.clip([b, a], -largest, largest).astype(dtype))
    every = np.arange(256, dtype=np.uint8)
    halves = run_alike(f"cvt.rn.f16x2.{kind} %o, %a;", "u16", pairs_of(every, np.uint16), to="u32")
    expected = every.view(dtype).astype(np.float16)
    same(parts_of(halves, np.float16), [expected, expected[::-1]])


#: Types of 6 and 4 bits with PTX for the conversion of two float32, and of their pairs in %a.
NARROW = {
    "e2m3": (ml_dtypes.float6_e2m3fn, "{op} %o, %a, %b;", "{op} %o, %a;", "u16"),
    "e3m2": (ml_dtypes.float6_e3m2fn, "{op} %o, %a, %b;", "{op} %o, %a;", "u16"),
    "e2m1": (
        ml_dtypes.float4_e2m1fn,
        ".reg .b8 %s; {op} %s, %a, %b; mov.b16 %o, {{%s, 0}};",
        ".reg .b8 %s; cvt.u8.u16 %s, %a; {op} %o, %s;",
        "u16",
    ),
}


def codes_in(pairs: np.ndarray, kind: str) -> list[np.ndarray]:
    """Return the codes of the lower and of the higher of two numbers."""
    shift = 4 if kind == "e2m1" else 8
    return [pairs & ((1 << shift) - 1), pairs >> shift]


@pytest.mark.parametrize("kind", NARROW)
def test_types_of_six_and_four_bits(kind: str) -> None:
    dtype, narrowing, widening, of_pair = NARROW[kind]
    largest = float(ml_dtypes.finfo(dtype).max)
    a, b = values("f32", 1), values("f32", 2)
    a[:40] = np.linspace(-1.25 * largest, 1.25 * largest, 40)
    ties = np.arange(1, 1 << dtype_bits(dtype) - 1, dtype=np.uint8)
    points = np.concatenate([(ties - 1).view(dtype), ties.view(dtype)]).astype(np.float32)
    a[40 : 40 + len(ties)] = points.reshape(2, -1).mean(axis=0)
    for relu in ("", ".relu"):
        op = f"cvt.rn.satfinite{relu}.{kind}x2.f32"
        pairs = run_alike(narrowing.format(op=op), "f32", a, b, to=of_pair)
        for given, codes in zip((b, a), codes_in(pairs, kind), strict=True):
            bounded = np.clip(np.where(np.isnan(given), largest, given), -largest, largest)
            if relu:
                bounded = np.where(np.isnan(given), largest, np.maximum(bounded, 0) + np.float32(0))
            assert_array_equal(codes, bounded.astype(dtype).view(np.uint8), err_msg=op)

    every = np.arange(1 << dtype_bits(dtype), dtype=np.uint8)
    shift = 4 if kind == "e2m1" else 8
    together = every.astype(np.uint16) | every[::-1].astype(np.uint16) << shift
    halves = run_alike(widening.format(op=f"cvt.rn.f16x2.{kind}x2"), "u16", together, to="u32")
    expected = every.view(dtype).astype(np.float16)
    same(parts_of(halves, np.float16), [expected, expected[::-1]])


def dtype_bits(dtype: Any) -> int:
    """Return the bits of a type of ml_dtypes."""
    return int(ml_dtypes.finfo(dtype).bits)


def test_four_bits_of_pairs_of_halves() -> None:
    a = values("f16", 1)
    pairs = pairs_of(a, np.uint32)
    body = ".reg .b8 %s; cvt.rn.satfinite.e2m1x2.f16x2 %s, %a; mov.b16 %o, {%s, 0};"
    got = codes_in(run_alike(body, "u32", pairs, to="u16"), "e2m1")
    expected = np.clip(np.where(np.isnan(a), 6, a), -6, 6).astype(ml_dtypes.float4_e2m1fn)
    for codes, numbers in zip(got, (expected, expected[::-1]), strict=True):
        assert_array_equal(codes, numbers.view(np.uint8))


#: Bits of a float32, and its scales rounded down and up, without and with .satfinite.
SCALES = {
    0x00000000: (0, 0, 0, 0),
    0x003FFFFF: (0, 0, 0, 0),
    0x00400000: (0, 0, 0, 0),
    0x00400001: (0, 0, 1, 1),
    0x807FFFFF: (0, 0, 1, 1),
    0x00800000: (1, 1, 1, 1),
    0x3F800000: (127, 127, 127, 127),
    0xBF800001: (127, 127, 128, 128),
    0x40490FDB: (128, 128, 129, 129),
    0x7F000000: (254, 254, 254, 254),
    0x7F000001: (254, 254, 255, 254),
    0xFF7FFFFF: (254, 254, 255, 254),
    0x7F800000: (255, 254, 255, 254),
    0xFF800000: (255, 254, 255, 254),
    0x7FC00000: (255, 255, 255, 255),
}


def test_scales_of_eight_bits() -> None:
    """NVIDIA's cuda_fp8.hpp has these for the host."""
    a = np.array(list(SCALES), np.uint32).view(np.float32)
    expected = np.array(list(SCALES.values()))
    halves = a.view(np.uint32) >> 16
    for column, mode in enumerate(("rz", "rz.satfinite", "rp", "rp.satfinite")):
        op = f"cvt.{mode}.ue8m0x2"
        pairs = run_alike(f"{op}.f32 %o, %a, %b;", "f32", a, a[::-1], to="u16")
        assert_array_equal(pairs >> 8, expected[:, column], err_msg=op)
        assert_array_equal(pairs & 255, expected[::-1, column], err_msg=op)
        packed = halves | halves[::-1] << 16
        exact = np.flatnonzero(a.view(np.uint32) & 0xFFFF == 0)
        pairs = run_alike(f"{op}.bf16x2 %o, %a;", "u32", packed, to="u16")
        assert_array_equal((pairs & 255)[exact], expected[exact, column], err_msg=op)
    every = np.arange(256, dtype=np.uint16)
    wide = run_alike("cvt.rn.bf16x2.ue8m0x2 %o, %a;", "u16", every | every[::-1] << 8, to="u32")
    powers = np.exp2(np.arange(256) - 127.0).astype(np.float32)
    powers[255] = np.nan
    same(
        parts_of(wide, ml_dtypes.bfloat16),
        [powers.astype(ml_dtypes.bfloat16)[::1], powers.astype(ml_dtypes.bfloat16)[::-1]],
    )


def test_literals_have_their_bits() -> None:
    assert run_snippet("mov.f32 %o, 0f3FC00000;", [], "f32")[0] == 1.5
    assert run_snippet("mov.f64 %o, 0dBFF8000000000000;", [], "f64")[0] == -1.5
    assert run_snippet("mov.b32 %o, 0f7FFFFFFF;", [], "u32")[0] == 0x7FFFFFFF
    assert run_snippet("add.f32 %o, 0f3FC00000, 1.25;", [], "f32")[0] == 2.75
    assert run_snippet("mov.u32 %o, 0b101;", [], "u32")[0] == 5
    assert run_snippet("mov.u32 %o, 017;", [], "u32")[0] == 15
    assert run_snippet("mov.u64 %o, 0xFFFFFFFFFFFFFFFFU;", [], "u64")[0] == 2**64 - 1
    assert (
        run_snippet("mov.b16 %o, 0x3C00;", [], "u16")[0]
        == struct.unpack("<H", np.float16(1).tobytes())[0]
    )


def test_pairs_of_float32() -> None:
    a, b, c = (values("f32", seed) for seed in (1, 2, 3))
    pairs = [pairs_of(each, np.uint64) for each in (a, b, c)]
    for text, expected in (
        ("add.rn.f32x2 %o, %a, %b;", a + b),
        ("mul.rn.f32x2 %o, %a, %b;", a * b),
        ("fma.rn.f32x2 %o, %a, %b, %c;", (a.astype(np.float64) * b + c).astype(np.float32)),
    ):
        both = run_alike(text, "u64", *pairs)
        same(parts_of(both, np.float32), [expected, expected[::-1]])
