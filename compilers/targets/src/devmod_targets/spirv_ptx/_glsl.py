"""The functions of GLSL.std.450.

Trigonometric functions, exponentials, logarithms and powers are those of PTX, `sin.approx` and
the like, or are computed from them: approximations. The inverse trigonometric functions are
polynomials of Cephes' single-precision functions, exact to about 2**-22.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from devmod_targets.spirv_ptx._floats import Float, total
from devmod_targets.spirv_ptx._kernel import Kernel, handles
from devmod_targets.spirv_ptx._numbers import Numbers
from devmod_targets.spirv_ptx._types import F32, U32, RefusedError, Scalar
from devmod_targets.spirv_ptx._writer import joined

if TYPE_CHECKING:
    from devmod_readers.spirv import SpirvInstruction
    from devmod_targets.spirv_ptx._memory import Value

_SET = "GLSL.std.450"


# -- functions of numbers


def _arctangent(x: Float) -> Float:
    magnitude = abs(x)
    is_small = magnitude.is_below(math.tan(math.pi / 8))
    is_middle = magnitude.is_below(math.tan(3 * math.pi / 8))
    middle = (magnitude - 1.0) / (magnitude + 1.0)
    reduced = magnitude.where(is_small, middle.where(is_middle, -1.0 / magnitude))
    # From the angle of the reduced number to that of the number.
    start = x.constant(math.pi / 4).where(is_middle, math.pi / 2)
    start = x.constant(0.0).where(is_small, start)
    square = reduced * reduced
    series = square.polynomial(
        8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1
    )
    return (start + (series * square * reduced + reduced)).with_sign(x)


def _arctangent_of_two(y: Float, x: Float) -> Float:
    angle = _arctangent(y / x)
    half = x.constant(math.pi).with_sign(y)
    angle = (angle + half).where(x.is_below(0.0), angle)
    along = x.constant(math.pi).where(x.is_signed(), 0.0).with_sign(y)
    return along.where(y.is_zero(), angle)


def _arcsine(x: Float) -> Float:
    magnitude = abs(x)
    is_small = magnitude.is_below(0.5)
    halved = (1.0 - magnitude) * 0.5
    square = (magnitude * magnitude).where(is_small, halved)
    base = magnitude.where(is_small, halved.root())
    series = square.polynomial(
        4.2163199048e-2,
        2.4181311049e-2,
        4.5470025998e-2,
        7.4953002686e-2,
        1.6666752422e-1,
    )
    near = series * square * base + base
    return near.where(is_small, math.pi / 2 - near * 2.0).with_sign(x)


def _fraction(x: Float) -> Float:
    return x - x.integral("rmi")


def _sign(x: Float) -> Float:
    return x.constant(0.0).where(x.is_zero(), x.constant(1.0).with_sign(x))


def _clamp(x: Float, low: Float | float, high: Float | float) -> Float:
    return x.at_least(low).at_most(high)


def _smooth_step(low: Float, high: Float, x: Float) -> Float:
    share = _clamp((x - low) / (high - low), 0.0, 1.0)
    return share * share * (3.0 - share * 2.0)


#: By their numbers in the set.
_EACH: dict[int, Callable[..., Float]] = {
    1: lambda x: x.integral("rni"),
    2: lambda x: x.integral("rni"),
    3: lambda x: x.integral("rzi"),
    4: abs,
    6: _sign,
    8: lambda x: x.integral("rmi"),
    9: lambda x: x.integral("rpi"),
    10: _fraction,
    11: lambda x: x * (math.pi / 180),
    12: lambda x: x * (180 / math.pi),
    13: lambda x: x.approximate("sin"),
    14: lambda x: x.approximate("cos"),
    15: lambda x: x.approximate("sin") / x.approximate("cos"),
    16: _arcsine,
    17: lambda x: math.pi / 2 - _arcsine(x),
    18: _arctangent,
    19: lambda x: (x.exp() - (-x).exp()) * 0.5,
    20: lambda x: (x.exp() + (-x).exp()) * 0.5,
    21: lambda x: x.approximate("tanh"),
    22: lambda x: (abs(x) + (x * x + 1.0).root()).log().with_sign(x),
    23: lambda x: (x + (x * x - 1.0).root()).log(),
    24: lambda x: ((x + 1.0) / (1.0 - x)).log() * 0.5,
    25: _arctangent_of_two,
    26: lambda x, y: (x.approximate("lg2") * y).approximate("ex2"),
    27: Float.exp,
    28: Float.log,
    29: lambda x: x.approximate("ex2"),
    30: lambda x: x.approximate("lg2"),
    31: Float.root,
    32: lambda x: 1.0 / x.root(),
    37: Float.at_most,
    40: Float.at_least,
    43: _clamp,
    46: lambda x, y, share: x * (1.0 - share) + y * share,
    48: lambda edge, x: x.constant(0.0).where(x.is_below(edge), 1.0),
    49: _smooth_step,
    50: lambda x, y, z: x.apply("fma.rn", x, y, z),
    79: Float.at_most,
    80: Float.at_least,
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
    if number in _VECTORS:
        return _vector(kernel, _VECTORS[number], operands)
    whole = _WHOLE.get(number)
    if whole is None:
        raise RefusedError(f"it is the function {number} of {_SET}")
    return whole(kernel, operands)


def _each_float(kernel: Kernel, function: Callable[..., Float], operands: Sequence[int]) -> Value:
    scalar = kernel.scalar_of(operands[0])
    numbers = Numbers(kernel.writer)
    columns = [_floats(kernel, operand) for operand in operands]
    results = [function(*each) for each in zip(*columns, strict=True)]
    return [numbers.narrowed(scalar, result.text) for result in results]


def _floats(kernel: Kernel, operand: int) -> list[Float]:
    """Return the floats of a value; those of 16 bits as 32."""
    scalar = kernel.types.numbers(kernel.type_of(operand))[0]
    numbers = Numbers(kernel.writer)
    result = []
    for value in kernel.numbers(operand):
        wide, text = numbers.widened(scalar, value)
        result.append(Float(kernel.writer, wide, text))
    return result


# -- functions of vectors


def _dot(first: list[Float], second: list[Float]) -> Float:
    return total([a * b for a, b in zip(first, second, strict=True)])


def _length(values: list[Float]) -> list[Float]:
    return [_dot(values, values).root()]


def _distance(first: list[Float], second: list[Float]) -> list[Float]:
    return _length([a - b for a, b in zip(first, second, strict=True)])


def _cross(a: list[Float], b: list[Float]) -> list[Float]:
    return [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]


def _normalize(values: list[Float]) -> list[Float]:
    (length,) = _length(values)
    return [value / length for value in values]


def _face_forward(
    normal: list[Float], incident: list[Float], reference: list[Float]
) -> list[Float]:
    holds = _dot(incident, reference).is_below(0.0)
    return [value.where(holds, -value) for value in normal]


def _reflect(incident: list[Float], normal: list[Float]) -> list[Float]:
    factor = _dot(normal, incident) * 2.0
    return [value - factor * along for value, along in zip(incident, normal, strict=True)]


def _refract(incident: list[Float], normal: list[Float], ratios: list[Float]) -> list[Float]:
    (ratio,) = ratios
    cosine = _dot(normal, incident)
    left = 1.0 - ratio * ratio * (1.0 - cosine * cosine)
    is_total = left.is_below(0.0)
    factor = ratio * cosine + left.root()
    result = []
    for value, along in zip(incident, normal, strict=True):
        bent = ratio * value - factor * along
        result.append(bent.constant(0.0).where(is_total, bent))
    return result


_VECTORS: dict[int, Callable[..., list[Float]]] = {
    66: _length,
    67: _distance,
    68: _cross,
    69: _normalize,
    70: _face_forward,
    71: _reflect,
    72: _refract,
}


def _vector(kernel: Kernel, function: Callable[..., list[Float]], operands: Sequence[int]) -> Value:
    scalar = kernel.scalar_of(operands[0])
    numbers = Numbers(kernel.writer)
    results = function(*[_floats(kernel, operand) for operand in operands])
    return [numbers.narrowed(scalar, result.text) for result in results]


# -- parts of numbers


def _integer_part(kernel: Kernel, operand: int) -> tuple[list[str], list[str]]:
    """Return the fractions and the integral parts of numbers."""
    numbers = Numbers(kernel.writer)
    scalar = kernel.scalar_of(operand)
    fractions = []
    wholes = []
    for value in _floats(kernel, operand):
        whole = value.integral("rzi")
        fractions.append(numbers.narrowed(scalar, (value - whole).text))
        wholes.append(numbers.narrowed(scalar, whole.text))
    return fractions, wholes


def _significands(kernel: Kernel, operand: int) -> tuple[list[str], list[str]]:
    """Return the significands and the exponents of numbers."""
    numbers = Numbers(kernel.writer)
    scalar = kernel.scalar_of(operand)
    parts = []
    exponents = []
    for value in _floats(kernel, operand):
        part, exponent = _significand(value)
        parts.append(numbers.narrowed(scalar, part.text))
        exponents.append(exponent)
    return parts, exponents


def _significand(value: Float) -> tuple[Float, str]:
    """Return the significand, from a half to one, and the exponent of a float."""
    writer = value.writer
    width = value.scalar.bits
    fraction, bias, power = {32: (23, 126, 64), 64: (52, 1022, 128)}[width]
    numbers = Numbers(writer)
    kind = f"b{width}"
    # A subnormal number has no exponent of its own.
    is_small = abs(value).is_below(2.0 ** (2 - bias))
    bits = numbers.bits(value.scalar, (value * 2.0**power).where(is_small, value).text)
    exponent = writer.op(kind, f"bfe.u{width}", bits, str(fraction), str(width - fraction - 1))
    exponent = numbers.converted(Scalar("int", width), U32, exponent, signed=False)
    offset = writer.op("b32", "selp.b32", str(bias + power), str(bias), is_small)
    exponent = writer.op("b32", "sub.s32", exponent, offset)
    kept = f"0x{(1 << width - 1) | (1 << fraction) - 1:X}"
    bits = writer.op(kind, f"and.{kind}", bits, kept)
    bits = writer.op(kind, f"or.{kind}", bits, f"0x{bias << fraction:X}")
    part = value.like(numbers.from_bits(value.scalar, bits))
    is_zero = value.is_zero()
    return value.where(is_zero, part), writer.op("b32", "selp.b32", "0", exponent, is_zero)


def _two_results(
    split: Callable[[Kernel, int], tuple[list[str], list[str]]],
) -> Callable[[Kernel, Sequence[int]], Value]:
    """Return the function whose second result is stored by a pointer, or part of a struct."""

    def function(kernel: Kernel, operands: Sequence[int]) -> Value:
        first, second = split(kernel, operands[0])
        if len(operands) == 1:
            return first + second
        kernel.memory.store(kernel.pointer(operands[1]), second)
        return first

    return function


def _ldexp(kernel: Kernel, operands: Sequence[int]) -> Value:
    scalar = kernel.scalar_of(operands[0])
    exponent_scalar = kernel.scalar_of(operands[1])
    numbers = Numbers(kernel.writer)
    writer = kernel.writer
    results = []
    pairs = zip(_floats(kernel, operands[0]), kernel.numbers(operands[1]), strict=True)
    for result, power in pairs:
        wide = result.scalar
        fraction, bias = {32: (23, 127), 64: (52, 1023)}[wide.bits]
        # The power of two may be larger than a float: it is two factors.
        limit = 2 * bias - 2
        power = numbers.converted(exponent_scalar, Scalar("int", 32, True), power, signed=True)
        power = writer.op("b32", "min.s32", power, str(limit))
        power = writer.op("b32", "max.s32", power, str(-limit))
        half = writer.op("b32", "shr.s32", power, "1")
        for part in (half, writer.op("b32", "sub.s32", power, half)):
            biased = writer.op("b32", "add.s32", part, str(bias))
            bits = numbers.converted(U32, Scalar("int", wide.bits), biased, signed=False)
            bits = writer.op(f"b{wide.bits}", f"shl.b{wide.bits}", bits, str(fraction))
            result = result * result.like(numbers.from_bits(wide, bits))
        results.append(numbers.narrowed(scalar, result.text))
    return results


# -- numbers in parts of an integer


def _pack(bits: int, *, signed: bool) -> Callable[[Kernel, Sequence[int]], Value]:
    scale = float((1 << bits - signed) - 1)

    def pack(kernel: Kernel, operands: Sequence[int]) -> Value:
        writer = kernel.writer
        word = ""
        for index, value in enumerate(_floats(kernel, operands[0])):
            scaled = _clamp(value, -1.0 if signed else 0.0, 1.0) * scale
            number = writer.op("b32", "cvt.rni.s32.f32", scaled.text)
            part = writer.op("b32", "and.b32", number, str((1 << bits) - 1))
            part = writer.op("b32", "shl.b32", part, str(index * bits))
            word = writer.op("b32", "or.b32", word, part) if word else part
        return [word]

    return pack


def _unpack(bits: int, *, signed: bool) -> Callable[[Kernel, Sequence[int]], Value]:
    scale = float((1 << bits - signed) - 1)

    def unpack(kernel: Kernel, operands: Sequence[int]) -> Value:
        writer = kernel.writer
        value = kernel.one(operands[0])
        sign = "s" if signed else "u"
        result = []
        for shift in range(0, 32, bits):
            part = writer.op("b32", f"bfe.{sign}32", value, str(shift), str(bits))
            text = writer.op("f32", f"cvt.rn.f32.{sign}32", part)
            number = Float(writer, F32, text) / scale
            if signed:
                number = number.at_least(-1.0)
            result.append(number.text)
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


def _minor(columns: list[list[Float]], column: int, row: int) -> list[list[Float]]:
    """Return a matrix without a column and a row."""
    rest = columns[:column] + columns[column + 1 :]
    return [each[:row] + each[row + 1 :] for each in rest]


def _determinant_of(columns: list[list[Float]]) -> Float:
    if len(columns) == 1:
        return columns[0][0]
    products = []
    for index, column in enumerate(columns):
        product = column[0] * _determinant_of(_minor(columns, index, 0))
        products.append(-product if index % 2 else product)
    return total(products)


def _square(kernel: Kernel, operand: int) -> list[list[Float]]:
    values = _floats(kernel, operand)
    size = kernel.types.count(kernel.type_of(operand))
    if len(values) != size * size or size > 4:
        raise RefusedError("its matrix is not square")
    return [values[at : at + size] for at in range(0, len(values), size)]


def _determinant(kernel: Kernel, operands: Sequence[int]) -> Value:
    scalar = kernel.types.numbers(kernel.type_of(operands[0]))[0]
    result = _determinant_of(_square(kernel, operands[0]))
    return [Numbers(kernel.writer).narrowed(scalar, result.text)]


def _inverse(kernel: Kernel, operands: Sequence[int]) -> Value:
    scalar = kernel.types.numbers(kernel.type_of(operands[0]))[0]
    columns = _square(kernel, operands[0])
    determinant = _determinant_of(columns)
    result = []
    for column in range(len(columns)):
        for row in range(len(columns)):
            # The inverse is the transpose of the cofactors, divided.
            cofactor = _determinant_of(_minor(columns, row, column))
            if (row + column) % 2:
                cofactor = -cofactor
            quotient = cofactor / determinant
            result.append(Numbers(kernel.writer).narrowed(scalar, quotient.text))
    return result


_WHOLE: dict[int, Callable[[Kernel, Sequence[int]], Value]] = {
    33: _determinant,
    34: _inverse,
    **dict.fromkeys((35, 36), _two_results(_integer_part)),
    **dict.fromkeys((51, 52), _two_results(_significands)),
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
}
