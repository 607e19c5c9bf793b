"""OpenCL C's functions keep OpenCL's bounds of error, on the simulated GPU and in machine code of
gfx1100.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import opencl_functions as functions
import pytest
from opencl_functions import DTYPES, Array

import devmod
from devmod_simulators.ptx import run_ptx

pytestmark = [pytest.mark.row("R58"), pytest.mark.once]
TYPES = ("float", "double", "half")
BLOCK = 128
#: Draws of `make test`, and of `make test-all`.
FEW = 1_000
MANY = 100_000
VOLUME = pytest.param(MANY, marks=pytest.mark.volume)


@cache
def _ptx(source: str) -> str:
    module = devmod.compile(source, "cuda -arch=compute_80", language="OpenCL C")
    return str(module.inspect_source("ptx"))


def run_on_gpu(source: str, kernel: str, arguments: Sequence[Array]) -> None:
    """Run a kernel for each element of the first argument."""
    count = len(arguments[0])
    assert count % BLOCK == 0
    with np.errstate(all="ignore"):
        run_ptx(_ptx(source), kernel, count // BLOCK, BLOCK, [*arguments])


def kernels(names: Sequence[str], parameters: str, body: Callable[[str], str]) -> str:
    """Return a source with the kernel k_NAME for each name."""
    return "".join(
        f"kernel void k_{name}({parameters}) {{ size_t i = get_global_id(0); {body(name)} }}\n"
        for name in names
    )


def whole_blocks(*arrays: Array) -> list[Array]:
    """Return the arrays without the elements after the last whole block."""
    count = len(arrays[0]) // BLOCK * BLOCK
    return [each[:count].copy() for each in arrays]


def edges(type_: str) -> Array:
    limits = np.finfo(DTYPES[type_])
    tiny = limits.smallest_subnormal
    values = [
        *(0.0, -0.0, math.inf, -math.inf, math.nan, limits.max, -limits.max),
        *(limits.tiny, -limits.tiny, tiny, -tiny, limits.tiny - tiny, limits.eps),
        *(1 + limits.eps, 1 - limits.epsneg, -1 - limits.eps, 0.25, 0.75, math.pi, math.e),
        # Where exponentials overflow and underflow, and near the zeros of lgamma.
        *(88.7, -87.4, -103.9, 709.7, -745.1, 11.09, -17.3, 34.9, 127, 128, -149, -150, 1023),
        *(1024, -1074, -1075, 171.6, 170, 35.1, -2.4570247382208006, -2.7476826467274127, 1e-20),
        *(number / 2 for number in range(-60, 61)),
    ]
    with np.errstate(over="ignore", under="ignore"):
        return np.array(values, DTYPES[type_])


def draws(type_: str, count: int, seed: int) -> Array:
    """Return the edges, numbers of all exponents, and numbers of usual size, in any order."""
    random = np.random.default_rng(seed)
    dtype = np.dtype(DTYPES[type_])
    bits = random.integers(0, 256, count // 2 * dtype.itemsize, dtype=np.uint8).view(dtype)
    usual = [
        random.uniform(-10, 10, count // 4),
        random.uniform(-1.2, 1.2, count // 8),
        random.uniform(-100, 1000, count // 8),
    ]
    numbers = np.concatenate([edges(type_), bits, *(each.astype(dtype) for each in usual)])
    random.shuffle(numbers)
    return numbers


def pairs(type_: str, count: int, seed: int) -> tuple[Array, Array]:
    """Return pairs of draws, and all pairs of some edges."""
    grid = np.meshgrid(edges(type_)[:40], edges(type_)[:40])
    left = np.concatenate([draws(type_, count, seed), grid[0].ravel()])
    right = np.concatenate([draws(type_, count, seed + 1), grid[1].ravel()])
    return left, right


UNARY_SOURCE = {
    type_: kernels(
        [*functions.UNARY],
        f"global const {type_} *x, global {type_} *y",
        lambda name: f"y[i] = {name}(x[i]);",
    )
    for type_ in TYPES
}


@pytest.mark.parametrize("count", [FEW, VOLUME])
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", functions.UNARY)
def test_functions_of_one_number(name: str, type_: str, count: int) -> None:
    function = functions.UNARY[name]
    (x,) = whole_blocks(draws(type_, count, 1))
    results = np.zeros_like(x)
    run_on_gpu(UNARY_SOURCE[type_], f"k_{name}", [x, results])
    wrong = functions.wrong_results(function, type_, [x], results)
    assert wrong == []


EXACT_SOURCE = {
    type_: kernels(
        [*functions.EXACT],
        f"global const {type_} *x, global {type_} *y",
        lambda name: f"y[i] = {name}(x[i]);",
    )
    for type_ in TYPES
}


@pytest.mark.parametrize("count", [FEW, VOLUME])
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", functions.EXACT)
def test_exact_functions_of_one_number(name: str, type_: str, count: int) -> None:
    (x,) = whole_blocks(draws(type_, count, 2))
    results = np.zeros_like(x)
    run_on_gpu(EXACT_SOURCE[type_], f"k_{name}", [x, results])
    with np.errstate(all="ignore"):
        expected = functions.EXACT[name](x)
    assert differences([x], results, expected) == []


def differences(arguments: Sequence[Array], results: Array, expected: Array) -> list[Any]:
    """Return the arguments with other results than the expected ones, five at most."""
    wrong = np.flatnonzero(~functions.same(results, expected.astype(results.dtype)))
    return [
        (*(each[index] for each in arguments), results[index], expected[index])
        for index in wrong[:5]
    ]


BINARY_SOURCE = {
    type_: kernels(
        [*functions.BINARY, *functions.EXACT_BINARY, "powr"],
        f"global const {type_} *x, global const {type_} *y, global {type_} *z",
        lambda name: "z[i] = x[i] / y[i];" if name == "divide" else f"z[i] = {name}(x[i], y[i]);",
    )
    for type_ in TYPES
}


@pytest.mark.parametrize("count", [FEW, VOLUME])
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", [*functions.BINARY, "powr"])
def test_functions_of_two_numbers(name: str, type_: str, count: int) -> None:
    x, y = pairs(type_, count, 3)
    if name == "powr":  # as pow, for x > 0
        chosen = (x > 0) & np.isfinite(x) & np.isfinite(y)
        x, y = x[chosen], y[chosen]
    x, y = whole_blocks(x, y)
    results = np.zeros_like(x)
    run_on_gpu(BINARY_SOURCE[type_], f"k_{name}", [x, y, results])
    function, reference = functions.BINARY["pow" if name == "powr" else name]
    with np.errstate(all="ignore"):
        special = reference(x.astype(np.longdouble), y.astype(np.longdouble)).astype(x.dtype)
    assert functions.wrong_results(function, type_, [x, y], results, special) == []


@pytest.mark.parametrize("count", [FEW, VOLUME])
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", functions.EXACT_BINARY)
def test_exact_functions_of_two_numbers(name: str, type_: str, count: int) -> None:
    x, y = whole_blocks(*pairs(type_, count, 4))
    results = np.zeros_like(x)
    run_on_gpu(BINARY_SOURCE[type_], f"k_{name}", [x, y, results])
    with np.errstate(all="ignore"):
        expected = functions.EXACT_BINARY[name](x, y)
        if name in functions.OPEN_ZERO:
            results, expected = results + 0, expected + 0
    assert differences([x, y], results, expected) == []


INTEGER_SOURCE = {
    type_: kernels(
        [*functions.WITH_INTEGER, "ldexp"],
        f"global const {type_} *x, global const int *n, global {type_} *y",
        lambda name: f"y[i] = {name}(x[i], n[i]);",
    )
    for type_ in TYPES
}
SOME_INTEGERS = (
    *(0, 1, -1, 2, -2, 3, -3, 5, 23, 24, 126, 127, 128, -126, -148, -149, -150, 300, -300),
    *(1022, 1023, -1022, -1074, 2098, -2098, 5000, -5000, 2**31 - 1, -(2**31)),
)


def with_integers(type_: str, count: int) -> list[Array]:
    random = np.random.default_rng(5)
    x = draws(type_, count, 6)
    n = random.integers(-40, 40, len(x))
    n[::7] = random.integers(-(2**31), 2**31, len(n[::7]))
    grid = np.meshgrid(edges(type_), SOME_INTEGERS)
    x = np.concatenate([x, grid[0].ravel()])
    n = np.concatenate([n, grid[1].ravel()]).astype(np.int32)
    return whole_blocks(x, n)


def _special_power(x: Array, n: Array) -> Array:
    return np.power(x.astype(np.longdouble), n)


def _special_root(x: Array, n: Array) -> Array:
    is_odd = n % 2 != 0
    result = np.where(x == 0, 0.0, np.inf)
    result = np.where(n < 0, np.where(x == 0, np.inf, 0.0), result)
    result = np.where(is_odd, np.copysign(result, x), result)
    no_root = (n == 0) | np.isnan(x) | (~is_odd & (x == -np.inf))
    return np.where(no_root, np.nan, result)


@pytest.mark.parametrize("count", [FEW, VOLUME])
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", functions.WITH_INTEGER)
def test_functions_of_a_number_and_an_integer(name: str, type_: str, count: int) -> None:
    x, n = with_integers(type_, count)
    results = np.zeros_like(x)
    run_on_gpu(INTEGER_SOURCE[type_], f"k_{name}", [x, n, results])
    reference = {"pown": _special_power, "rootn": _special_root}[name]
    with np.errstate(all="ignore"):
        special = reference(x, n).astype(x.dtype)
    wanted = (x == 0) | ~np.isfinite(x) | (n != 0)
    if name == "pown":  # the power 0 is 1
        assert (results[n == 0] == 1).all()
    chosen = [x[wanted], n[wanted]]
    function = functions.WITH_INTEGER[name]
    assert functions.wrong_results(function, type_, chosen, results[wanted], special[wanted]) == []


@pytest.mark.parametrize("type_", TYPES)
def test_ldexp(type_: str) -> None:
    x, n = with_integers(type_, FEW)
    results = np.zeros_like(x)
    run_on_gpu(INTEGER_SOURCE[type_], "k_ldexp", [x, n, results])
    limited = np.clip(n, -5000, 5000).astype(np.int32)
    with np.errstate(all="ignore"):
        expected = np.ldexp(x.astype(np.longdouble), limited).astype(x.dtype)
    assert differences([x, n], results, expected) == []


@pytest.mark.parametrize("type_", TYPES)
def test_functions_of_three_numbers(type_: str) -> None:
    body = {
        "fma": "z[i] = fma(x[i], y[i], w[i]);",
        "mad": "z[i] = mad(x[i], y[i], w[i]);",
        "clamp": "z[i] = clamp(x[i], fmin(y[i], w[i]), fmax(y[i], w[i]));",
    }
    parameter = f"global const {type_} "
    parameters = f"{parameter}*x, {parameter}*y, {parameter}*w, global {type_} *z"
    source = kernels([*body], parameters, lambda name: body[name])
    # Of usual size: the simulated GPU rounds the fused product of other numbers twice.
    random = np.random.default_rng(7)
    x, y, w = random.uniform(-10, 10, (3, 16 * BLOCK)).astype(DTYPES[type_])
    fused = np.zeros_like(x)
    run_on_gpu(source, "k_fma", [x, y, w, fused])
    rows = zip(x.tolist(), y.tolist(), w.tolist(), strict=True)
    expected = [
        functions.rounded(type_, Fraction(a) * Fraction(b) + Fraction(c)) for a, b, c in rows
    ]
    assert differences([x, y, w], fused, np.array(expected)) == []
    results = np.zeros_like(x)
    run_on_gpu(source, "k_mad", [x, y, w, results])
    assert ((results == fused) | (results == x * y + w)).all()

    x, y = pairs(type_, FEW, 7)
    x, y, w = whole_blocks(x, y, np.roll(x, 11))
    results = np.zeros_like(x)
    run_on_gpu(source, "k_clamp", [x, y, w, results])
    known = ~(np.isnan(x) | np.isnan(y) | np.isnan(w))
    limited = np.fmin(np.fmax(x, np.fmin(y, w)), np.fmax(y, w))
    assert (results[known] == limited[known]).all()


def _quotient(x: float, y: float) -> tuple[float, int]:
    """Return the remainder of finite numbers, and the lower 7 bits of the quotient with its
    sign.
    """
    rest = math.remainder(x, y)
    quotient = round((Fraction(x) - Fraction(rest)) / Fraction(y))
    low = abs(quotient) % 128
    return rest, low if quotient > 0 else -low


@pytest.mark.parametrize("type_", TYPES)
def test_functions_with_a_second_result(type_: str) -> None:
    parts = {
        "modf": f"{type_} p; y[i] = modf(x[i], &p); z[i] = p;",
        "fract": f"{type_} p; y[i] = fract(x[i], &p); z[i] = p;",
        "sincos": f"{type_} p; y[i] = sincos(x[i], &p); z[i] = p;",
        "frexp": "int n; y[i] = frexp(x[i], &n); z[i] = n;",
        "lgamma_r": "int n; y[i] = lgamma_r(x[i], &n); z[i] = n;",
        "remquo": "int n; y[i] = remquo(x[i], x[i ^ 1], &n); z[i] = n;",
        "ilogb": "z[i] = ilogb(x[i]);",
    }
    parameters = f"global const {type_} *x, global {type_} *y, global {type_} *z"
    source = kernels([*parts], parameters, lambda name: parts[name])
    (x,) = whole_blocks(draws(type_, FEW, 8))
    first, second = {}, {}
    for name in parts:
        first[name], second[name] = np.zeros_like(x), np.zeros_like(x)
        run_on_gpu(source, f"k_{name}", [x, first[name], second[name]])

    with np.errstate(all="ignore"):
        part, whole = np.modf(x)
        assert differences([x], first["modf"], part) == []
        assert differences([x], second["modf"], whole) == []
        floor = np.floor(x)
        below_one = np.nextafter(x.dtype.type(1), x.dtype.type(0))
        rest = np.minimum((x.astype(np.longdouble) - floor).astype(x.dtype), below_one)
        rest = np.where(np.isinf(x) | (x == 0), np.copysign(x.dtype.type(0), x), rest)
        assert differences([x], first["fract"], rest) == []
        assert differences([x], second["fract"], floor) == []
        mantissa, exponent = np.frexp(x)
        assert differences([x], first["frexp"], mantissa) == []
        finite = np.isfinite(x)
        assert differences([x[finite]], second["frexp"][finite] + 0, exponent[finite] + 0.0) == []
        finite &= x != 0
        assert differences([x[finite]], second["ilogb"][finite] + 0, exponent[finite] - 1.0) == []

    for name, results in (("sin", first["sincos"]), ("cos", second["sincos"])):
        assert functions.wrong_results(functions.UNARY[name], type_, [x], results) == []
    lgamma = functions.UNARY["lgamma"]
    assert functions.wrong_results(lgamma, type_, [x], first["lgamma_r"]) == []
    with np.errstate(invalid="ignore"):
        known = np.isfinite(x) & ((x > 0) | (x != np.floor(x)))
    known_x = x[known]
    signs = np.where((known_x > 0) | (np.floor(known_x) % 2 == 0), 1.0, -1.0)
    assert differences([x[known]], second["lgamma_r"][known], signs) == []

    y = x[np.arange(len(x)) ^ 1]
    finite = np.isfinite(x) & np.isfinite(y) & (y != 0)
    expected = [
        _quotient(a, b) for a, b in zip(x[finite].tolist(), y[finite].tolist(), strict=True)
    ]
    rests, quotients = np.array(expected).T
    assert differences([x[finite], y[finite]], first["remquo"][finite], rests) == []
    assert differences([x[finite], y[finite]], second["remquo"][finite] + 0, quotients + 0) == []
    assert np.isnan(first["remquo"][~(np.isfinite(x) & (y != 0)) | np.isnan(y)]).all()


#: A call for each function that tools/libclc_corrections.cl defines.
CORRECTED = {
    "float": (
        *("tgamma(a)", "lgamma(a)", "fmod(a, b)", "remainder(a, b)", "remquo(a, b, &n)"),
        *("fract(a, &p)", "lgamma_r(a, &n)", "ldexp(a, convert_intN(b))"),
    ),
    "double": (
        *("sin(a)", "asin(a)", "sinh(a)", "pow(a, b)", "fmod(a, b)", "remquo(a, b, &n)"),
        *("fract(a, &p)", "sincos(a, &p)", "ldexp(a, convert_intN(b))"),
    ),
}


@pytest.mark.parametrize("type_", CORRECTED)
def test_vectors_have_the_results_of_their_numbers(type_: str) -> None:
    for call in CORRECTED[type_]:
        source = (
            f"kernel void s(global {type_} *x, global {type_} *y, int width)"
            f" {{ size_t i = get_global_id(0); {type_} a = x[i], b = x[i + width], p = 0;"
            f" int n = 0; {type_} r = {call.replace('N', '')}; y[i] = r + p + n; }}\n"
        )
        for width in (3, 16):
            vector = f"{type_}{width} a = vload{width}(i, x), b = vload{width}(i + 1, x), p = 0;"
            body = f"r += p + convert_{type_}{width}(n); vstore{width}(r, i, y);"
            line = f"int{width} n = 0; {type_}{width} r = {call.replace('N', str(width))}; {body}"
            source += (
                f"kernel void v{width}(global {type_} *x, global {type_} *y)"
                f" {{ size_t i = get_global_id(0); {vector} {line} }}\n"
            )
        for width in (3, 16):
            x = np.random.default_rng(9).uniform(-9, 9, 17 * width).astype(DTYPES[type_])
            x[::5] = edges(type_)[: len(x[::5])]
            results, expected = np.zeros_like(x[:-width]), np.zeros_like(x[:-width])
            with np.errstate(all="ignore"):
                run_ptx(_ptx(source), f"v{width}", 1, 16, [x, results])
                run_ptx(_ptx(source), "s", 1, 16 * width, [x, expected, np.int32(width)])
            assert functions.same(results, expected).all(), call
