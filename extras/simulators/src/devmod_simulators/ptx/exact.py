"""Arithmetic that is rounded once: results of float64 operations with their errors, and those that
float64 has no room for in Python's integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from devmod_simulators.ptx.formats import narrow, step
from devmod_simulators.ptx.ptx_types import F64, U64, Array

#: From here on, the parts that `two_product` makes overflow.
_LARGEST_FACTOR = 2.0**996
#: Sums of numbers up to this size, and of their errors, are finite.
_LARGEST = 2.0**1020
#: The error of a product of this size, and of more, is no subnormal number that was rounded.
_SMALLEST_PRODUCT = 2.0**-960
_LARGEST_NUMBER = float.fromhex("0x1.fffffffffffffp+1023")


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the sum and its rounding error (Knuth)."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the product of float64 values and its rounding error (Dekker), or an error of zero
    where that overflows.
    """
    splitter = np.float64(134217729.0)

    def parts(x: Array) -> tuple[Array, Array]:
        scaled = splitter * x
        high = scaled - (scaled - x)
        return high, x - high

    total = a * b
    a_high, a_low = parts(a)
    b_high, b_low = parts(b)
    error = ((a_high * b_high - total) + a_high * b_low + a_low * b_high) + a_low * b_low
    return total, np.where(np.isfinite(error), error, 0.0)


def round_to_odd(value: Array, error: Array) -> Array:
    """Return `value + error` rounded to odd: a result that is not exact has the last bit set, so
    that it is rounded once more as the exact one (Boldo and Melquiond).
    """
    bits = value.view(U64)
    changes = (error != 0) & np.isfinite(error) & (bits & U64.type(1) == 0)
    neighbour = np.where((error > 0) == (value > 0), bits + U64.type(1), bits - U64.type(1))
    return np.where(changes, neighbour, bits).view(F64)


class Operation(NamedTuple):
    """An operation of float64 values: its result with the sign of the error, the lanes where that
    may be wrong, and the function of Python's numbers for these.
    """

    approximate: Callable[..., tuple[Array, Array]]
    is_unusual: Callable[..., Array]
    of_numbers: Callable[..., tuple[int, int]]


def once(kind: str, mode: str, operation: Operation) -> Callable[..., Array]:
    """Return the function that computes values of `f32` or `f64` with one rounding."""

    def run(*values: Array) -> Array:
        operands = [value.astype(F64, copy=False) for value in values]
        value, error = operation.approximate(*operands)
        if kind != "f64":
            return narrow(value, mode, error=error)
        near = value
        if mode != "rn":
            value = step(near, np.sign(error), mode)
        unusual = operation.is_unusual(near, *operands)
        if unusual.any():
            value = _repaired(value, unusual, operands, operation, mode)
        return value

    return run


def _repaired(
    value: Array, unusual: Array, operands: list[Array], operation: Operation, mode: str
) -> Array:
    value = value.copy()
    columns = np.broadcast_arrays(*operands)
    for position in np.flatnonzero(unusual).tolist():
        numbers = [float(column[position]) for column in columns]
        if all(map(math.isfinite, numbers)):
            significand, exponent = operation.of_numbers(*numbers)
            # float64 has the exact zeros, with their signs.
            if significand:
                value[position] = _rounded(significand, exponent, mode)
        elif all(map(math.isfinite, numbers[:2])):
            value[position] = numbers[2]  # an infinity and a product that overflows
    return value


def _rounded(significand: int, exponent: int, mode: str) -> float:
    """Return `significand * 2**exponent` as a float64, in a rounding mode."""
    size = abs(significand)
    negative = significand < 0
    dropped = max(size.bit_length() - 53, -1074 - exponent)
    if dropped > 0:
        rest = size & ((1 << dropped) - 1)
        size >>= dropped
        exponent += dropped
        half = 1 << dropped - 1
        if mode == "rn":
            size += rest > half or (rest == half and size & 1)
        elif mode == ("rm" if negative else "rp"):
            size += rest > 0
    try:
        result = math.ldexp(size, exponent)
    except OverflowError:
        is_infinite = mode == "rn" or mode == ("rm" if negative else "rp")
        result = math.inf if is_infinite else _LARGEST_NUMBER
    return -result if negative else result


def _parts(number: float) -> tuple[int, int]:
    """Return the integer and the power of two whose product is a number."""
    significand, denominator = number.as_integer_ratio()
    return significand, 1 - denominator.bit_length()


# Sums


def exact_sum(mode: str) -> Operation:
    """Return the operation for a sum."""
    return Operation(_sum(mode), _is_large, lambda a, b: _fused_numbers(a, 1.0, b))


def _sum(mode: str) -> Callable[[Array, Array], tuple[Array, Array]]:
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


def _is_large(_total: Array, a: Array, b: Array) -> Array:
    return np.maximum(np.abs(a), np.abs(b)) >= _LARGEST


# Products


def _is_unusual_product(product: Array, a: Array, b: Array) -> Array:
    size = np.abs(product)
    a_size = np.abs(a)
    b_size = np.abs(b)
    is_zero = np.minimum(a_size, b_size) == 0
    return ~(
        (np.maximum(a_size, b_size) < _LARGEST_FACTOR)
        & (size < _LARGEST)
        & (is_zero | (size >= _SMALLEST_PRODUCT))
    )


PRODUCT = Operation(two_product, _is_unusual_product, lambda a, b: _fused_numbers(a, b, 0.0))


def fused(mode: str) -> Operation:
    """Return the operation for a * b + c."""
    add = _sum(mode)

    def approximate(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
        product, low = two_product(a, b)
        total, error = add(product, c)
        error = round_to_odd(*two_sum(error, low))
        value, error = two_sum(total, error)
        # A `total` of -0 has errors of +0, so `value` has lost its sign.
        usable = np.isfinite(total) & np.isfinite(value) & (value != 0)
        return np.where(usable, value, total), np.where(usable, error, 0.0)

    def is_unusual(_value: Array, a: Array, b: Array, c: Array) -> Array:
        return _is_unusual_product(a * b, a, b) | ~(np.abs(c) < _LARGEST)

    return Operation(approximate, is_unusual, _fused_numbers)


def _fused_numbers(a: float, b: float, c: float) -> tuple[int, int]:
    first, a_exponent = _parts(a)
    second, b_exponent = _parts(b)
    addend, c_exponent = _parts(c)
    product_exponent = a_exponent + b_exponent
    exponent = min(product_exponent, c_exponent)
    product = first * second << product_exponent - exponent
    return product + (addend << c_exponent - exponent), exponent


def fused_narrow(mode: str) -> Callable[[Array, Array, Array], Array]:
    """Return the function for a * b + c of values whose products are exact in float64: the result
    can be rounded to float32 or less.
    """
    add = _sum(mode)

    def run(a: Array, b: Array, c: Array) -> Array:
        product = np.multiply(a, b, dtype=F64)
        return round_to_odd(*add(product, c.astype(F64)))

    return run


# Quotients and roots


def _with_error(result: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Return a result with the sign of its error, which is that of `a` without the product of
    `result` and `b`.
    """
    product, low = two_product(result, b)
    error = ((a - product) - low) * np.sign(b)
    return result, np.where(np.isfinite(result) & np.isfinite(error), error, 0.0)


def _quotient_of_numbers(a: float, b: float) -> tuple[int, int]:
    if not b:
        return 0, 0
    dividend, a_exponent = _parts(a)
    divisor, b_exponent = _parts(b)
    shift = max(64 + divisor.bit_length() - dividend.bit_length(), 0)
    quotient, rest = divmod(abs(dividend) << shift, abs(divisor))
    # The last bit stands for all that follow.
    quotient = quotient << 1 | (rest != 0)
    sign = -1 if (dividend < 0) != (divisor < 0) else 1
    return sign * quotient, a_exponent - b_exponent - shift - 1


QUOTIENT = Operation(
    lambda a, b: _with_error(a / b, a, b),
    lambda value, a, b: _is_unusual_product(value * b, value, b) & (a != 0),
    _quotient_of_numbers,
)


def _root(a: Array) -> tuple[Array, Array]:
    root = np.sqrt(a)
    return _with_error(root, a, root)


def _root_of_number(a: float) -> tuple[int, int]:
    if a < 0:
        return 0, 0
    square, exponent = _parts(a)
    shift = 128 + exponent % 2
    square <<= shift
    root = math.isqrt(square)
    return root << 1 | (root * root != square), (exponent - shift) // 2 - 1


ROOT = Operation(
    _root, lambda value, a: _is_unusual_product(a, value, value) & (a != 0), _root_of_number
)
