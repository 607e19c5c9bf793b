"""Floats whose operators write PTX, for formulas."""

from __future__ import annotations

import math

from devmod_targets.spirv_ptx._numbers import Numbers
from devmod_targets.spirv_ptx._types import RefusedError, Scalar
from devmod_targets.spirv_ptx._writer import Writer, float_literal


class Float:
    """A float of 32 or 64 bits in a register. Numbers of Python become literals."""

    def __init__(self, writer: Writer, scalar: Scalar, text: str) -> None:
        self.writer = writer
        self.scalar = scalar
        self.text = text

    def _literal(self, value: Float | float) -> str:
        if isinstance(value, Float):
            return value.text
        return float_literal(self.scalar.bits, value)

    def apply(self, opcode: str, *values: Float | float) -> Float:
        """Return the result of an instruction of PTX."""
        operands = [self._literal(value) for value in values]
        return self.like(Numbers(self.writer).plain(self.scalar, opcode, *operands))

    def like(self, text: str) -> Float:
        """Return another float of the same type."""
        return Float(self.writer, self.scalar, text)

    def constant(self, value: float) -> Float:
        """Return a literal of the same type."""
        return self.like(self._literal(value))

    def __add__(self, other: Float | float) -> Float:
        return self.apply("add.rn", self, other)

    def __sub__(self, other: Float | float) -> Float:
        return self.apply("sub.rn", self, other)

    def __rsub__(self, other: float) -> Float:
        return self.apply("sub.rn", other, self)

    def __mul__(self, other: Float | float) -> Float:
        return self.apply("mul.rn", self, other)

    def __truediv__(self, other: Float | float) -> Float:
        return self.apply("div.rn", self, other)

    def __rtruediv__(self, other: float) -> Float:
        return self.apply("div.rn", other, self)

    def __neg__(self) -> Float:
        return self.apply("neg", self)

    def __abs__(self) -> Float:
        return self.apply("abs", self)

    def is_below(self, other: Float | float) -> str:
        """Return the predicate of a < b."""
        literal = self._literal(other)
        return Numbers(self.writer).float_compared(self.scalar, "lt", self.text, literal)

    def is_zero(self) -> str:
        """Return the predicate of a == 0."""
        zero = self._literal(0.0)
        return Numbers(self.writer).float_compared(self.scalar, "eq", self.text, zero)

    def is_signed(self) -> str:
        """Return the predicate of the sign bit."""
        return Numbers(self.writer).classified(self.scalar, "sign", self.text)

    def where(self, holds: str, other: Float | float) -> Float:
        """Return this float where a predicate holds, else another one."""
        kind = self.scalar.register
        operands = self.text, self._literal(other), holds
        return self.like(self.writer.op(kind, f"selp.{kind}", *operands))

    def at_least(self, other: Float | float) -> Float:
        """Return the larger of two."""
        return self.apply("max", self, other)

    def at_most(self, other: Float | float) -> Float:
        """Return the smaller of two."""
        return self.apply("min", self, other)

    def root(self) -> Float:
        """Return the square root."""
        return self.apply("sqrt.rn", self)

    def integral(self, mode: str) -> Float:
        """Return an integer: the nearest (rni), or one of rzi, rmi and rpi."""
        return self.like(Numbers(self.writer).integral(self.scalar, mode, self.text))

    def approximate(self, name: str) -> Float:
        """Return a function that PTX approximates for 32 bits."""
        if self.scalar.bits == 64:
            raise RefusedError(f"{name} has no form for 64 bits")
        return self.apply(f"{name}.approx", self)

    def exp(self) -> Float:
        """Return e to the power of this float."""
        return (self * math.log2(math.e)).approximate("ex2")

    def log(self) -> Float:
        """Return the natural logarithm."""
        return self.approximate("lg2") * math.log(2)

    def with_sign(self, other: Float) -> Float:
        """Return the magnitude of this float with the sign of another one."""
        magnitude = abs(self)
        return (-magnitude).where(other.is_signed(), magnitude)

    def polynomial(self, *coefficients: float) -> Float:
        """Return a polynomial, the highest coefficient first."""
        first, second, *others = coefficients
        result = self * first + second
        for coefficient in others:
            result = result * self + coefficient
        return result


def total(values: list[Float]) -> Float:
    """Return a sum."""
    first, *others = values
    for other in others:
        first = first + other
    return first
