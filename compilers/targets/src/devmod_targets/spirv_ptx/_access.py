"""Variables, pointers, loads and stores, and the parts of composites."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from devmod_readers.spirv import SpirvInstruction
from devmod_targets.spirv_ptx._kernel import Kernel, handles
from devmod_targets.spirv_ptx._memory import Pointer, Value
from devmod_targets.spirv_ptx._types import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence


_STRUCT = 30
_ARRAY_STRIDE = 6
_VOLATILE = 1
_ALIGNED = 2


@handles(59)
def _variable(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    pointer_type, number, storage = instruction.operands[:3]
    pointer = kernel.allocate(number, kernel.types.pointee(pointer_type)[1], storage)
    if len(instruction.operands) > 3:
        kernel.memory.store(pointer, kernel.numbers(instruction.operands[3]))
    return pointer


def _accessed(kernel: Kernel, number: int, operands: Sequence[int], position: int) -> Pointer:
    """Return a pointer with the memory operands of an access."""
    pointer = kernel.pointer(number)
    if len(operands) <= position:
        return pointer
    mask = operands[position]
    if mask & _VOLATILE:
        pointer = pointer._replace(volatile=True)
    if mask & _ALIGNED:
        align = operands[position + 1]
        # The alignment is that of the pointer, with its offset.
        if pointer.space == "global" and align and not pointer.offset % align:
            pointer = pointer._replace(align=math.gcd(max(pointer.align, align), 16))
    return pointer


@handles(61)
def _load(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    return kernel.memory.load(_accessed(kernel, instruction.operands[2], instruction.operands, 3))


@handles(62)
def _store(kernel: Kernel, instruction: SpirvInstruction) -> None:
    target, value = instruction.operands[:2]
    pointer = _accessed(kernel, target, instruction.operands, 2)
    kernel.memory.store(pointer, kernel.numbers(value))


@handles(63)
def _copy_memory(kernel: Kernel, instruction: SpirvInstruction) -> None:
    target, source = map(kernel.pointer, instruction.operands[:2])
    kernel.memory.store(target, kernel.memory.load(source))


def _walk(kernel: Kernel, pointer: Pointer, indices: Sequence[int]) -> Pointer:
    for index in indices:
        known = kernel.literal_of(index)
        is_struct = kernel.types.definition(pointer.type)[0] == _STRUCT
        if known is not None and (is_struct or pointer.space == "registers" or known >= 0):
            pointer = kernel.memory.part(pointer, known)
        else:
            scalar = kernel.scalar_of(index)
            pointer = kernel.memory.element(pointer, scalar, kernel.one(index))
    return pointer


@handles(65, 66)
def _access_chain(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    base, *indices = instruction.operands[2:]
    return _walk(kernel, kernel.pointer(base), indices)


@handles(67, 70)
def _pointer_chain(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    base, element, *indices = instruction.operands[2:]
    pointer = kernel.pointer(base)
    stride = kernel.module.mark(kernel.type_of(base), _ARRAY_STRIDE) or pointer.layout.size
    pointer = kernel.memory.moved(pointer, kernel.scalar_of(element), kernel.one(element), stride)
    return _walk(kernel, pointer, indices)


@handles(68)
def _array_length(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    _, _, base, member = instruction.operands
    pointer = kernel.pointer(base)
    size = kernel.lengths.get(pointer.variable)
    if size is None:
        raise RefusedError("it asks for the length of an array that is no argument")
    offset, layout = pointer.layout.part(member)
    writer = kernel.writer
    length = writer.op("b64", "sub.s64", size, str(offset))
    length = writer.op("b64", "max.s64", length, "0")
    length = writer.op("b64", "div.u64", length, str(layout.stride))
    return [writer.op("b32", "cvt.u32.u64", length)]


@handles(1)
def _undefined(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    return kernel.undefined(instruction.operands[0])


@handles(83, 400)
def _copy(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    return kernel.value(instruction.operands[2])


@handles(80)
def _construct(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    values: list[str] = []
    for part in instruction.operands[2:]:
        values += kernel.numbers(part)
    if len(values) != len(kernel.types.numbers(instruction.operands[0])):
        raise RefusedError("it has a wrong number of parts")
    return values


def _span(kernel: Kernel, type_: int, indices: Sequence[int]) -> tuple[int, int]:
    """Return the first number of a part of a composite, and the type of the part."""
    start = 0
    for index in indices:
        if index >= kernel.types.count(type_):
            raise RefusedError(f"it has no part {index}")
        start += kernel.types.place(type_, index)
        type_ = kernel.types.part(type_, index)
    return start, type_


@handles(81)
def _extract(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    composite, *indices = instruction.operands[2:]
    start, type_ = _span(kernel, kernel.type_of(composite), indices)
    return kernel.numbers(composite)[start : start + len(kernel.types.numbers(type_))]


@handles(82)
def _insert(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    part, composite, *indices = instruction.operands[2:]
    start, type_ = _span(kernel, kernel.type_of(composite), indices)
    values = [*kernel.numbers(composite)]
    values[start : start + len(kernel.types.numbers(type_))] = kernel.numbers(part)
    return values


@handles(79)
def _shuffle(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    type_, _, first, second, *lanes = instruction.operands
    values = kernel.numbers(first) + kernel.numbers(second)
    result = []
    for lane in lanes:
        if lane == 0xFFFFFFFF:
            result += kernel.undefined(kernel.types.part(type_, 0))
        else:
            result.append(values[lane])
    return result


@handles(77)
def _extract_dynamic(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    type_, _, vector, index = instruction.operands
    values = kernel.numbers(vector)
    scalar = kernel.types.scalar(type_)
    place = kernel.one(index)
    writer = kernel.writer
    result = values[0]
    for number, value in enumerate(values[1:], 1):
        holds = writer.op("pred", "setp.eq.u32", place, str(number))
        result = choose(kernel, scalar.register, holds, value, result)
    return [result]


@handles(78)
def _insert_dynamic(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    type_, _, vector, part, index = instruction.operands
    scalar = kernel.types.scalar(type_)
    place = kernel.one(index)
    new = kernel.one(part)
    values = []
    for number, value in enumerate(kernel.numbers(vector)):
        holds = kernel.writer.op("pred", "setp.eq.u32", place, str(number))
        values.append(choose(kernel, scalar.register, holds, new, value))
    return values


def choose(kernel: Kernel, register: str, holds: str, first: str, second: str) -> str:
    """Return one of two values by a predicate."""
    writer = kernel.writer
    if register != "pred":
        return writer.op(register, f"selp.{register}", first, second, holds)
    first, second = map(writer.predicate, (first, second))
    taken = writer.op("pred", "and.pred", holds, first)
    missed = writer.op("pred", "not.pred", holds)
    missed = writer.op("pred", "and.pred", missed, second)
    return writer.op("pred", "or.pred", taken, missed)


@handles(169)
def _select(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    type_, _, condition, first, second = instruction.operands
    numbers = kernel.types.numbers(type_)
    holds = [kernel.writer.predicate(each) for each in kernel.numbers(condition)]
    if len(holds) == 1:
        holds *= len(numbers)
    pairs = zip(numbers, holds, kernel.numbers(first), kernel.numbers(second), strict=True)
    return [choose(kernel, scalar.register, *each) for scalar, *each in pairs]


@handles(84)
def _transpose(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    type_, _, matrix = instruction.operands
    columns = kernel.types.count(type_)
    values = kernel.numbers(matrix)
    result: list[str] = []
    for row in range(columns):
        result += values[row::columns]
    return result


@handles(117, 120)
def _pointer_bits(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    return kernel.numbers(instruction.operands[2])


@handles(401, 402)
def _pointers_equal(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    first, second = map(kernel.one, instruction.operands[2:4])
    comparison = "eq" if instruction.opcode == 401 else "ne"
    return [kernel.writer.op("pred", f"setp.{comparison}.u64", first, second)]
