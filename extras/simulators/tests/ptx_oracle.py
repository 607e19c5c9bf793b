"""Floating-point arithmetic of PTX in Python's fractions: each result is rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple


class Format(NamedTuple):
    """The bits of a number, and of its significand without the first bit."""

    bits: int
    significand: int

    @property
    def sign(self) -> int:
        return 1 << self.bits - 1

    @property
    def infinity(self) -> int:
        return self.sign - (1 << self.significand)

    @property
    def lowest(self) -> int:
        """The exponent of the smallest normal number."""
        return 2 - (1 << self.bits - 2 - self.significand)


FORMATS = {
    "f16": Format(16, 10),
    "bf16": Format(16, 7),
    "f32": Format(32, 23),
    "f64": Format(64, 52),
}


class Value(NamedTuple):
    """A number: its sign, and its size, which is None for an infinity."""

    negative: bool
    size: Fraction | None

    @property
    def number(self) -> Fraction:
        assert self.size is not None
        return -self.size if self.negative else self.size


INFINITE: Fraction | None = None


def decode(bits: int, kind: str) -> Value | None:
    """Return the value of some bits; None for NaN."""
    form = FORMATS[kind]
    negative = bool(bits & form.sign)
    size = bits & ~form.sign
    if size > form.infinity:
        return None
    if size == form.infinity:
        return Value(negative, INFINITE)
    exponent, fraction = divmod(size, 1 << form.significand)
    if exponent:
        fraction += 1 << form.significand
    scale = form.lowest - form.significand + max(exponent - 1, 0)
    return Value(negative, fraction * Fraction(2) ** scale)


def encode(value: Value | None, kind: str, mode: str) -> int | None:
    """Return the bits of a value, rounded; None for NaN."""
    if value is None:
        return None
    form = FORMATS[kind]
    sign = form.sign if value.negative else 0
    if value.size is INFINITE:
        return sign | form.infinity
    assert value.size is not None
    if not value.size:
        return sign
    exponent = value.size.numerator.bit_length() - value.size.denominator.bit_length()
    if Fraction(2) ** exponent > value.size:
        exponent -= 1
    exponent = max(exponent, form.lowest)
    scaled = value.size / Fraction(2) ** (exponent - form.significand)
    number = math.floor(scaled)
    rest = scaled - number
    away = mode == ("rm" if value.negative else "rp")
    if mode == "rn":
        number += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and number % 2)
    elif away:
        number += rest > 0
    # A carry into the exponent is a carry of the bits.
    size = number + (exponent - form.lowest << form.significand)
    if size >= form.infinity:
        size = form.infinity if away or mode == "rn" else form.infinity - 1
    return sign | size


def _sum(x: Value, y: Value, mode: str) -> Value | None:
    if x.size is INFINITE and y.size is INFINITE and x.negative != y.negative:
        return None
    if x.size is INFINITE:
        return x
    if y.size is INFINITE:
        return y
    total = x.number + y.number
    if total:
        return Value(total < 0, abs(total))
    if x.negative == y.negative:
        return Value(x.negative, Fraction(0))
    return Value(mode == "rm", Fraction(0))


def _product(x: Value, y: Value) -> Value | None:
    negative = x.negative != y.negative
    if x.size is INFINITE or y.size is INFINITE:
        if x.size == 0 or y.size == 0:
            return None
        return Value(negative, INFINITE)
    assert x.size is not None
    assert y.size is not None
    return Value(negative, x.size * y.size)


def _fused(x: Value, y: Value, z: Value, mode: str) -> Value | None:
    product = _product(x, y)
    return None if product is None else _sum(product, z, mode)


def _quotient(x: Value, y: Value) -> Value | None:
    negative = x.negative != y.negative
    if x.size is INFINITE:
        return None if y.size is INFINITE else Value(negative, INFINITE)
    if y.size is INFINITE:
        return Value(negative, Fraction(0))
    assert x.size is not None
    assert y.size is not None
    if y.size == 0:
        return None if x.size == 0 else Value(negative, INFINITE)
    return Value(negative, x.size / y.size)


def _root(x: Value) -> Value | None:
    if x.size == 0:
        return x
    if x.negative:
        return None
    if x.size is INFINITE:
        return x
    assert x.size is not None
    # Enough bits that no rounding is undecided, and one that stands for the rest.
    scaled = x.size * 4**1200
    root = math.isqrt(math.floor(scaled))
    return Value(False, Fraction(2 * root + (root * root != scaled), 2 ** (1200 + 1)))


ONE = Value(False, Fraction(1))
OPERATIONS: dict[str, tuple[int, Callable[..., Value | None]]] = {
    "add": (2, lambda mode, x, y: _sum(x, y, mode)),
    "sub": (2, lambda mode, x, y: _sum(x, Value(not y.negative, y.size), mode)),
    "mul": (2, lambda mode, x, y: _product(x, y)),
    "fma": (3, lambda mode, x, y, z: _fused(x, y, z, mode)),
    "div": (2, lambda mode, x, y: _quotient(x, y)),
    "rcp": (1, lambda mode, x: _quotient(ONE, x)),
    "sqrt": (1, lambda mode, x: _root(x)),
}


def flushed(bits: int, kind: str) -> int:
    """Return the bits of a number, with a subnormal one as zero of its sign."""
    form = FORMATS[kind]
    return bits if bits & form.infinity else bits & form.sign


def saturated(bits: int | None, kind: str) -> int:
    """Return the bits of a number between 0 and 1."""
    value = None if bits is None else decode(bits, kind)
    if value is None or value.negative:
        return 0
    if value.size is INFINITE or value.number > 1:
        one = encode(ONE, kind, "rn")
        assert one is not None
        return one
    assert bits is not None
    return bits


def operate(
    name: str, kind: str, mode: str, *operands: int, ftz: bool = False, sat: bool = False
) -> int | None:
    """Return the bits of a result; None for NaN."""
    _, function = OPERATIONS[name]
    if ftz:
        operands = tuple(flushed(each, kind) for each in operands)
    values = [decode(each, kind) for each in operands]
    result = None
    if None not in values:
        result = encode(function(mode, *values), kind, mode)
    if ftz and result is not None:
        result = flushed(result, kind)
    return saturated(result, kind) if sat else result


def convert(
    bits: int, source: str, target: str, mode: str, *, ftz: bool = False, sat: bool = False
) -> int | None:
    """Return the bits of a number of another type; None for NaN. float32 alone is flushed."""
    if ftz and source == "f32":
        bits = flushed(bits, source)
    result = encode(decode(bits, source), target, mode)
    if ftz and target == "f32" and result is not None:
        result = flushed(result, target)
    return saturated(result, target) if sat else result
