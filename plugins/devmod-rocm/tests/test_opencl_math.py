"""OpenCL C's functions keep OpenCL's bounds of error in machine code of gfx1100, which an emulator
executes.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
import opencl_functions as functions
import pytest

import devmod

pytestmark = [pytest.mark.row("R58"), pytest.mark.usefixtures("emulator")]
DRAWS = 128
#: Draws of `make test-all`: an emulator executes the machine code.
MANY = 100_000
VOLUME = pytest.param(MANY, marks=pytest.mark.volume)


def draws(type_: str, count: int) -> functions.Array:
    """Return the edges of a type and draws, or all numbers of half."""
    if type_ == "half" and count == MANY:
        return np.arange(2**16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        (numbers,) = functions.whole_blocks(functions.draws(type_, count, 3))
    return numbers


def run(device: Any, source: str, kernel: str, arguments: Sequence[functions.Array]) -> None:
    """Run a kernel for each element of the first argument."""
    module = _module(source)
    module[kernel].on(device)(*arguments, grid=len(arguments[0]) // 32, block=32)


@cache
def _module(source: str) -> devmod.Module:
    return devmod.compile(source, "rocm -arch=gfx1100", language="OpenCL C")


def kernel_of(parameters: str, call: str) -> str:
    return f"kernel void k({parameters}) {{ size_t i = get_global_id(0); z[i] = {call}; }}"


@pytest.mark.parametrize("count", [DRAWS, VOLUME])
@pytest.mark.parametrize("type_", ["float", "double", "half"])
@pytest.mark.parametrize("name", functions.UNARY)
def test_functions_of_one_number(name: str, type_: str, count: int, device: Any) -> None:
    source = kernel_of(f"global const {type_} *x, global {type_} *z", f"{name}(x[i])")
    x = draws(type_, count)
    results = np.zeros_like(x)
    run(device, source, "k", [x, results])
    assert functions.wrong_results(functions.UNARY[name], type_, [x], results) == []


@pytest.mark.parametrize("count", [DRAWS, VOLUME])
@pytest.mark.parametrize("type_", ["float", "double", "half"])
@pytest.mark.parametrize("name", functions.BINARY)
def test_functions_of_two_numbers(name: str, type_: str, count: int, device: Any) -> None:
    parameter = f"global const {type_} "
    call = f"{name}(x[i], y[i])"
    if name == "divide":
        call = "x[i] / y[i]"
    source = kernel_of(f"{parameter}*x, {parameter}*y, global {type_} *z", call)
    x = draws(type_, count)
    y = np.random.default_rng(4).permutation(x)
    with np.errstate(all="ignore"):
        function, reference = functions.BINARY[name]
        special = reference(x.astype(np.longdouble), y.astype(np.longdouble)).astype(x.dtype)
    results = np.zeros_like(x)
    run(device, source, "k", [x, y, results])
    assert functions.wrong_results(function, type_, [x, y], results, special) == []


@pytest.mark.parametrize("count", [DRAWS, VOLUME])
@pytest.mark.parametrize("type_", ["float", "double", "half"])
@pytest.mark.parametrize("name", functions.WITH_INTEGER)
def test_functions_of_a_number_and_an_integer(
    name: str, type_: str, count: int, device: Any
) -> None:
    parameters = f"global const {type_} *x, global const int *n, global {type_} *z"
    source = kernel_of(parameters, f"{name}(x[i], n[i])")
    x = draws(type_, count)
    with np.errstate(all="ignore"):
        n = np.random.default_rng(5).choice([1, -1, 2, -2, 3, -3, 7, -38], len(x)).astype(np.int32)
        reference = {"pown": functions.special_power, "rootn": functions.special_root}[name]
        special = reference(x, n).astype(x.dtype)
    results = np.zeros_like(x)
    run(device, source, "k", [x, n, results])
    function = functions.WITH_INTEGER[name]
    assert functions.wrong_results(function, type_, [x, n], results, special) == []


@pytest.mark.parametrize("type_", ["float", "double", "half"])
def test_fma(type_: str, device: Any) -> None:
    parameter = f"global const {type_} "
    parameters = f"{parameter}*x, {parameter}*y, {parameter}*w, global {type_} *z"
    source = kernel_of(parameters, "fma(x[i], y[i], w[i])")
    numbers = np.random.default_rng(7).uniform(-10, 10, (3, DRAWS))
    x, y, w = numbers.astype(functions.DTYPES[type_])
    results = np.zeros_like(x)
    run(device, source, "k", [x, y, w, results])
    expected = [
        functions.rounded(type_, Fraction(a) * Fraction(b) + Fraction(c))
        for a, b, c in zip(x.tolist(), y.tolist(), w.tolist(), strict=True)
    ]
    assert functions.differences([x, y, w], results, np.array(expected)) == []


@pytest.mark.parametrize("count", [DRAWS, VOLUME])
def test_fast_functions(count: int, device: Any) -> None:
    assert functions.wrong_fast(partial(run, device), count // 32 * 32) == []


@pytest.mark.parametrize("count", [DRAWS, VOLUME])
@pytest.mark.parametrize(
    ("type_", "name"),
    [
        (type_, name)
        for type_ in ("float", "double", "half")
        for name in functions.geometrics(type_)
    ],
)
def test_geometric_functions(type_: str, name: str, count: int, device: Any) -> None:
    without: tuple[int, ...] = ()
    if type_ == "half" and name in ("cross", "normalize"):
        without = (3,)  # the emulator aligns the address of a store
    wrong = functions.wrong_geometric(
        partial(run, device), type_, name, count // 32 * 32, without=without
    )
    assert wrong == []
