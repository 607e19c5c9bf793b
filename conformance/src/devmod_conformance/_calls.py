"""Calls of kernels that several backends ship, with their NumPy references, and the descriptions of these kernels."""

from __future__ import annotations

from typing import Any

from devmod import FunctionInfo, Interface, Param
from devmod_conformance._case import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


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


def _axpy(x: Any, y: Any, a: float, n: int) -> None:
    y[:n] += x.dtype.type(a) * x[:n]


def _count(values: Any, counts: Any, n: int) -> None:
    for value in values[:n] & 7:
        counts[value] += 1


def _transpose(source: Any, target: Any, _width: int, _height: int) -> None:
    target[...] = source.T
