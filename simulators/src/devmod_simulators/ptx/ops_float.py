"""Floating-point arithmetic, and the instructions that exist for integers and floats alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from devmod_simulators.ptx import ops_integer
from devmod_simulators.ptx.decoder import Decoder, Step, operation
from devmod_simulators.ptx.formats import flush, pack, rounded, two_product, two_sum, unpack
from devmod_simulators.ptx.ptx_types import DTYPES, F32, F64, PRED, U64, UNSIGNED, Array

MODES = ("rn", "rz", "rm", "rp", "rna")
_FLOATS = {"f32x2", "f16", "f16x2", "bf16", "bf16x2", "f32", "f64"}


def is_float(decoder: Decoder) -> bool:
    """Return whether the instruction computes with floats."""
    return decoder.type in _FLOATS


def bits_type(kind: str) -> Any:
    """Return the NumPy type in which registers give values of a float type."""
    return DTYPES[kind] if kind in ("f32", "f64") else UNSIGNED[DTYPES[kind].itemsize]


def arithmetic(decoder: Decoder, number: int, function: Callable[..., Array]) -> Step:
    """Return the step of an instruction with `number` operands of one float type: flush, compute,
    round, saturate.
    """
    kind, dtype = decoder.type, bits_type(decoder.type)
    ftz, saturating, relu = decoder.has("ftz"), decoder.has("sat"), decoder.has("relu")
    mode = decoder.first(MODES, "rn")
    plain = kind in ("f32", "f64")

    def run(*values: Array) -> Array:
        if not plain:
            values = tuple(unpack(kind, value) for value in values)
        if ftz:
            values = tuple(map(flush, values))
        result = function(*values)
        if saturating:
            zero, one = result.dtype.type(0), result.dtype.type(1)
            result = np.where(np.isnan(result), zero, np.minimum(np.maximum(result, zero), one))
        if relu:
            zero = result.dtype.type(0)
            result = np.where(np.isnan(result), result, np.maximum(result, zero))
        if not plain:
            return pack(kind, result, mode).view(dtype)
        return flush(result) if ftz else result

    return ops_integer.compute(
        decoder, [dtype] * number, run if ftz or saturating or relu or not plain else function
    )


def directed(
    kind: str, mode: str, exact: Callable[..., tuple[Array, Array]]
) -> Callable[..., Array]:
    """Return a function that computes a value and its error in float64 and rounds it."""
    return lambda *values: rounded(kind, *exact(*(value.astype(F64) for value in values)), mode)


def fused(kind: str, mode: str) -> Callable[[Array, Array, Array], Array]:
    """Return the function for a * b + c with one rounding."""

    def exact(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
        if kind == "f64":
            product, low = two_product(a, b)
        else:
            product, low = a * b, np.zeros(1)  # exact: two significands of 24 bits have 48
        total, error = two_sum(product, c)
        error, rest = two_sum(error, low)
        value, error = two_sum(total, error)
        finite = np.isfinite(total) & np.isfinite(value)
        return np.where(finite, value, total), np.where(
            finite, np.where(error == 0, rest, error), 0.0
        )

    if kind == "f64" or mode != "rn":
        return directed(kind, mode, exact)
    if kind == "f32":
        # Rounded twice, to 53 and to 24 bits: the result differs from a fused operation in one of
        # 2**29 cases.
        return _fused_twice
    return lambda a, b, c: a.astype(F64) * b + c


def _fused_twice(a: Array, b: Array, c: Array) -> Array:
    product = np.multiply(a, b, dtype=F64)
    if len(c) > len(product):
        product = product + c
    else:
        product += c
    return product.astype(F32)


@operation("add", "sub")
def _add(decoder: Decoder) -> Step:
    if not is_float(decoder):
        return ops_integer.add_or_subtract(decoder)
    mode, kind, subtract = decoder.first(MODES, "rn"), decoder.type, decoder.parts[0] == "sub"
    if len(decoder.types) == 2:  # add.f32.f16 and its kin: the first operand is narrower
        narrow, function = decoder.types[1], np.subtract if subtract else np.add
        return ops_integer.compute(
            decoder, [bits_type(narrow), F32], lambda a, b: function(unpack(narrow, a), b), F32
        )
    if mode != "rn" and kind in ("f32", "f64"):
        return arithmetic(
            decoder, 2, directed(kind, mode, (lambda a, b: two_sum(a, -b)) if subtract else two_sum)
        )
    return arithmetic(decoder, 2, np.subtract if subtract else np.add)


@operation("mul")
def _mul(decoder: Decoder) -> Step:
    if not is_float(decoder):
        return ops_integer.multiply(decoder)
    mode, kind = decoder.first(MODES, "rn"), decoder.type
    if mode != "rn" and kind in ("f32", "f64"):
        return arithmetic(decoder, 2, directed(kind, mode, two_product))
    return arithmetic(decoder, 2, np.multiply)


@operation("fma", "mad")
def _fma(decoder: Decoder) -> Step:
    if not is_float(decoder):
        return ops_integer.multiply_add(decoder)
    return arithmetic(decoder, 3, fused(decoder.type, decoder.first(MODES, "rn")))


def _with_error(result: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Return a result with the sign of its error, which is that of `a` without the product of
    `result` and `b`.
    """
    product, low = two_product(result, b)
    error = ((a - product) - low) * np.sign(b)
    return result, np.where(np.isfinite(result) & np.isfinite(error), error, 0.0)


def _exact_quotient(a: Array, b: Array) -> tuple[Array, Array]:
    return _with_error(a / b, a, b)


@operation("div")
def _div(decoder: Decoder) -> Step:
    if not is_float(decoder):
        return ops_integer.compute(
            decoder, [decoder.dtype] * 2, ops_integer.quotient(decoder.dtype)
        )
    mode, kind = decoder.first(MODES, "rn"), decoder.type
    return arithmetic(
        decoder, 2, np.divide if mode == "rn" else directed(kind, mode, _exact_quotient)
    )


@operation("sqrt")
def _sqrt(decoder: Decoder) -> Step:
    mode, kind = decoder.first(MODES, "rn"), decoder.type
    return arithmetic(
        decoder,
        1,
        np.sqrt
        if mode == "rn"
        else directed(kind, mode, lambda a: _with_error(np.sqrt(a), a, np.sqrt(a))),
    )


def _approximate(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return `function` with the low half of its float64 result cleared, as the approximations of
    hardware have it.
    """
    mask = np.uint64(0xFFFFFFFF00000000)
    return lambda a: (function(a).view(U64) & mask).view(F64)


@operation("rcp")
def _rcp(decoder: Decoder) -> Step:
    mode, kind = decoder.first(MODES, "rn"), decoder.type
    one = np.ones(1, F32 if kind == "f32" else F64)
    if decoder.has("approx") and kind == "f64":
        return arithmetic(decoder, 1, _approximate(lambda a: one / a))
    if mode != "rn":
        return arithmetic(
            decoder, 1, directed(kind, mode, lambda a: _exact_quotient(np.ones(1), a))
        )
    return arithmetic(decoder, 1, lambda a: one / a)


def _inverse_root(a: Array) -> Array:
    return (1.0 / np.sqrt(a.astype(F64))).astype(a.dtype)


@operation("rsqrt")
def _rsqrt(decoder: Decoder) -> Step:
    return arithmetic(
        decoder,
        1,
        _approximate(_inverse_root)
        if decoder.type == "f64" and decoder.has("ftz")
        else _inverse_root,
    )


for _name, _function in {
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}.items():
    operation(_name)(lambda decoder, function=_function: arithmetic(decoder, 1, function))  # type: ignore[misc]


def _signed_minimum(a: Array, b: Array) -> Array:
    """Return the smaller number; a number is smaller than NaN, and -0 than +0."""
    result = np.fmin(a, b)
    zeros = (a == 0) & (b == 0)
    return (
        np.where(zeros & (np.signbit(a) | np.signbit(b)), -result.dtype.type(0), result)
        if zeros.any()
        else result
    )


@operation("min", "max")
def _extreme(decoder: Decoder) -> Step:
    larger = decoder.parts[0] == "max"
    if not is_float(decoder):
        return ops_integer.minimum_or_maximum(decoder, np.maximum if larger else np.minimum)
    propagates, signs = decoder.has("NaN"), decoder.has("xorsign")

    def function(a: Array, b: Array) -> Array:
        x, y = (np.abs(a), np.abs(b)) if signs else (a, b)
        result = -_signed_minimum(-x, -y) if larger else _signed_minimum(x, y)
        if propagates:
            result = np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), result)
        return (
            np.copysign(result, np.where(np.signbit(a) ^ np.signbit(b), -1, 1).astype(a.dtype))
            if signs
            else result
        )

    if len(decoder.operands) == 4:
        return arithmetic(decoder, 3, lambda a, b, c: function(function(a, b), c))
    return arithmetic(decoder, 2, function)


def _sign_bits(decoder: Decoder, function: Callable[[Array, Any], Array]) -> Step:
    """Decode neg and abs of floats: they change the sign bit alone."""
    kind = decoder.type
    dtype = UNSIGNED[DTYPES[kind].itemsize]
    mask = dtype.type(
        {
            "f16": 0x8000,
            "bf16": 0x8000,
            "f16x2": 0x80008000,
            "bf16x2": 0x80008000,
            "f32": 1 << 31,
            "f64": 1 << 63,
        }[kind]
    )
    ftz = decoder.has("ftz") and kind == "f32"
    return ops_integer.compute(
        decoder, [dtype], lambda a: function(flush(a.view(F32)).view(dtype) if ftz else a, mask)
    )


@operation("neg")
def _neg(decoder: Decoder) -> Step:
    return (
        _sign_bits(decoder, np.bitwise_xor)
        if is_float(decoder)
        else ops_integer.compute(decoder, [decoder.dtype], np.negative)
    )


@operation("abs")
def _abs(decoder: Decoder) -> Step:
    return (
        _sign_bits(decoder, lambda a, mask: a & ~mask)
        if is_float(decoder)
        else ops_integer.compute(decoder, [decoder.dtype], np.abs)
    )


operation("copysign")(
    lambda decoder: ops_integer.compute(
        decoder, [decoder.dtype] * 2, lambda a, b: np.copysign(b, a)
    )
)


@operation("testp")
def _testp(decoder: Decoder) -> Step:
    smallest = F32.type(2.0**-126) if decoder.type == "f32" else F64.type(2.0**-1022)
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= smallest),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < smallest),
    }
    return ops_integer.compute(decoder, [decoder.dtype], tests[decoder.first(tuple(tests))], PRED)
