"""OpenCL C's functions keep OpenCL's bounds of error, on the simulated GPU and in machine code of
gfx1100.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import opencl_functions as functions
import pytest
from opencl_functions import BLOCK, DTYPES, Array

import devmod
from devmod_simulators.ptx import run_ptx

pytestmark = [pytest.mark.row("R58"), pytest.mark.once]
TYPES = ("float", "double", "half")
#: The errors of docs/opencl.md.
ERRORS = Path(__file__).parents[3] / "tools" / "opencl_accuracy.json"
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
    (x,) = functions.whole_blocks(functions.draws(type_, count, 1))
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
    (x,) = functions.whole_blocks(functions.draws(type_, count, 2))
    results = np.zeros_like(x)
    run_on_gpu(EXACT_SOURCE[type_], f"k_{name}", [x, results])
    with np.errstate(all="ignore"):
        expected = functions.EXACT[name](x)
    assert functions.differences([x], results, expected) == []


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
    x, y = functions.pairs(type_, count, 3)
    if name == "powr":  # as pow, for x > 0
        chosen = (x > 0) & np.isfinite(x) & np.isfinite(y)
        x, y = x[chosen], y[chosen]
    x, y = functions.whole_blocks(x, y)
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
    x, y = functions.whole_blocks(*functions.pairs(type_, count, 4))
    results = np.zeros_like(x)
    run_on_gpu(BINARY_SOURCE[type_], f"k_{name}", [x, y, results])
    with np.errstate(all="ignore"):
        expected = functions.EXACT_BINARY[name](x, y)
        if name in functions.OPEN_ZERO:
            results, expected = results + 0, expected + 0
    assert functions.differences([x, y], results, expected) == []


INTEGER_SOURCE = {
    type_: kernels(
        [*functions.WITH_INTEGER, "ldexp"],
        f"global const {type_} *x, global const int *n, global {type_} *y",
        lambda name: f"y[i] = {name}(x[i], n[i]);",
    )
    for type_ in TYPES
}


@pytest.mark.parametrize("count", [FEW, VOLUME])
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", functions.WITH_INTEGER)
def test_functions_of_a_number_and_an_integer(name: str, type_: str, count: int) -> None:
    x, n = functions.with_integers(type_, count)
    results = np.zeros_like(x)
    run_on_gpu(INTEGER_SOURCE[type_], f"k_{name}", [x, n, results])
    reference = {"pown": functions.special_power, "rootn": functions.special_root}[name]
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
    x, n = functions.with_integers(type_, FEW)
    results = np.zeros_like(x)
    run_on_gpu(INTEGER_SOURCE[type_], "k_ldexp", [x, n, results])
    limited = np.clip(n, -5000, 5000).astype(np.int32)
    with np.errstate(all="ignore"):
        expected = np.ldexp(x.astype(np.longdouble), limited).astype(x.dtype)
    assert functions.differences([x, n], results, expected) == []


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
    assert functions.differences([x, y, w], fused, np.array(expected)) == []
    results = np.zeros_like(x)
    run_on_gpu(source, "k_mad", [x, y, w, results])
    assert ((results == fused) | (results == x * y + w)).all()

    x, y = functions.pairs(type_, FEW, 7)
    x, y, w = functions.whole_blocks(x, y, np.roll(x, 11))
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
    (x,) = functions.whole_blocks(functions.draws(type_, FEW, 8))
    first, second = {}, {}
    for name in parts:
        first[name], second[name] = np.zeros_like(x), np.zeros_like(x)
        run_on_gpu(source, f"k_{name}", [x, first[name], second[name]])

    with np.errstate(all="ignore"):
        part, whole = np.modf(x)
        assert functions.differences([x], first["modf"], part) == []
        assert functions.differences([x], second["modf"], whole) == []
        floor = np.floor(x)
        below_one = np.nextafter(x.dtype.type(1), x.dtype.type(0))
        rest = np.minimum((x.astype(np.longdouble) - floor).astype(x.dtype), below_one)
        rest = np.where(np.isinf(x) | (x == 0), np.copysign(x.dtype.type(0), x), rest)
        assert functions.differences([x], first["fract"], rest) == []
        assert functions.differences([x], second["fract"], floor) == []
        mantissa, exponent = np.frexp(x)
        assert functions.differences([x], first["frexp"], mantissa) == []
        finite = np.isfinite(x)
        assert (
            functions.differences([x[finite]], second["frexp"][finite] + 0, exponent[finite] + 0.0)
            == []
        )
        finite &= x != 0
        assert (
            functions.differences([x[finite]], second["ilogb"][finite] + 0, exponent[finite] - 1.0)
            == []
        )

    for name, results in (("sin", first["sincos"]), ("cos", second["sincos"])):
        assert functions.wrong_results(functions.UNARY[name], type_, [x], results) == []
    lgamma = functions.UNARY["lgamma"]
    assert functions.wrong_results(lgamma, type_, [x], first["lgamma_r"]) == []
    with np.errstate(invalid="ignore"):
        known = np.isfinite(x) & ((x > 0) | (x != np.floor(x)))
    known_x = x[known]
    signs = np.where((known_x > 0) | (np.floor(known_x) % 2 == 0), 1.0, -1.0)
    assert functions.differences([x[known]], second["lgamma_r"][known], signs) == []

    y = x[np.arange(len(x)) ^ 1]
    finite = np.isfinite(x) & np.isfinite(y) & (y != 0)
    expected = [
        _quotient(a, b) for a, b in zip(x[finite].tolist(), y[finite].tolist(), strict=True)
    ]
    rests, quotients = np.array(expected).T
    assert functions.differences([x[finite], y[finite]], first["remquo"][finite], rests) == []
    assert (
        functions.differences([x[finite], y[finite]], second["remquo"][finite] + 0, quotients + 0)
        == []
    )
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
            x[::5] = functions.edges(type_)[: len(x[::5])]
            results, expected = np.zeros_like(x[:-width]), np.zeros_like(x[:-width])
            with np.errstate(all="ignore"):
                run_ptx(_ptx(source), f"v{width}", 1, 16, [x, results])
                run_ptx(_ptx(source), "s", 1, 16 * width, [x, expected, np.int32(width)])
            assert functions.same(results, expected).all(), call


@pytest.mark.parametrize("count", [8 * BLOCK, pytest.param(800 * BLOCK, marks=pytest.mark.volume)])
def test_fast_functions(count: int) -> None:
    assert functions.wrong_fast(run_on_gpu, count) == []


@pytest.mark.parametrize("count", [2 * BLOCK, pytest.param(200 * BLOCK, marks=pytest.mark.volume)])
@pytest.mark.parametrize(
    ("type_", "name"), [(type_, name) for type_ in TYPES for name in functions.geometrics(type_)]
)
def test_geometric_functions(type_: str, name: str, count: int) -> None:
    assert functions.wrong_geometric(run_on_gpu, type_, name, count) == []


@pytest.mark.parametrize(("steps", "is_wrong"), [(0, False), (3, False), (7, True)])
def test_a_length_beyond_its_bound_is_noticed(steps: int, is_wrong: bool) -> None:
    def run(_source: str, kernel: str, arguments: Sequence[Array]) -> None:
        numbers, x, *_ = arguments
        width = int(kernel[-1])
        lengths = np.linalg.norm(x.reshape(-1, width).astype(np.longdouble), axis=1)
        numbers[:] = lengths.astype(np.float32)
        numbers.view(np.int32)[:] += steps

    assert bool(functions.wrong_geometric(run, "float", "length", BLOCK)) == is_wrong


def test_the_errors_of_the_page_are_within_the_bounds() -> None:
    table = json.loads(ERRORS.read_text())
    all_functions = functions.UNARY | {name: each for name, (each, _) in functions.BINARY.items()}
    all_functions |= functions.WITH_INTEGER | {"powr": all_functions["pow"]}
    assert table.keys() == all_functions.keys()
    for name, function in all_functions.items():
        assert [*table[name]] == [*TYPES], name
        for type_, (bound, *errors) in table[name].items():
            assert bound == function.bounds[type_ == "half"], (name, type_)
            assert len(errors) == 2
            assert max(errors) <= bound, (name, type_)
