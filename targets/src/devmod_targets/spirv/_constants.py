"""The constants of a SPIR-V module, evaluated with the defaults of its specialization constants."""

from __future__ import annotations

import operator
import struct

from devmod.backend import PipelineConstant
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from devmod_targets.spirv._module import SpirvModule

_SPEC_ID = 1
_FLOAT_FORMS = {16: "<e", 32: "<f", 64: "<d"}

_MAX_CONSTANTS = 1024


class Constants:
    """The integers of a module: constants, defaults of specialization constants, and operations on both.

    Attributes
    ----------
    values : dict
        Id to integer.
    sources : dict
        Id to a bit for each specialization constant that its value depends on.
    listed : list of (int, PipelineConstant)
        Id and specialization constant, ordered by specialization id.
    """

    def __init__(self, module: SpirvModule) -> None:
        self.values: dict[int, int] = {}
        self.sources: dict[int, int] = {}
        numbered = []
        for number, (opcode, _) in module.constants.items():
            spec_id = module.decorations.get(number, {}).get(_SPEC_ID, ())[:1]
            if spec_id and opcode in (48, 49, 50):
                numbered.append((spec_id[0], number))
        by_spec_id: dict[int, int] = {}
        for spec_id_, number in sorted(numbered):
            by_spec_id.setdefault(spec_id_, number)
        if len(by_spec_id) > _MAX_CONSTANTS:
            raise FormatError(f"has more than {_MAX_CONSTANTS} specialization constants", kind="vulkan")
        position = {spec_id_: index for index, spec_id_ in enumerate(by_spec_id)}
        self.spec_constants = {number for _, number in numbered}
        for spec_id_, number in numbered:
            self.sources[number] = 1 << position[spec_id_]
        for number, (opcode, operands) in module.constants.items():
            value = _evaluate(module, opcode, operands, self.values)
            if value is not None:
                self.values[number] = value
            if opcode == 52:
                self.sources[number] = self._union_of_sources(operands[2:])
        self.listed = [(number, _constant(module, number, spec_id_)) for spec_id_, number in by_spec_id.items()]

    def _union_of_sources(self, operands: Iterable[int]) -> int:
        sources = 0
        for operand in operands:
            sources |= self.sources.get(operand, 0)
        return sources

    def source(self, number: int) -> int | list[int]:
        """Return the source of a number in the form of `ReflectedShader.block_constants`."""
        positions = [index for index in range(len(self.listed)) if self.sources.get(number, 0) >> index & 1]
        return positions[0] if number in self.spec_constants else positions or -1


def _evaluate(module: SpirvModule, opcode: int, operands: tuple[int, ...], values: Mapping[int, int]) -> int | None:
    """Return a constant as an integer; None if it is not one, or if it cannot be evaluated."""
    kind, rest = operands[0], operands[1:]
    if opcode in (41, 48):
        return 1
    if opcode in (42, 49):
        return 0
    type_ = module.types.get(kind)
    if type_ is None or type_[0] not in (20, 21):
        return None
    bits, signed = (type_[1][0], type_[1][1]) if type_[0] == 21 else (8, 0)
    if opcode in (43, 50):
        number = sum(word << 32 * index for index, word in enumerate(rest[:2]))
    elif opcode == 46:
        number = 0
    elif opcode == 52:
        result = _evaluate_operation(rest[0], [values.get(operand) for operand in rest[1:4]])
        if result is None:
            return None
        number = result
    else:
        return None
    if not 8 <= bits <= 64:
        return None
    number &= (1 << bits) - 1
    return number - (1 << bits) if signed and number >> bits - 1 else number


def _evaluate_operation(opcode: int, operands: list[int | None]) -> int | None:
    """Return the result of an OpSpecConstantOp on integers; None if it is undefined or not supported."""
    one, other = (*operands, None, None)[:2]
    if one is None:
        return None
    if opcode == 169 and len(operands) == 3:
        return operands[1] if one else operands[2]
    if opcode in _UNARY_OPERATIONS:
        return _UNARY_OPERATIONS[opcode](one)
    work = _OPERATIONS.get(opcode)
    if work is None or other is None:
        return None
    if opcode in _UNSIGNED and (one < 0 or other < 0):
        return None
    if opcode in _DIVISIONS and not other:
        return None
    if opcode in _SHIFTS and not 0 <= other < 64:
        return None
    return work(one, other)


def _divided(one: int, other: int) -> int:
    """Return the quotient truncated towards zero, as in C."""
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


_OPERATIONS: Mapping[int, Callable[[int, int], int]] = {
    128: operator.add, 130: operator.sub, 132: operator.mul,
    134: operator.floordiv, 135: _divided, 137: operator.mod, 138: lambda one, other: one - other * _divided(one, other), 139: operator.mod,
    194: operator.rshift, 195: operator.rshift, 196: operator.lshift,
    197: operator.or_, 198: operator.xor, 199: operator.and_, 166: operator.or_, 167: operator.and_,
    164: operator.eq, 165: operator.ne, 170: operator.eq, 171: operator.ne,
    172: operator.gt, 173: operator.gt, 174: operator.ge, 175: operator.ge,
    176: operator.lt, 177: operator.lt, 178: operator.le, 179: operator.le,
}  # fmt: skip

_UNARY_OPERATIONS: Mapping[int, Callable[[int], int]] = {
    113: operator.pos, 114: operator.pos, 124: operator.pos, 126: operator.neg, 168: operator.not_, 200: operator.invert,
}  # fmt: skip

_DIVISIONS = (134, 135, 137, 138, 139)

#: Unsigned operations: a negative operand means a large number, which is not a valid size.
_UNSIGNED = (134, 137, 172, 174, 176, 178, 194)

_SHIFTS = (194, 195, 196)


def _constant(module: SpirvModule, number: int, spec_id: int) -> PipelineConstant:
    opcode, operands = module.constants[number]
    name = module.names.get(number, "")
    if opcode in (48, 49):
        return PipelineConstant(name, "bool", spec_id, opcode == 48)
    kind, type_ = module.types.get(operands[0], (0, ()))
    words = sum(word << 32 * index for index, word in enumerate(operands[1:3]))
    bits = type_[0] if type_ else 0
    if kind == 22 and bits in _FLOAT_FORMS and len(type_) == 1:
        data = (words & (1 << bits) - 1).to_bytes(bits // 8, "little")
        return PipelineConstant(name, f"float{bits}", spec_id, struct.unpack(_FLOAT_FORMS[bits], data)[0])
    value = _evaluate(module, opcode, operands, {})
    if kind != 21 or value is None or bits not in (8, 16, 32, 64):
        raise FormatError(f"has the specialization constant {name or spec_id!r}, which is neither a number nor a bool", kind="vulkan")
    return PipelineConstant(name, f"{'int' if type_[1] else 'uint'}{bits}", spec_id, value)
