"""The constants of a SPIR-V module, evaluated with values or defaults of its specialization
constants.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping, Sequence

from devmod.backend import PipelineConstant
from devmod_readers.c_numbers import quotient, remainder
from devmod_readers.reflection import BlockSource
from devmod_readers.spirv._module import Ids, SpirvModule, error
from devmod_readers.uses import bits

Number = bool | int | float

_SPEC_ID = 1
_COMPOSITE_EXTRACT = 81
_SELECT = 169
_FLOAT_FORMS = {16: "<e", 32: "<f", 64: "<d"}

_MAX_CONSTANTS = 1024

_OPERATIONS: Mapping[int, Callable[..., int]] = {
    128: operator.add,
    130: operator.sub,
    132: operator.mul,
    134: operator.floordiv,
    135: quotient,
    137: operator.mod,
    138: remainder,
    139: operator.mod,
    194: operator.rshift,
    195: operator.rshift,
    196: operator.lshift,
    197: operator.or_,
    198: operator.xor,
    199: operator.and_,
    166: operator.or_,
    167: operator.and_,
    164: operator.eq,
    165: operator.ne,
    170: operator.eq,
    171: operator.ne,
    172: operator.gt,
    173: operator.gt,
    174: operator.ge,
    175: operator.ge,
    176: operator.lt,
    177: operator.lt,
    178: operator.le,
    179: operator.le,
}

_UNARY_OPERATIONS: Mapping[int, Callable[..., int]] = {
    113: operator.pos,
    114: operator.pos,
    124: operator.pos,
    126: operator.neg,
    168: operator.not_,
    200: operator.invert,
}

_DIVISIONS = (134, 135, 137, 138, 139)

#: The operations on signed operands. For others, signed and unsigned operands are the same or the
#: operands are unsigned.
_SIGNED = (114, 135, 138, 139, 173, 175, 177, 179, 195)

_SHIFTS = (194, 195, 196)


class SpirvConstants:
    """The integers of a module: constants, specialization constants, and operations on both.

    Several specialization constants may have one id, such as GLSL's ``constant_id = 0`` and
    ``local_size_x_id = 0``. A value sets all of them. Without one, a driver gives each its own
    default.

    Parameters
    ----------
    module
        The module.
    given
        Values by specialization id, in place of the defaults.

    Attributes
    ----------
    values : dict
        Id to integer.
    sources : dict
        Id to a bit for each specialization constant that its value depends on.
    listed : list of PipelineConstant
        The specialization constants, ordered by specialization id. The default is the given value.
        It is None if the defaults of one id differ.

    Raises
    ------
    FormatError
        The specialization constants are too many, or those of one id have several types.
    """

    def __init__(self, module: SpirvModule, given: Mapping[int, Number] | None = None) -> None:
        given = given or {}
        self.values: dict[int, int] = {}
        self.sources: dict[int, int] = {}
        numbers_by_spec_id: dict[int, list[int]] = {}
        for number, (opcode, _) in module.constants.items():
            spec_id = module.mark(number, _SPEC_ID)
            if spec_id is not None and opcode in (48, 49, 50):
                numbers_by_spec_id.setdefault(spec_id, []).append(number)
        if len(numbers_by_spec_id) > _MAX_CONSTANTS:
            raise error(f"has more than {_MAX_CONSTANTS} specialization constants")

        self.listed: list[PipelineConstant] = []
        self.spec_constants: dict[int, Number | None] = {}
        groups = sorted(numbers_by_spec_id.items())
        for position, (spec_id_, numbers) in enumerate(groups):
            given_value = given.get(spec_id_)
            self.listed.append(_constant(module, numbers, spec_id_, given_value))
            self.spec_constants |= dict.fromkeys(numbers, given_value)
            self.sources |= dict.fromkeys(numbers, 1 << position)

        for number, (opcode, operands) in module.constants.items():
            given_value = self.spec_constants.get(number)
            value = None
            if given_value is None:
                value = _evaluate(module, opcode, operands, self.values)
            elif not isinstance(given_value, float):
                value = _fit(module, operands[0], given_value)
            if value is not None:
                self.values[number] = value
            if opcode in (51, 52):
                self.sources[number] = 0
                for each in _ids(opcode, operands[1:]):
                    self.sources[number] |= self.sources.get(each, 0)

    def source(self, number: int) -> BlockSource:
        """Return the source of a number in the form of `ReflectedShader.block_constants`."""
        positions = tuple(bits(self.sources.get(number, 0)))
        if number in self.spec_constants:
            return positions[0]
        return positions or -1

    def is_set(self, number: int) -> bool:
        """Return whether each constant that a number depends on has a value."""
        return all(
            self.listed[index].default is not None for index in bits(self.sources.get(number, 0))
        )


def _ids(opcode: int, operands: Ids) -> Ids:
    """Return the operands of a constant that are ids."""
    if opcode == 51:
        return operands
    return operands[1 : {_COMPOSITE_EXTRACT: 2, 79: 3, 82: 3}.get(operands[0])]


def _evaluate(
    module: SpirvModule, opcode: int, operands: Ids, values: Mapping[int, int]
) -> int | None:
    """Return a constant as an integer; None if it is not one, or if it cannot be evaluated."""
    kind = operands[0]
    rest = operands[1:]
    if opcode in (41, 48):
        return 1
    if opcode in (42, 49):
        return 0
    if opcode in (43, 50):
        return _fit(module, kind, sum(word << 32 * index for index, word in enumerate(rest[:2])))
    if opcode == 46:
        return _fit(module, kind, 0)
    if opcode != 52:
        return None
    if rest[0] == _COMPOSITE_EXTRACT:
        result = _extracted(module, rest[1:], values)
    else:
        result = _evaluate_operation(module, rest[0], rest[1:], values)
    if result is None:
        return None
    return _fit(module, kind, result)


def _extracted(module: SpirvModule, operands: Ids, values: Mapping[int, int]) -> int | None:
    """Return a member of a composite constant; None if it is not an integer."""
    if len(operands) != 2:
        return None
    opcode, composite = module.constants[operands[0]]
    if opcode not in (44, 51):
        return None
    members = composite[1:]
    if operands[1] >= len(members):
        return None
    return values.get(members[operands[1]])


def _fit(module: SpirvModule, kind: int, number: int) -> int | None:
    """Return a number as a value of an integer type or bool, wrapped to its bits; None for other
    types.
    """
    bits, signed = _integer_type(module, kind)
    if not bits:
        return None
    return _wrapped(number, bits, signed=signed)


def _integer_type(module: SpirvModule, kind: int) -> tuple[int, bool]:
    """Return the bits of an integer type or bool, and whether it is signed; 0 bits for other
    types.
    """
    opcode, operands = module.types[kind]
    if opcode == 20:
        return 8, False
    if opcode == 21 and 8 <= operands[0] <= 64:
        return operands[0], bool(operands[1])
    return 0, False


def _wrapped(number: int, bits: int, *, signed: bool) -> int:
    number &= (1 << bits) - 1
    if signed and number >> bits - 1:
        number -= 1 << bits
    return number


def _evaluate_operation(
    module: SpirvModule, opcode: int, operands: Ids, values: Mapping[int, int]
) -> int | None:
    """Return the result of an OpSpecConstantOp on integers; None if it is undefined or not
    supported.

    The instruction determines whether its operands are signed. Their types only have the number of
    bits.
    """
    if opcode == _SELECT and len(operands) == 3:
        condition = values.get(operands[0])
        if condition is None:
            return None
        return values.get(operands[1] if condition else operands[2])
    operation = {1: _UNARY_OPERATIONS, 2: _OPERATIONS}.get(len(operands), {}).get(opcode)
    if operation is None:
        return None

    numbers: list[int] = []
    bits = 0
    for operand in operands:
        value = values.get(operand)
        if value is None:
            return None
        is_distance = numbers and opcode in _SHIFTS
        signed = opcode in _SIGNED and not is_distance
        bits_of_operand, _ = _integer_type(module, module.constants[operand][1][0])
        numbers.append(_wrapped(value, bits_of_operand, signed=signed))
        bits = bits or bits_of_operand
    if _is_undefined(opcode, numbers, bits):
        return None
    return operation(*numbers)


def _is_undefined(opcode: int, numbers: list[int], bits: int) -> bool:
    """Return whether an operation on integers of some bits has no result."""
    last = numbers[-1]
    if opcode in _SHIFTS:
        return last >= bits
    if opcode not in _DIVISIONS:
        return False
    overflows = last == -1 and numbers[0] == -(1 << bits - 1)
    return not last or overflows


def _constant(
    module: SpirvModule, numbers: Sequence[int], spec_id: int, given: Number | None
) -> PipelineConstant:
    """Return the constant of the numbers with one specialization id, by the name that one of them
    has.
    """
    constants = [_one_constant(module, number, spec_id) for number in numbers]
    named = next((each for each in constants if each.name), constants[0])
    for other in constants:
        # A signed and an unsigned integer of as many bits count as one type.
        if other.type.removeprefix("u") != named.type.removeprefix("u"):
            raise error(
                f"has the specialization constant {named.label!r} with the types {named.type} and {other.type}; expected one type"
            )
    if given is None:
        # A bool has its value in the opcode, and no words.
        defaults = set()
        for number in numbers:
            opcode, operands = module.constants[number]
            defaults.add(operands[1:] or opcode)
        if len(defaults) == 1:
            given = named.default
    return PipelineConstant(named.name, named.type, spec_id, given)


def _one_constant(module: SpirvModule, number: int, spec_id: int) -> PipelineConstant:
    opcode, operands = module.constants[number]
    name = module.names.get(number, "")
    if opcode in (48, 49):
        return PipelineConstant(name, "bool", spec_id, opcode == 48)
    kind, type_ = module.types[operands[0]]
    bits = type_[0] if type_ else 0
    if kind == 22 and bits in _FLOAT_FORMS and len(type_) == 1:
        words = sum(word << 32 * index for index, word in enumerate(operands[1:3]))
        data = (words & (1 << bits) - 1).to_bytes(bits // 8, "little")
        (default,) = struct.unpack(_FLOAT_FORMS[bits], data)
        return PipelineConstant(name, f"float{bits}", spec_id, default)
    value = _evaluate(module, opcode, operands, {})
    if kind != 21 or value is None or bits not in (8, 16, 32, 64):
        raise error(
            f"has the specialization constant {name or spec_id!r}, which is neither a number nor a bool"
        )
    integer = f"int{bits}" if type_[1] else f"uint{bits}"
    return PipelineConstant(name, integer, spec_id, value)
