"""Calls of kernels that several backends ship, with their NumPy references, and the descriptions of these kernels."""

from __future__ import annotations

from typing import Any

from devmod import FunctionInfo, Interface, Param
from devmod_conformance._case import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_FACTOR, _SUMMAND = 1664525, 1013904223


def linear_functions(tags: Sequence[str]) -> dict[str, FunctionInfo]:
    """Return the functions ``axpy`` and ``count`` of `axpy_call` and `count_call`, with an interface. `tags` are the launch tags."""
    n = Param("n", "scalar", "int32")
    x, y = Param("x", "buffer", "float32", "r"), Param("y", "buffer", "float32", "rw")
    values, counts = Param("values", "buffer", "int32", "r"), Param("counts", "buffer", "uint32", "rw")
    axpy, count = Interface([x, y, Param("a", "scalar", "float32"), n]), Interface([values, counts, n])
    return {
        "axpy": FunctionInfo("axpy", ["handle", "handle", "float32", "int32"], tags, (), axpy),
        "count": FunctionInfo("count", ["handle", "handle", "int32"], tags, (), count),
    }


def axpy_call() -> Call:
    """``axpy(x: float32*, y: float32*, a: float32, n: int32)``: y += a · x over the first n elements. n is not a multiple of the block."""
    return Call("axpy", lambda rng: [rng.random(100, "float32"), rng.random(100, "float32"), 2.5, 90], _axpy, grid=4, block=32)


def count_call() -> Call:
    """``count(values: int32*, counts: uint32*, n: int32)``: add the number of values with each remainder modulo 8, with atomics."""
    return Call("count", lambda rng: [rng.integers(0, 99, 64, "int32"), rng.integers(0, 9, 8, "uint32"), 64], _count, grid=8, block=8)


def transpose_call(name: str = "transpose") -> Call:
    """``transpose(source: float32*, target: float32*, width: int32, height: int32)``: in tiles of 4 × 4."""
    return Call(
        name,
        lambda rng: [rng.random((9, 14), "float32"), rng.random((14, 9), "float32"), 14, 9],
        _transpose,
        grid=(4, 3),
        block=(4, 4),
    )


def spin_call(elements: int = 1024, rounds: int = 40_000, **keywords: int) -> Call:
    """``spin(x: uint32*, n: int32)``: x = x · 1664525 + 1013904223, n times, for `Conformance.slow`. `keywords` have the grid and block."""
    return Call("spin", lambda rng: [rng.integers(0, 99, elements, "uint32"), rounds], _spin, **keywords)


def _spin(x: Any, n: int) -> None:
    factor, summand = 1, 0
    for bit in f"{n:b}":  # twice as many rounds, and one more for a one
        factor, summand = factor * factor, factor * summand + summand
        if bit == "1":
            factor, summand = factor * _FACTOR, summand * _FACTOR + _SUMMAND
        factor, summand = factor % 2**32, summand % 2**32
    x[...] = x * x.dtype.type(factor) + x.dtype.type(summand)


def _axpy(x: Any, y: Any, a: float, n: int) -> None:
    y[:n] += x.dtype.type(a) * x[:n]


def _count(values: Any, counts: Any, n: int) -> None:
    for value in values[:n] & 7:
        counts[value] += 1


def _transpose(source: Any, target: Any, _width: int, _height: int) -> None:
    target[...] = source.T
