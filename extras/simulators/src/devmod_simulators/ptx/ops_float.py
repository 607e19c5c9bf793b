"""Floating-point arithmetic, and the instructions that exist for integers and floats alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step, operation
from devmod_simulators.ptx.formats import (
    SMALLEST,
    any_nan,
    flush,
    reader,
    rounded,
    two_product,
    two_sum,
    writer,
)
from devmod_simulators.ptx.lanes import NARROW
from devmod_simulators.ptx.ops_integer import (
    add_or_subtract,
    compute,
    minimum_or_maximum,
    multiply,
    multiply_add,
    quotient,
)
from devmod_simulators.ptx.ptx_types import (
    F32,
    F64,
    PRED,
    REGISTERS,
    U64,
    Array,
)


def arithmetic(decoder: Decoder, number: int, function: Callable[..., Array]) -> Step:
    """Return the step of an instruction with `number` operands of one float type."""
    kind = decoder.type
    dtypes = [REGISTERS[kind]] * number
    if kind in ("f32", "f64") and decoder.modifiers.isdisjoint(("ftz", "sat", "relu")):
        scalars = function is _fused_twice
        return compute(decoder, dtypes, function, scalars=scalars)
    return compute(decoder, dtypes, with_modifiers(decoder, kind, kind, function))


def with_modifiers(
    decoder: Decoder, kind: str, result: str, function: Callable[..., Array]
) -> Callable[..., Array]:
    """Return a function that computes values of one float type from those of another: flush,
    compute, saturate, round.
    """
    ftz = decoder.has("ftz")
    saturating = decoder.has("sat")
    relu = decoder.has("relu")
    mode = decoder.rounding
    target = REGISTERS[result]
    is_plain = kind == result and kind in ("f32", "f64")
    read = reader(kind)
    write = writer(result, mode)

    def run(*values: Array) -> Array:
        if not is_plain:
            values = tuple(map(read, values))
        if ftz:
            values = tuple(map(flush, values))
        value = function(*values)
        if saturating:
            zero = value.dtype.type(0)
            value = np.minimum(np.where(value > 0, value, zero), value.dtype.type(1))
        if relu:
            value = np.where(value <= 0, value.dtype.type(0), value)
        if not is_plain:
            value = write(value).view(target)
        if ftz and target in SMALLEST:
            value = flush(value)
        return value

    return run


def directed(
    kind: str, mode: str, exact: Callable[..., tuple[Array, Array]]
) -> Callable[..., Array]:
    """Return a function that computes a value and its error in float64 and rounds it."""
    return lambda *values: rounded(kind, *exact(*(value.astype(F64) for value in values)), mode)


def exact_sum(mode: str) -> Callable[[Array, Array], tuple[Array, Array]]:
    """Return the function for a sum and its error. Values that cancel are -0 if it is rounded down,
    +0 otherwise.
    """
    if mode != "rm":
        return two_sum

    def down(a: Array, b: Array) -> tuple[Array, Array]:
        total, error = two_sum(a, b)
        cancelled = (total == 0) & (np.signbit(a) != np.signbit(b))
        return np.where(cancelled, -0.0, total), error

    return down


def fused(kind: str, mode: str) -> Callable[[Array, Array, Array], Array]:
    """Return the function for a * b + c with one rounding."""

    def exact(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
        if kind == "f64":
            product, low = two_product(a, b)
        else:
            # Exact: two significands of 24 bits have 48.
            product = a * b
            low = np.zeros(1)
        total, error = add(product, c)
        error, rest = two_sum(error, low)
        value, error = two_sum(total, error)
        # A `total` of -0 has errors of +0, so `value` has lost its sign.
        usable = np.isfinite(total) & np.isfinite(value) & (value != 0)
        error = np.where(error == 0, rest, error)
        return np.where(usable, value, total), np.where(usable, error, 0.0)

    add = exact_sum(mode)

    if kind == "f64" or mode != "rn":
        return directed(kind, mode, exact)
    if kind == "f32":
        # Rounded twice, to 53 and to 24 bits: the result differs from a fused operation in one of
        # 2**29 cases.
        return _fused_twice
    return lambda a, b, c: a.astype(F64) * b + c


def _fused_twice(a: Array, b: Array, c: Array) -> Array:
    if a.size + b.size + c.size <= NARROW:
        return (a.astype(F64) * b.astype(F64) + c.astype(F64)).astype(F32)
    # NumPy converts in pieces, which stay in the cache.
    product = np.multiply(a, b, dtype=F64)
    if c.size > len(product):
        product = product + c
    else:
        product += c
    return product.astype(F32)


@operation("add", "sub")
def _add(decoder: Decoder) -> Step:
    if not decoder.is_float:
        return add_or_subtract(decoder)
    mode = decoder.rounding
    kind = decoder.type
    subtract = decoder.root == "sub"
    function = np.subtract if subtract else np.add
    if len(decoder.types) == 2:
        # add.f32.f16 and its kin: the first operand is narrower.
        narrow = decoder.types[1]
        read = reader(narrow)
        return compute(decoder, [REGISTERS[narrow], F32], lambda a, b: function(read(a), b), F32)
    if mode != "rn" and kind in ("f32", "f64"):
        exact = exact_sum(mode)
        if subtract:
            return arithmetic(decoder, 2, directed(kind, mode, lambda a, b: exact(a, -b)))
        return arithmetic(decoder, 2, directed(kind, mode, exact))
    return arithmetic(decoder, 2, function)


@operation("mul")
def _mul(decoder: Decoder) -> Step:
    if not decoder.is_float:
        return multiply(decoder)
    mode = decoder.rounding
    kind = decoder.type
    if mode != "rn" and kind in ("f32", "f64"):
        return arithmetic(decoder, 2, directed(kind, mode, two_product))
    return arithmetic(decoder, 2, np.multiply)


@operation("fma", "mad")
def _fma(decoder: Decoder) -> Step:
    if not decoder.is_float:
        return multiply_add(decoder)
    return arithmetic(decoder, 3, fused(decoder.type, decoder.rounding))


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
    if not decoder.is_float:
        return compute(decoder, [decoder.dtype] * 2, quotient(decoder.dtype))
    mode = decoder.rounding
    if mode == "rn":
        return arithmetic(decoder, 2, np.divide)
    return arithmetic(decoder, 2, directed(decoder.type, mode, _exact_quotient))


@operation("sqrt")
def _sqrt(decoder: Decoder) -> Step:
    mode = decoder.rounding
    if mode == "rn":
        return arithmetic(decoder, 1, np.sqrt)
    return arithmetic(decoder, 1, directed(decoder.type, mode, _exact_root))


def _exact_root(a: Array) -> tuple[Array, Array]:
    root = np.sqrt(a)
    return _with_error(root, a, root)


def _approximate(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return `function` with the low half of its float64 result cleared, as the approximations of
    hardware have it.
    """
    mask = np.uint64(0xFFFFFFFF00000000)
    return lambda a: (function(a).view(U64) & mask).view(F64)


@operation("rcp")
def _rcp(decoder: Decoder) -> Step:
    mode = decoder.rounding
    kind = decoder.type
    function: Callable[[Array], Array] = np.reciprocal
    if decoder.has("approx") and kind == "f64":
        function = _approximate(np.reciprocal)
    elif mode != "rn":
        function = directed(kind, mode, lambda a: _exact_quotient(np.ones(1), a))
    return arithmetic(decoder, 1, function)


def _inverse_root(a: Array) -> Array:
    return (1.0 / np.sqrt(a.astype(F64))).astype(a.dtype)


@operation("rsqrt")
def _rsqrt(decoder: Decoder) -> Step:
    function: Callable[[Array], Array] = _inverse_root
    if decoder.type == "f64" and decoder.has("ftz"):
        function = _approximate(function)
    return arithmetic(decoder, 1, function)


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
    if not zeros.any():
        return result
    is_negative = zeros & (np.signbit(a) | np.signbit(b))
    return np.where(is_negative, -result.dtype.type(0), result)


def _signed_maximum(a: Array, b: Array) -> Array:
    return -_signed_minimum(-a, -b)


@operation("min", "max")
def _extreme(decoder: Decoder) -> Step:
    larger = decoder.root == "max"
    if not decoder.is_float:
        return minimum_or_maximum(decoder, np.maximum if larger else np.minimum)
    extreme = _signed_maximum if larger else _signed_minimum
    propagates = decoder.has("NaN")
    signs = decoder.has("xorsign")

    def function(a: Array, b: Array) -> Array:
        if signs:
            result = extreme(np.abs(a), np.abs(b))
        else:
            result = extreme(a, b)
        if propagates:
            result = np.where(any_nan(a, b), a.dtype.type(np.nan), result)
        if signs:
            sign = np.where(np.signbit(a) ^ np.signbit(b), -1, 1).astype(a.dtype)
            result = np.copysign(result, sign)
        return result

    if len(decoder.operands) == 4:
        return arithmetic(decoder, 3, lambda a, b, c: function(function(a, b), c))
    return arithmetic(decoder, 2, function)


def _sign_bits(decoder: Decoder, function: Callable[[Array, Any], Array]) -> Step:
    """Decode neg and abs of floats: they change the sign bit alone."""
    kind = decoder.type
    dtype = decoder.unsigned
    mask = dtype.type(1 << 8 * dtype.itemsize - 1)
    if kind.endswith("x2"):
        mask |= mask >> dtype.type(4 * dtype.itemsize)
    if decoder.has("ftz") and kind == "f32":
        return compute(decoder, [dtype], lambda a: function(flush(a.view(F32)).view(dtype), mask))
    return compute(decoder, [dtype], lambda a: function(a, mask))


@operation("neg")
def _neg(decoder: Decoder) -> Step:
    if decoder.is_float:
        return _sign_bits(decoder, np.bitwise_xor)
    return compute(decoder, [decoder.dtype], np.negative)


@operation("abs")
def _abs(decoder: Decoder) -> Step:
    if decoder.is_float:
        return _sign_bits(decoder, lambda a, mask: a & ~mask)
    return compute(decoder, [decoder.dtype], np.abs)


operation("copysign")(
    lambda decoder: compute(decoder, [decoder.dtype] * 2, lambda a, b: np.copysign(b, a))
)


@operation("testp")
def _testp(decoder: Decoder) -> Step:
    smallest = SMALLEST[decoder.dtype]
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= smallest),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < smallest),
    }
    return compute(decoder, [decoder.dtype], tests[decoder.first(tests)], PRED)
