"""Operations on one number of any size.

Integers of 8 and 16 bits are in registers of 32, with zeros above them. Floats of 16 bits are
computed as float32: the sum, the product, the quotient and the root of two, rounded twice, are
the same.
"""

from __future__ import annotations

from devmod_targets.spirv_ptx._types import Scalar
from devmod_targets.spirv_ptx._writer import Writer, joined


class Numbers:
    """Writes operations. Each method takes the scalar of its operands."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    # -- integers

    def fitted(self, scalar: Scalar, value: str) -> str:
        """Return a register whose bits above those of the scalar are zeros."""
        if scalar.bits >= 32:
            return value
        mask = (1 << scalar.bits) - 1
        return self._writer.op("b32", "and.b32", value, str(mask))

    def signed(self, scalar: Scalar, value: str) -> str:
        """Return a register with the sign of a number."""
        if scalar.bits >= 32:
            return value
        return self._writer.op("b32", "bfe.s32", value, "0", str(scalar.bits))

    def _integer(
        self, scalar: Scalar, opcode: str, *values: str, signed: bool = False, typed: bool = True
    ) -> str:
        width = max(scalar.bits, 32)
        sign = "s" if signed else "u"
        if signed:
            values = tuple(self.signed(scalar, value) for value in values)
        kind = f"{sign}{width}" if typed else f"b{width}"
        result = self._writer.op(scalar.register, f"{opcode}.{kind}", *values)
        return self.fitted(scalar, result)

    def negated(self, scalar: Scalar, value: str) -> str:
        """-a"""
        return self._integer(scalar, "neg", value, signed=True)

    def sum(self, scalar: Scalar, first: str, second: str) -> str:
        """A + b"""
        return self._integer(scalar, "add", first, second)

    def difference(self, scalar: Scalar, first: str, second: str) -> str:
        """A - b"""
        return self._integer(scalar, "sub", first, second)

    def product(self, scalar: Scalar, first: str, second: str) -> str:
        """A * b"""
        return self._integer(scalar, "mul.lo", first, second)

    def unsigned_quotient(self, scalar: Scalar, first: str, second: str) -> str:
        """A / b"""
        return self._integer(scalar, "div", first, second)

    def signed_quotient(self, scalar: Scalar, first: str, second: str) -> str:
        """A / b"""
        return self._integer(scalar, "div", first, second, signed=True)

    def unsigned_remainder(self, scalar: Scalar, first: str, second: str) -> str:
        """A % b"""
        return self._integer(scalar, "rem", first, second)

    def signed_remainder(self, scalar: Scalar, first: str, second: str) -> str:
        """A % b, with the sign of a."""
        return self._integer(scalar, "rem", first, second, signed=True)

    def signed_modulo(self, scalar: Scalar, first: str, second: str) -> str:
        """A % b, with the sign of b."""
        writer = self._writer
        wide = Scalar("int", max(scalar.bits, 32))
        kind = f"s{wide.bits}"
        first, second = self.signed(scalar, first), self.signed(scalar, second)
        rest = writer.op(wide.register, f"rem.{kind}", first, second)
        signs = writer.op(wide.register, f"xor.b{wide.bits}", rest, second)
        differs = writer.op("pred", f"setp.lt.{kind}", signs, "0")
        is_rest = writer.op("pred", f"setp.ne.{kind}", rest, "0")
        both = writer.op("pred", "and.pred", differs, is_rest)
        added = writer.op(wide.register, f"add.{kind}", rest, second)
        result = writer.op(wide.register, f"selp.{wide.register}", added, rest, both)
        return self.fitted(scalar, result)

    def bitwise(self, scalar: Scalar, name: str, first: str, second: str) -> str:
        """Bits of a and b."""
        return self._writer.op(scalar.register, f"{name}.{scalar.register}", first, second)

    def inverted(self, scalar: Scalar, value: str) -> str:
        """~a"""
        return self._integer(scalar, "not", value, typed=False)

    def _distance(self, scalar: Scalar, value: str) -> str:
        """Return a shift's number of bits, modulo those of the number: WGSL has it so, HLSL too,
        and naga leaves it to the GPU. PTX shifts all bits out.
        """
        if not value.startswith("%"):
            return str(int(value, 0) % scalar.bits)
        if value.startswith("%q"):
            value = self._writer.op("b32", "cvt.u32.u64", value)
        return self._writer.op("b32", "and.b32", value, str(scalar.bits - 1))

    def shifted_left(self, scalar: Scalar, value: str, distance: str) -> str:
        """A << b"""
        opcode = f"shl.{scalar.register}"
        result = self._writer.op(scalar.register, opcode, value, self._distance(scalar, distance))
        return self.fitted(scalar, result)

    def shifted_right(self, scalar: Scalar, value: str, distance: str) -> str:
        """A >> b, with zeros."""
        opcode = f"shr.u{max(scalar.bits, 32)}"
        return self._writer.op(scalar.register, opcode, value, self._distance(scalar, distance))

    def shifted_right_signed(self, scalar: Scalar, value: str, distance: str) -> str:
        """A >> b, with the sign."""
        opcode = f"shr.s{max(scalar.bits, 32)}"
        value = self.signed(scalar, value)
        result = self._writer.op(scalar.register, opcode, value, self._distance(scalar, distance))
        return self.fitted(scalar, result)

    def reversed_bits(self, scalar: Scalar, value: str) -> str:
        """Bits in reverse order."""
        result = self._writer.op(scalar.register, f"brev.{scalar.register}", value)
        if scalar.bits < 32:
            return self._writer.op("b32", "shr.u32", result, str(32 - scalar.bits))
        return result

    def compared(self, scalar: Scalar, name: str, first: str, second: str, *, signed: bool) -> str:
        """Compare integers."""
        kind = f"{'s' if signed else 'u'}{max(scalar.bits, 32)}"
        if signed:
            first, second = self.signed(scalar, first), self.signed(scalar, second)
        return self._writer.op("pred", f"setp.{name}.{kind}", first, second)

    def extreme(self, scalar: Scalar, name: str, first: str, second: str, *, signed: bool) -> str:
        """Return the smaller or the larger integer."""
        return self._integer(scalar, name, first, second, signed=signed)

    def found(self, scalar: Scalar, sign: str, value: str) -> str:
        """Return the place of the highest bit that is set, or is no sign; -1 without one."""
        return self._writer.op("b32", f"bfind.{sign}{max(scalar.bits, 32)}", value)

    # -- floats

    def widened(self, scalar: Scalar, value: str) -> tuple[Scalar, str]:
        """Return a float16 as a float32."""
        if scalar.bits > 16:
            return scalar, value
        held = self._writer.held(scalar, value)
        return Scalar("float", 32), self._writer.op("f32", "cvt.f32.f16", held)

    def narrowed(self, scalar: Scalar, value: str) -> str:
        """Return a float32 as the float16 that it stands for."""
        if scalar.bits > 16:
            return value
        return self._writer.op(
            "b16", "cvt.rn.f16.f32", self._writer.held(Scalar("float", 32), value)
        )

    def plain(self, scalar: Scalar, opcode: str, *values: str) -> str:
        """Write an operation of PTX on floats."""
        wide = scalar
        operands = []
        for value in values:
            wide, operand = self.widened(scalar, value)
            operands.append(operand)
        result = self._writer.op(wide.register, f"{opcode}.{wide.register}", *operands)
        return self.narrowed(scalar, result)

    def float_negated(self, scalar: Scalar, value: str) -> str:
        """-a"""
        return self.plain(scalar, "neg", value)

    def integral(self, scalar: Scalar, mode: str, value: str) -> str:
        """Round a float to an integer: rni, rzi, rmi or rpi."""
        wide, operand = self.widened(scalar, value)
        kind = wide.register
        held = self._writer.held(wide, operand)
        return self.narrowed(scalar, self._writer.op(kind, f"cvt.{mode}.{kind}.{kind}", held))

    def float_remainder(self, scalar: Scalar, first: str, second: str) -> str:
        """A % b, with the sign of a."""
        return self._remainder(scalar, "rzi", first, second)

    def float_modulo(self, scalar: Scalar, first: str, second: str) -> str:
        """A % b, with the sign of b."""
        return self._remainder(scalar, "rmi", first, second)

    def _remainder(self, scalar: Scalar, mode: str, first: str, second: str) -> str:
        quotient = self.integral(scalar, mode, self.plain(scalar, "div.rn", first, second))
        return self.plain(scalar, "sub.rn", first, self.plain(scalar, "mul.rn", second, quotient))

    def float_compared(self, scalar: Scalar, name: str, first: str, second: str) -> str:
        """Compare floats."""
        wide, first = self.widened(scalar, first)
        _, second = self.widened(scalar, second)
        return self._writer.op("pred", f"setp.{name}.{wide.register}", first, second)

    def classified(self, scalar: Scalar, name: str, value: str) -> str:
        """Return whether a float is infinite, finite, no number, or has its sign set."""
        writer = self._writer
        wide, value = self.widened(scalar, value)
        value = writer.held(wide, value)
        if name != "sign":
            return writer.op("pred", f"testp.{name}.{wide.register}", value)
        bits = self.bits(wide, value)
        return writer.op("pred", f"setp.lt.s{wide.bits}", bits, "0")

    # -- conversions

    def converted(self, source: Scalar, target: Scalar, value: str, *, signed: bool) -> str:
        """Convert a number; the instruction has the sign of integers."""
        if source.form == target.form == "float":
            return self._float_to_float(source, target, value)
        if source.form == "float":
            return self._float_to_integer(source, target, value, signed=signed)
        if target.form == "float":
            return self._integer_to_float(source, target, value, signed=signed)
        if signed:
            value = self.signed(source, value)
        sign = "s" if signed else "u"
        wide_source, wide_target = max(source.bits, 32), max(target.bits, 32)
        if wide_source != wide_target:
            held = self._writer.held(source, value)
            opcode = f"cvt.{sign}{wide_target}.{sign}{wide_source}"
            value = self._writer.op(target.register, opcode, held)
        # Zeros are above a number that was unsigned and not larger.
        if not signed and target.bits >= source.bits:
            return value
        return self.fitted(target, value)

    def _float_to_float(self, source: Scalar, target: Scalar, value: str) -> str:
        if source.bits == target.bits:
            return value
        rounding = ".rn" if target.bits < source.bits else ""
        held = self._writer.held(source, value)
        opcode = f"cvt{rounding}.f{target.bits}.f{source.bits}"
        return self._writer.op(target.register, opcode, held)

    def _float_to_integer(self, source: Scalar, target: Scalar, value: str, *, signed: bool) -> str:
        wide, value = self.widened(source, value)
        kind = f"{'s' if signed else 'u'}{max(target.bits, 32)}"
        held = self._writer.held(wide, value)
        result = self._writer.op(target.register, f"cvt.rzi.{kind}.{wide.register}", held)
        return self.fitted(target, result)

    def _integer_to_float(self, source: Scalar, target: Scalar, value: str, *, signed: bool) -> str:
        if signed:
            value = self.signed(source, value)
        kind = f"{'s' if signed else 'u'}{max(source.bits, 32)}"
        held = self._writer.held(source, value)
        return self._writer.op(target.register, f"cvt.rn.f{target.bits}.{kind}", held)

    # -- bits

    def bits(self, scalar: Scalar, value: str) -> str:
        """Return the bits of a number as an integer, in 32 bits at least."""
        if scalar.form != "float":
            return value
        writer = self._writer
        value = writer.held(scalar, value)
        if scalar.bits == 16:
            return writer.op("b32", "mov.b32", joined([value, writer.op("b16", "mov.b16", "0")]))
        return writer.op(f"b{scalar.bits}", f"mov.b{scalar.bits}", value)

    def from_bits(self, scalar: Scalar, value: str) -> str:
        """Return the number of bits."""
        if scalar.form != "float":
            return value
        writer = self._writer
        if scalar.bits > 16:
            return writer.op(scalar.register, f"mov.b{scalar.bits}", value)
        return self.halves(value)[0]

    def halves(self, value: str) -> tuple[str, str]:
        """Return the two float16 in 32 bits."""
        writer = self._writer
        low, high = writer.new("b16"), writer.new("b16")
        writer.put("mov.b32", joined([low, high]), writer.held(Scalar("int", 32), value))
        return low, high

    def combined(self, source: Scalar, target: Scalar, parts: list[str]) -> str:
        """Return the bits of a number from those of its parts, the lowest first."""
        whole = Scalar("int", target.bits)
        result = ""
        for index, part in enumerate(parts):
            part = self.converted(Scalar("int", source.bits), whole, part, signed=False)
            if index:
                part = self.shifted_left(whole, part, str(index * source.bits))
                part = self.bitwise(whole, "or", result, part)
            result = part
        return result

    def divided(self, source: Scalar, target: Scalar, value: str) -> list[str]:
        """Return the bits of the parts of a number, the lowest first."""
        whole = Scalar("int", source.bits)
        parts = []
        for shift in range(0, source.bits, target.bits):
            part = self.shifted_right(whole, value, str(shift)) if shift else value
            parts.append(self.converted(whole, Scalar("int", target.bits), part, signed=False))
        return parts
