"""Arithmetic, comparisons and conversions, one number at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from devmod_readers.spirv import SpirvInstruction
from devmod_targets.spirv_ptx._kernel import Kernel, handles
from devmod_targets.spirv_ptx._numbers import Numbers
from devmod_targets.spirv_ptx._types import U32, RefusedError, Scalar

if TYPE_CHECKING:
    from devmod_targets.spirv_ptx._memory import Value

    Operation = Callable[..., str]

#: Comparisons of integers: the suffix of setp, and whether the operands are signed.
_COMPARISONS = {
    170: ("eq", False),
    171: ("ne", False),
    172: ("gt", False),
    173: ("gt", True),
    174: ("ge", False),
    175: ("ge", True),
    176: ("lt", False),
    177: ("lt", True),
    178: ("le", False),
    179: ("le", True),
}
_FLOAT_NAMES = ("eq", "equ", "ne", "neu", "lt", "ltu", "gt", "gtu", "le", "leu", "ge", "geu")
#: Comparisons of floats.
_FLOAT_COMPARISONS = dict(zip(range(180, 192), _FLOAT_NAMES, strict=True))


def each_number(
    kernel: Kernel, instruction: SpirvInstruction, operation: Operation, first: int = 2
) -> list[str]:
    """Apply an operation to the numbers of the operands: it gets the numbers' translation, the
    scalar of the first operand, and the values.
    """
    operands = instruction.operands[first:]
    scalar = kernel.scalar_of(operands[0])
    numbers = Numbers(kernel.writer)
    columns = [kernel.numbers(operand) for operand in operands]
    return [operation(numbers, scalar, *each) for each in zip(*columns, strict=True)]


_INTEGERS: dict[int, Operation] = {
    126: Numbers.negated,
    128: Numbers.sum,
    130: Numbers.difference,
    132: Numbers.product,
    134: Numbers.unsigned_quotient,
    135: Numbers.signed_quotient,
    137: Numbers.unsigned_remainder,
    138: Numbers.signed_remainder,
    139: Numbers.signed_modulo,
    194: Numbers.shifted_right,
    195: Numbers.shifted_right_signed,
    196: Numbers.shifted_left,
    197: lambda numbers, scalar, *values: numbers.bitwise(scalar, "or", *values),
    198: lambda numbers, scalar, *values: numbers.bitwise(scalar, "xor", *values),
    199: lambda numbers, scalar, *values: numbers.bitwise(scalar, "and", *values),
    200: Numbers.inverted,
    204: Numbers.reversed_bits,
}
_FLOATS: dict[int, Operation] = {
    127: Numbers.float_negated,
    129: lambda numbers, scalar, *values: numbers.plain(scalar, "add.rn", *values),
    131: lambda numbers, scalar, *values: numbers.plain(scalar, "sub.rn", *values),
    133: lambda numbers, scalar, *values: numbers.plain(scalar, "mul.rn", *values),
    136: lambda numbers, scalar, *values: numbers.plain(scalar, "div.rn", *values),
    140: Numbers.float_remainder,
    141: Numbers.float_modulo,
}
for _opcode, _operation in (_INTEGERS | _FLOATS).items():
    handles(_opcode)(
        lambda kernel, instruction, operation=_operation: each_number(  # type: ignore[misc]
            kernel, instruction, operation
        )
    )


@handles(*_COMPARISONS)
def _compare(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    name, signed = _COMPARISONS[instruction.opcode]

    def compare(numbers: Numbers, scalar: Scalar, first: str, second: str) -> str:
        return numbers.compared(scalar, name, first, second, signed=signed)

    return each_number(kernel, instruction, compare)


@handles(*_FLOAT_COMPARISONS)
def _compare_floats(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    name = _FLOAT_COMPARISONS[instruction.opcode]

    def compare(numbers: Numbers, scalar: Scalar, first: str, second: str) -> str:
        return numbers.float_compared(scalar, name, first, second)

    return each_number(kernel, instruction, compare)


@handles(156, 157, 158, 160)
def _classify(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    name = {156: "notanumber", 157: "infinite", 158: "finite", 160: "sign"}[instruction.opcode]
    return each_number(
        kernel,
        instruction,
        lambda numbers, scalar, value: numbers.classified(scalar, name, value),
    )


@handles(164, 165, 166, 167)
def _logical(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    name = {164: "xor", 165: "xor", 166: "or", 167: "and"}[instruction.opcode]
    writer = kernel.writer

    def combine(_numbers: Numbers, _scalar: Scalar, first: str, second: str) -> str:
        values = map(writer.predicate, (first, second))
        result = writer.op("pred", f"{name}.pred", *values)
        if instruction.opcode == 164:
            result = writer.op("pred", "not.pred", result)
        return result

    return each_number(kernel, instruction, combine)


@handles(168)
def _logical_not(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    writer = kernel.writer
    return each_number(
        kernel,
        instruction,
        lambda numbers, scalar, value: writer.op("pred", "not.pred", writer.predicate(value)),
    )


@handles(154, 155)
def _any_or_all(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    name = "or" if instruction.opcode == 154 else "and"
    writer = kernel.writer
    first, *others = map(writer.predicate, kernel.numbers(instruction.operands[2]))
    for other in others:
        first = writer.op("pred", f"{name}.pred", first, other)
    return [first]


# -- conversions


@handles(109, 110, 111, 112, 113, 114, 115)
def _convert(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    target = kernel.types.scalar(instruction.operands[0])
    signed = instruction.opcode in (110, 111, 114)
    return each_number(
        kernel,
        instruction,
        lambda numbers, scalar, value: numbers.converted(scalar, target, value, signed=signed),
    )


@handles(116)
def _quantize(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    half = Scalar("float", 16)

    def quantize(numbers: Numbers, scalar: Scalar, value: str) -> str:
        small = numbers.converted(scalar, half, value, signed=True)
        return numbers.converted(half, scalar, small, signed=True)

    return each_number(kernel, instruction, quantize)


@handles(124)
def _bitcast(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    type_, _, operand = instruction.operands
    source_type = kernel.type_of(operand)
    sources = kernel.types.numbers(source_type)
    targets = kernel.types.numbers(type_)
    values = kernel.numbers(operand)
    source = sources[0]
    target = targets[0]
    numbers = Numbers(kernel.writer)
    bits = [numbers.bits(source, value) for value in values]
    if source.size < target.size:
        ratio = target.size // source.size
        groups = [bits[at : at + ratio] for at in range(0, len(bits), ratio)]
        bits = [numbers.combined(source, target, group) for group in groups]
    elif source.size > target.size:
        parts: list[str] = []
        for value in bits:
            parts += numbers.divided(source, target, value)
        bits = parts
    return [numbers.from_bits(target, value) for value in bits]


# -- bits


@handles(201)
def _insert_bits(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    base, new, offset, count = instruction.operands[2:]
    scalar = kernel.scalar_of(base)
    if scalar.bits not in (32, 64):
        raise RefusedError("it inserts bits into a number of 8 or 16 bits")
    place, width = _unsigned_pair(kernel, offset, count)
    kind = scalar.register
    pairs = zip(kernel.numbers(base), kernel.numbers(new), strict=True)
    return [
        kernel.writer.op(kind, f"bfi.{kind}", part, value, place, width) for value, part in pairs
    ]


@handles(202, 203)
def _extract_bits(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    base, offset, count = instruction.operands[2:]
    scalar = kernel.scalar_of(base)
    if scalar.bits not in (32, 64):
        raise RefusedError("it extracts bits of a number of 8 or 16 bits")
    place, width = _unsigned_pair(kernel, offset, count)
    sign = "s" if instruction.opcode == 202 else "u"
    opcode = f"bfe.{sign}{scalar.bits}"
    values = kernel.numbers(base)
    return [kernel.writer.op(scalar.register, opcode, value, place, width) for value in values]


def _unsigned_pair(kernel: Kernel, offset: int, count: int) -> tuple[str, str]:
    """Return the offset and the number of bits in registers of 32 bits."""
    numbers = Numbers(kernel.writer)
    values = []
    for operand in (offset, count):
        scalar = kernel.scalar_of(operand)
        values.append(numbers.converted(scalar, U32, kernel.one(operand), signed=False))
    return values[0], values[1]


@handles(205)
def _count_bits(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    target = kernel.types.scalar(instruction.operands[0])

    def count(numbers: Numbers, scalar: Scalar, value: str) -> str:
        result = kernel.writer.op("b32", f"popc.{scalar.register}", value)
        return numbers.converted(U32, target, result, signed=False)

    return each_number(kernel, instruction, count)


@handles(149, 150)
def _with_carry(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    first, second = instruction.operands[2:4]
    scalar = kernel.scalar_of(first)
    numbers = Numbers(kernel.writer)
    results = []
    carries = []
    for a, b in zip(kernel.numbers(first), kernel.numbers(second), strict=True):
        if instruction.opcode == 149:
            result = numbers.sum(scalar, a, b)
            carry = numbers.compared(scalar, "lt", result, a, signed=False)
        else:
            result = numbers.difference(scalar, a, b)
            carry = numbers.compared(scalar, "lt", a, b, signed=False)
        results.append(result)
        kind = scalar.register
        carries.append(kernel.writer.op(kind, f"selp.{kind}", "1", "0", carry))
    return results + carries


@handles(151, 152)
def _extended_product(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    first, second = instruction.operands[2:4]
    scalar = kernel.scalar_of(first)
    if scalar.bits not in (32, 64):
        raise RefusedError("it multiplies numbers of 8 or 16 bits")
    sign = "u" if instruction.opcode == 151 else "s"
    low = []
    high = []
    for a, b in zip(kernel.numbers(first), kernel.numbers(second), strict=True):
        kind = f"{sign}{scalar.bits}"
        low.append(kernel.writer.op(scalar.register, f"mul.lo.{kind}", a, b))
        high.append(kernel.writer.op(scalar.register, f"mul.hi.{kind}", a, b))
    return low + high


# -- vectors and matrices


def _scaled(kernel: Kernel, values: list[str], scalar: Scalar, factor: str) -> list[str]:
    numbers = Numbers(kernel.writer)
    return [numbers.plain(scalar, "mul.rn", value, factor) for value in values]


@handles(142, 143)
def _times_scalar(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    composite, factor = instruction.operands[2:4]
    return _scaled(kernel, kernel.numbers(composite), kernel.scalar_of(factor), kernel.one(factor))


def dot(kernel: Kernel, scalar: Scalar, first: list[str], second: list[str]) -> str:
    """Return the sum of the products of numbers."""
    numbers = Numbers(kernel.writer)
    total = ""
    for a, b in zip(first, second, strict=True):
        product = numbers.plain(scalar, "mul.rn", a, b)
        total = numbers.plain(scalar, "add.rn", total, product) if total else product
    return total


@handles(148)
def _dot(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    first, second = instruction.operands[2:4]
    scalar = kernel.scalar_of(first)
    return [dot(kernel, scalar, kernel.numbers(first), kernel.numbers(second))]


@handles(4450, 4451, 4452)
def _integer_dot(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    """The dot product of integers: of vectors, or of four bytes in a number."""
    target = kernel.types.scalar(instruction.operands[0])
    operands = instruction.operands[2:4]
    # The second operand of OpSUDot is unsigned.
    signs = {4450: "ss", 4451: "uu", 4452: "su"}[instruction.opcode]
    numbers = Numbers(kernel.writer)
    if len(instruction.operands) > 4:
        forms = ".".join(f"{sign}32" for sign in signs)
        first, second = map(kernel.one, operands)
        result = kernel.writer.op("b32", f"dp4a.{forms}", first, second, "0")
        return [numbers.converted(U32, target, result, signed=signs[0] == "s")]
    columns = []
    for operand, sign in zip(operands, signs, strict=True):
        scalar = kernel.scalar_of(operand)
        columns.append(
            [
                numbers.converted(scalar, target, value, signed=sign == "s")
                for value in kernel.numbers(operand)
            ]
        )
    total = "0"
    for first, second in zip(*columns, strict=True):
        total = numbers.sum(target, total, numbers.product(target, first, second))
    return [total]


def _columns(kernel: Kernel, number: int) -> list[list[str]]:
    count = kernel.types.count(kernel.type_of(number))
    values = kernel.numbers(number)
    rows = len(values) // count
    return [values[at : at + rows] for at in range(0, len(values), rows)]


def _matrix_vector(
    kernel: Kernel, scalar: Scalar, columns: list[list[str]], vector: list[str]
) -> list[str]:
    rows = [list(row) for row in zip(*columns, strict=True)]
    return [dot(kernel, scalar, row, vector) for row in rows]


@handles(144)
def _vector_times_matrix(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    vector, matrix = instruction.operands[2:4]
    scalar = kernel.scalar_of(vector)
    values = kernel.numbers(vector)
    return [dot(kernel, scalar, values, column) for column in _columns(kernel, matrix)]


@handles(145)
def _matrix_times_vector(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    matrix, vector = instruction.operands[2:4]
    scalar = kernel.scalar_of(vector)
    return _matrix_vector(kernel, scalar, _columns(kernel, matrix), kernel.numbers(vector))


@handles(146)
def _matrix_times_matrix(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    first, second = instruction.operands[2:4]
    scalar = kernel.types.numbers(instruction.operands[0])[0]
    columns = _columns(kernel, first)
    result: list[str] = []
    for column in _columns(kernel, second):
        result += _matrix_vector(kernel, scalar, columns, column)
    return result


@handles(147)
def _outer_product(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    first, second = instruction.operands[2:4]
    scalar = kernel.scalar_of(first)
    values = kernel.numbers(first)
    result: list[str] = []
    for factor in kernel.numbers(second):
        result += _scaled(kernel, values, scalar, factor)
    return result
