"""The functions of GLSL.std.450.

Trigonometric functions, exponentials, logarithms and powers are those of PTX, `sin.approx` and
the like, or are computed from them: approximations. The inverse trigonometric functions are
polynomials of Cephes' single-precision functions, exact to about 2**-22.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from devmod_readers.spirv import SpirvInstruction
from devmod_targets.spirv_ptx._access import choose
from devmod_targets.spirv_ptx._arithmetic import dot
from devmod_targets.spirv_ptx._kernel import Kernel, handles
from devmod_targets.spirv_ptx._numbers import Numbers
from devmod_targets.spirv_ptx._types import F32, U32, RefusedError, Scalar
from devmod_targets.spirv_ptx._writer import float_literal, joined

if TYPE_CHECKING:
    from devmod_targets.spirv_ptx._memory import Value

_SET = "GLSL.std.450"


class Floats:
    """Operations on floats of one type, of 32 or 64 bits."""

    def __init__(self, kernel: Kernel, scalar: Scalar) -> None:
        self.kernel = kernel
        self.scalar = scalar
        self.numbers = Numbers(kernel.writer)

    def __call__(self, opcode: str, *values: str | float) -> str:
        operands = [self.value(value) for value in values]
        return self.numbers.plain(self.scalar, opcode, *operands)

    def value(self, value: str | float) -> str:
        """Return a literal for a number."""
        return value if isinstance(value, str) else float_literal(self.scalar.bits, value)

    def add(self, *values: str | float) -> str:
        """A + b"""
        return self("add.rn", *values)

    def sub(self, *values: str | float) -> str:
        """A - b"""
        return self("sub.rn", *values)

    def mul(self, *values: str | float) -> str:
        """A * b"""
        return self("mul.rn", *values)

    def div(self, *values: str | float) -> str:
        """A / b"""
        return self("div.rn", *values)

    def approximate(self, name: str, value: str) -> str:
        """Return a function that PTX approximates for 32 bits."""
        if self.scalar.bits == 64:
            raise RefusedError(f"{name} has no form for 64 bits")
        return self(f"{name}.approx", value)

    def root(self, value: str) -> str:
        """Return the square root."""
        return self("sqrt.rn", value)

    def exp(self, value: str) -> str:
        """e ** a"""
        return self.approximate("ex2", self.mul(value, math.log2(math.e)))

    def log(self, value: str) -> str:
        """Return the natural logarithm."""
        return self.mul(self.approximate("lg2", value), math.log(2))

    def less(self, first: str | float, second: str | float) -> str:
        """A < b"""
        return self.numbers.float_compared(self.scalar, "lt", self.value(first), self.value(second))

    def pick(self, holds: str, first: str | float, second: str | float) -> str:
        """Return one of two by a predicate."""
        return choose(
            self.kernel, self.scalar.register, holds, self.value(first), self.value(second)
        )

    def polynomial(self, value: str, *coefficients: float) -> str:
        """Return a polynomial, the highest coefficient first."""
        result = self.value(coefficients[0])
        for coefficient in coefficients[1:]:
            result = self.add(self.mul(result, value), coefficient)
        return result

    def signed_like(self, value: str, sign: str) -> str:
        """Return |a| with the sign of b."""
        negative = self.numbers.classified(self.scalar, "sign", sign)
        positive = self("abs", value)
        return self.pick(negative, self("neg", positive), positive)


def _arctangent(floats: Floats, x: str) -> str:
    magnitude = floats("abs", x)
    is_large = floats.less(math.tan(3 * math.pi / 8), magnitude)
    is_middle = floats.less(math.tan(math.pi / 8), magnitude)
    middle = floats.div(floats.sub(magnitude, 1.0), floats.add(magnitude, 1.0))
    large = floats.div(-1.0, magnitude)
    reduced = floats.pick(is_large, large, floats.pick(is_middle, middle, magnitude))
    start = floats.pick(is_large, math.pi / 2, floats.pick(is_middle, math.pi / 4, 0.0))
    square = floats.mul(reduced, reduced)
    series = floats.polynomial(
        square, 8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1
    )
    series = floats.add(floats.mul(floats.mul(series, square), reduced), reduced)
    return floats.signed_like(floats.add(start, series), x)


def _arctangent_of_two(floats: Floats, y: str, x: str) -> str:
    angle = _arctangent(floats, floats.div(y, x))
    half = floats.signed_like(floats.value(math.pi), y)
    angle = floats.pick(floats.less(x, 0.0), floats.add(angle, half), angle)
    zero = floats.numbers.float_compared(floats.scalar, "eq", y, floats.value(0.0))
    negative = floats.numbers.classified(floats.scalar, "sign", x)
    along = floats.signed_like(floats.pick(negative, math.pi, 0.0), y)
    return floats.pick(zero, along, angle)


def _arcsine(floats: Floats, x: str) -> str:
    magnitude = floats("abs", x)
    is_large = floats.less(0.5, magnitude)
    halved = floats.mul(floats.sub(1.0, magnitude), 0.5)
    square = floats.pick(is_large, halved, floats.mul(magnitude, magnitude))
    base = floats.pick(is_large, floats.root(halved), magnitude)
    series = floats.polynomial(
        square,
        4.2163199048e-2,
        2.4181311049e-2,
        4.5470025998e-2,
        7.4953002686e-2,
        1.6666752422e-1,
    )
    series = floats.add(floats.mul(floats.mul(series, square), base), base)
    far = floats.sub(math.pi / 2, floats.mul(series, 2.0))
    return floats.signed_like(floats.pick(is_large, far, series), x)


def _hyperbolic(floats: Floats, x: str, opcode: str) -> str:
    grown = floats.exp(x)
    shrunk = floats.exp(floats("neg", x))
    return floats.mul(floats(opcode, grown, shrunk), 0.5)


def _area_sine(floats: Floats, x: str) -> str:
    magnitude = floats("abs", x)
    root = floats.root(floats.add(floats.mul(magnitude, magnitude), 1.0))
    return floats.signed_like(floats.log(floats.add(magnitude, root)), x)


def _area_cosine(floats: Floats, x: str) -> str:
    return floats.log(floats.add(x, floats.root(floats.sub(floats.mul(x, x), 1.0))))


def _area_tangent(floats: Floats, x: str) -> str:
    return floats.mul(floats.log(floats.div(floats.add(1.0, x), floats.sub(1.0, x))), 0.5)


def _integral(mode: str) -> Callable[[Floats, str], str]:
    return lambda floats, x: floats.numbers.integral(floats.scalar, mode, x)


def _fraction(floats: Floats, x: str) -> str:
    return floats.sub(x, _integral("rmi")(floats, x))


def _sign(floats: Floats, x: str) -> str:
    one = floats.signed_like(floats.value(1.0), x)
    zero = floats.numbers.float_compared(floats.scalar, "eq", x, floats.value(0.0))
    return floats.pick(zero, 0.0, one)


def _tangent(floats: Floats, x: str) -> str:
    return floats.div(floats.approximate("sin", x), floats.approximate("cos", x))


def _power(floats: Floats, x: str, y: str) -> str:
    return floats.approximate("ex2", floats.mul(floats.approximate("lg2", x), y))


def _clamp(floats: Floats, x: str, low: str, high: str) -> str:
    return floats("min", floats("max", x, low), high)


def _mix(floats: Floats, x: str, y: str, share: str) -> str:
    return floats.add(floats.mul(x, floats.sub(1.0, share)), floats.mul(y, share))


def _step(floats: Floats, edge: str, x: str) -> str:
    return floats.pick(floats.less(x, edge), 0.0, 1.0)


def _smooth_step(floats: Floats, low: str, high: str, x: str) -> str:
    share = floats.div(floats.sub(x, low), floats.sub(high, low))
    share = floats("min", floats("max", share, 0.0), 1.0)
    return floats.mul(floats.mul(share, share), floats.sub(3.0, floats.mul(share, 2.0)))


#: The functions of numbers, by their numbers in the set.
_EACH: dict[int, Callable[..., str]] = {
    1: _integral("rni"),
    2: _integral("rni"),
    3: _integral("rzi"),
    4: lambda floats, x: floats("abs", x),
    6: _sign,
    8: _integral("rmi"),
    9: _integral("rpi"),
    10: _fraction,
    11: lambda floats, x: floats.mul(x, math.pi / 180),
    12: lambda floats, x: floats.mul(x, 180 / math.pi),
    13: lambda floats, x: floats.approximate("sin", x),
    14: lambda floats, x: floats.approximate("cos", x),
    15: _tangent,
    16: _arcsine,
    17: lambda floats, x: floats.sub(math.pi / 2, _arcsine(floats, x)),
    18: _arctangent,
    19: lambda floats, x: _hyperbolic(floats, x, "sub.rn"),
    20: lambda floats, x: _hyperbolic(floats, x, "add.rn"),
    21: lambda floats, x: floats.approximate("tanh", x),
    22: _area_sine,
    23: _area_cosine,
    24: _area_tangent,
    25: _arctangent_of_two,
    26: _power,
    27: Floats.exp,
    28: Floats.log,
    29: lambda floats, x: floats.approximate("ex2", x),
    30: lambda floats, x: floats.approximate("lg2", x),
    31: Floats.root,
    32: lambda floats, x: floats.div(1.0, floats.root(x)),
    37: lambda floats, x, y: floats("min", x, y),
    40: lambda floats, x, y: floats("max", x, y),
    43: _clamp,
    46: _mix,
    48: _step,
    49: _smooth_step,
    50: lambda floats, x, y, z: floats("fma.rn", x, y, z),
    79: lambda floats, x, y: floats("min", x, y),
    80: lambda floats, x, y: floats("max", x, y),
    81: _clamp,
}


def _extreme(name: str, *, signed: bool) -> Callable[..., str]:
    return lambda numbers, scalar, *values: numbers.extreme(scalar, name, *values, signed=signed)


def _integer_clamp(*, signed: bool) -> Callable[..., str]:
    def clamp(numbers: Numbers, scalar: Scalar, x: str, low: str, high: str) -> str:
        larger = numbers.extreme(scalar, "max", x, low, signed=signed)
        return numbers.extreme(scalar, "min", larger, high, signed=signed)

    return clamp


def _integer_sign(numbers: Numbers, scalar: Scalar, x: str) -> str:
    ones = (1 << scalar.bits) - 1
    above = numbers.extreme(scalar, "min", x, "1", signed=True)
    return numbers.extreme(scalar, "max", above, str(ones), signed=True)


def _absolute(numbers: Numbers, scalar: Scalar, x: str) -> str:
    return numbers.extreme(scalar, "max", x, numbers.negated(scalar, x), signed=True)


def _find(kind: str) -> Callable[..., str]:
    def find(numbers: Numbers, scalar: Scalar, x: str) -> str:
        if kind == "lowest":
            x = numbers.bitwise(scalar, "and", x, numbers.negated(scalar, x))
        sign = "s" if kind == "signed" else "u"
        if sign == "s":
            x = numbers.signed(scalar, x)
        return numbers.found(scalar, sign, x)

    return find


_EACH_INTEGER: dict[int, Callable[..., str]] = {
    5: _absolute,
    7: _integer_sign,
    38: _extreme("min", signed=False),
    39: _extreme("min", signed=True),
    41: _extreme("max", signed=False),
    42: _extreme("max", signed=True),
    44: _integer_clamp(signed=False),
    45: _integer_clamp(signed=True),
    73: _find("lowest"),
    74: _find("signed"),
    75: _find("unsigned"),
}


@handles(12)
def _extended(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    set_, number, *operands = instruction.operands[2:]
    name = kernel.module.names.get(set_, "")
    if name != _SET:
        raise RefusedError(f"it is of the set {name!r}")
    if number in _EACH:
        return _each_float(kernel, _EACH[number], operands)
    if number in _EACH_INTEGER:
        columns = [kernel.numbers(operand) for operand in operands]
        scalar = kernel.scalar_of(operands[0])
        numbers = Numbers(kernel.writer)
        function = _EACH_INTEGER[number]
        return [function(numbers, scalar, *each) for each in zip(*columns, strict=True)]
    whole = _WHOLE.get(number)
    if whole is None:
        raise RefusedError(f"it is the function {number} of {_SET}")
    return whole(kernel, operands)


def _each_float(kernel: Kernel, function: Callable[..., str], operands: Sequence[int]) -> Value:
    scalar = kernel.scalar_of(operands[0])
    numbers = Numbers(kernel.writer)
    floats = Floats(kernel, F32 if scalar.bits == 16 else scalar)
    columns = []
    for operand in operands:
        columns.append([numbers.widened(scalar, value)[1] for value in kernel.numbers(operand)])
    results = [function(floats, *each) for each in zip(*columns, strict=True)]
    return [numbers.narrowed(scalar, result) for result in results]


# -- functions of whole vectors and matrices


def _floats_of(kernel: Kernel, operand: int) -> Floats:
    return Floats(kernel, kernel.scalar_of(operand))


def _length_of(kernel: Kernel, floats: Floats, values: list[str]) -> str:
    return floats.root(dot(kernel, floats.scalar, values, values))


def _length(kernel: Kernel, operands: Sequence[int]) -> Value:
    floats = _floats_of(kernel, operands[0])
    return [_length_of(kernel, floats, kernel.numbers(operands[0]))]


def _distance(kernel: Kernel, operands: Sequence[int]) -> Value:
    floats = _floats_of(kernel, operands[0])
    first, second = map(kernel.numbers, operands)
    difference = [floats.sub(a, b) for a, b in zip(first, second, strict=True)]
    return [_length_of(kernel, floats, difference)]


def _cross(kernel: Kernel, operands: Sequence[int]) -> Value:
    floats = _floats_of(kernel, operands[0])
    first, second = map(kernel.numbers, operands)
    result = []
    for one, two in ((1, 2), (2, 0), (0, 1)):
        positive = floats.mul(first[one], second[two])
        result.append(floats.sub(positive, floats.mul(first[two], second[one])))
    return result


def _normalize(kernel: Kernel, operands: Sequence[int]) -> Value:
    floats = _floats_of(kernel, operands[0])
    values = kernel.numbers(operands[0])
    length = _length_of(kernel, floats, values)
    return [floats.div(value, length) for value in values]


def _face_forward(kernel: Kernel, operands: Sequence[int]) -> Value:
    floats = _floats_of(kernel, operands[0])
    normal, incident, reference = map(kernel.numbers, operands)
    holds = floats.less(dot(kernel, floats.scalar, incident, reference), 0.0)
    return [floats.pick(holds, value, floats("neg", value)) for value in normal]


def _reflect(kernel: Kernel, operands: Sequence[int]) -> Value:
    floats = _floats_of(kernel, operands[0])
    incident, normal = map(kernel.numbers, operands)
    factor = floats.mul(dot(kernel, floats.scalar, normal, incident), 2.0)
    pairs = zip(incident, normal, strict=True)
    return [floats.sub(value, floats.mul(factor, along)) for value, along in pairs]


def _refract(kernel: Kernel, operands: Sequence[int]) -> Value:
    floats = _floats_of(kernel, operands[0])
    incident, normal, (ratio,) = map(kernel.numbers, operands)
    cosine = dot(kernel, floats.scalar, normal, incident)
    inner = floats.sub(1.0, floats.mul(cosine, cosine))
    left = floats.sub(1.0, floats.mul(floats.mul(ratio, ratio), inner))
    is_total = floats.less(left, 0.0)
    factor = floats.add(floats.mul(ratio, cosine), floats.root(left))
    result = []
    for value, along in zip(incident, normal, strict=True):
        bent = floats.sub(floats.mul(ratio, value), floats.mul(factor, along))
        result.append(floats.pick(is_total, 0.0, bent))
    return result


def _integer_part(kernel: Kernel, operand: int) -> tuple[list[str], list[str]]:
    """Return the fractions and the integral parts of numbers."""
    scalar = kernel.scalar_of(operand)
    numbers = Numbers(kernel.writer)
    wholes = [numbers.integral(scalar, "rzi", value) for value in kernel.numbers(operand)]
    fractions = []
    for value, whole in zip(kernel.numbers(operand), wholes, strict=True):
        fractions.append(numbers.plain(scalar, "sub.rn", value, whole))
    return fractions, wholes


def _modf(kernel: Kernel, operands: Sequence[int]) -> Value:
    fractions, wholes = _integer_part(kernel, operands[0])
    kernel.memory.store(kernel.pointer(operands[1]), wholes)
    return fractions


def _modf_struct(kernel: Kernel, operands: Sequence[int]) -> Value:
    fractions, wholes = _integer_part(kernel, operands[0])
    return fractions + wholes


def _significand(kernel: Kernel, scalar: Scalar, value: str) -> tuple[str, str]:
    """Return the significand, from a half to one, and the exponent of a float."""
    if scalar.bits == 16:
        numbers = Numbers(kernel.writer)
        _, wide = numbers.widened(scalar, value)
        part, exponent = _significand(kernel, F32, wide)
        return numbers.narrowed(scalar, part), exponent
    floats = Floats(kernel, scalar)
    writer = kernel.writer
    fraction_bits, bias, power = {32: (23, 126, 64), 64: (52, 1022, 128)}[scalar.bits]
    kind = f"b{scalar.bits}"
    smallest = floats.less(floats("abs", value), 2.0 ** (2 - bias))
    scaled = floats.pick(smallest, floats.mul(value, 2.0**power), value)
    bits = floats.numbers.bits(scalar, scaled)
    exponent = writer.op(
        kind, f"bfe.u{scalar.bits}", bits, str(fraction_bits), str(scalar.bits - fraction_bits - 1)
    )
    if scalar.bits == 64:
        exponent = writer.op("b32", "cvt.u32.u64", exponent)
    offset = writer.op("b32", "selp.b32", str(bias + power), str(bias), smallest)
    exponent = writer.op("b32", "sub.s32", exponent, offset)
    kept = writer.op(
        kind, f"and.{kind}", bits, f"0x{(1 << scalar.bits - 1) | (1 << fraction_bits) - 1:X}"
    )
    kept = writer.op(kind, f"or.{kind}", kept, f"0x{bias << fraction_bits:X}")
    part = floats.numbers.from_bits(scalar, kept)
    zero = floats.numbers.float_compared(scalar, "eq", value, floats.value(0.0))
    part = floats.pick(zero, value, part)
    return part, writer.op("b32", "selp.b32", "0", exponent, zero)


def _significands(kernel: Kernel, operand: int) -> tuple[list[str], list[str]]:
    scalar = kernel.scalar_of(operand)
    pairs = [_significand(kernel, scalar, value) for value in kernel.numbers(operand)]
    return [part for part, _ in pairs], [exponent for _, exponent in pairs]


def _frexp(kernel: Kernel, operands: Sequence[int]) -> Value:
    parts, exponents = _significands(kernel, operands[0])
    kernel.memory.store(kernel.pointer(operands[1]), exponents)
    return parts


def _frexp_struct(kernel: Kernel, operands: Sequence[int]) -> Value:
    parts, exponents = _significands(kernel, operands[0])
    return parts + exponents


def _ldexp(kernel: Kernel, operands: Sequence[int]) -> Value:
    scalar = kernel.scalar_of(operands[0])
    numbers = Numbers(kernel.writer)
    writer = kernel.writer
    wide = F32 if scalar.bits == 16 else scalar
    floats = Floats(kernel, wide)
    fraction_bits, bias = {32: (23, 127), 64: (52, 1023)}[wide.bits]
    exponent_scalar = kernel.scalar_of(operands[1])
    results = []
    for value, power in zip(*map(kernel.numbers, operands), strict=True):
        power = numbers.converted(exponent_scalar, Scalar("int", 32, True), power, signed=True)
        limit = 2 * bias - 2
        power = writer.op("b32", "min.s32", power, str(limit))
        power = writer.op("b32", "max.s32", power, str(-limit))
        half = writer.op("b32", "shr.s32", power, "1")
        rest = writer.op("b32", "sub.s32", power, half)
        _, result = numbers.widened(scalar, value)
        for part in (half, rest):
            biased = writer.op("b32", "add.s32", part, str(bias))
            bits = numbers.converted(U32, Scalar("int", wide.bits), biased, signed=False)
            bits = writer.op(f"b{wide.bits}", f"shl.b{wide.bits}", bits, str(fraction_bits))
            result = floats.mul(result, numbers.from_bits(wide, bits))
        results.append(numbers.narrowed(scalar, result))
    return results


# -- numbers in parts of an integer


def _pack(bits: int, *, signed: bool) -> Callable[[Kernel, Sequence[int]], Value]:
    scale = float((1 << bits - signed) - 1)

    def pack(kernel: Kernel, operands: Sequence[int]) -> Value:
        floats = Floats(kernel, F32)
        writer = kernel.writer
        total = ""
        for index, value in enumerate(kernel.numbers(operands[0])):
            low = -1.0 if signed else 0.0
            clamped = floats("min", floats("max", value, low), 1.0)
            scaled = floats.mul(clamped, scale)
            number = writer.op("b32", "cvt.rni.s32.f32", writer.held(F32, scaled))
            part = writer.op("b32", "and.b32", number, str((1 << bits) - 1))
            part = writer.op("b32", "shl.b32", part, str(index * bits))
            total = writer.op("b32", "or.b32", total, part) if total else part
        return [total]

    return pack


def _unpack(bits: int, *, signed: bool) -> Callable[[Kernel, Sequence[int]], Value]:
    scale = float((1 << bits - signed) - 1)

    def unpack(kernel: Kernel, operands: Sequence[int]) -> Value:
        floats = Floats(kernel, F32)
        writer = kernel.writer
        value = kernel.one(operands[0])
        sign = "s" if signed else "u"
        result = []
        for shift in range(0, 32, bits):
            part = writer.op("b32", f"bfe.{sign}32", value, str(shift), str(bits))
            number = floats.div(writer.op("f32", f"cvt.rn.f32.{sign}32", part), scale)
            if signed:
                number = floats("max", number, -1.0)
            result.append(number)
        return result

    return unpack


def _pack_halves(kernel: Kernel, operands: Sequence[int]) -> Value:
    writer = kernel.writer
    halves = []
    for value in kernel.numbers(operands[0]):
        halves.append(writer.op("b16", "cvt.rn.f16.f32", writer.held(F32, value)))
    return [writer.op("b32", "mov.b32", joined(halves))]


def _unpack_halves(kernel: Kernel, operands: Sequence[int]) -> Value:
    halves = Numbers(kernel.writer).halves(kernel.one(operands[0]))
    return [kernel.writer.op("f32", "cvt.f32.f16", half) for half in halves]


def _pack_double(kernel: Kernel, operands: Sequence[int]) -> Value:
    numbers = Numbers(kernel.writer)
    double = Scalar("float", 64)
    bits = numbers.combined(U32, double, kernel.numbers(operands[0]))
    return [numbers.from_bits(double, bits)]


def _unpack_double(kernel: Kernel, operands: Sequence[int]) -> Value:
    numbers = Numbers(kernel.writer)
    double = Scalar("float", 64)
    bits = numbers.bits(double, kernel.one(operands[0]))
    return numbers.divided(double, U32, bits)


# -- matrices


def _minor(columns: list[list[str]], column: int, row: int) -> list[list[str]]:
    """Return a matrix without a column and a row."""
    rest = columns[:column] + columns[column + 1 :]
    return [each[:row] + each[row + 1 :] for each in rest]


def _determinant_of(floats: Floats, columns: list[list[str]]) -> str:
    if len(columns) == 1:
        return columns[0][0]
    total = ""
    for index, column in enumerate(columns):
        product = floats.mul(column[0], _determinant_of(floats, _minor(columns, index, 0)))
        if not total:
            total = product
        else:
            total = floats("sub.rn" if index % 2 else "add.rn", total, product)
    return total


def _square(kernel: Kernel, operand: int) -> tuple[Floats, list[list[str]]]:
    values = kernel.numbers(operand)
    size = kernel.types.count(kernel.type_of(operand))
    columns = [values[at : at + size] for at in range(0, len(values), size)]
    if len(values) != size * size or size > 4:
        raise RefusedError("its matrix is not square")
    return Floats(kernel, kernel.types.numbers(kernel.type_of(operand))[0]), columns


def _determinant(kernel: Kernel, operands: Sequence[int]) -> Value:
    return [_determinant_of(*_square(kernel, operands[0]))]


def _inverse(kernel: Kernel, operands: Sequence[int]) -> Value:
    floats, columns = _square(kernel, operands[0])
    determinant = _determinant_of(floats, columns)
    result = []
    for column in range(len(columns)):
        for row in range(len(columns)):
            # The inverse is the transpose of the cofactors, divided.
            cofactor = _determinant_of(floats, _minor(columns, row, column))
            if (row + column) % 2:
                cofactor = floats("neg", cofactor)
            result.append(floats.div(cofactor, determinant))
    return result


_WHOLE: dict[int, Callable[[Kernel, Sequence[int]], Value]] = {
    33: _determinant,
    34: _inverse,
    35: _modf,
    36: _modf_struct,
    51: _frexp,
    52: _frexp_struct,
    53: _ldexp,
    54: _pack(8, signed=True),
    55: _pack(8, signed=False),
    56: _pack(16, signed=True),
    57: _pack(16, signed=False),
    58: _pack_halves,
    59: _pack_double,
    60: _unpack(16, signed=True),
    61: _unpack(16, signed=False),
    62: _unpack_halves,
    63: _unpack(8, signed=True),
    64: _unpack(8, signed=False),
    65: _unpack_double,
    66: _length,
    67: _distance,
    68: _cross,
    69: _normalize,
    70: _face_forward,
    71: _reflect,
    72: _refract,
}
