"""Operations of a subgroup, which is a warp of 32 threads: those that run an instruction together
take part in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from devmod_readers.spirv import SpirvInstruction
from devmod_targets.spirv_ptx._access import choose
from devmod_targets.spirv_ptx._kernel import Kernel, handles
from devmod_targets.spirv_ptx._numbers import Numbers
from devmod_targets.spirv_ptx._types import U32, RefusedError, Scalar
from devmod_targets.spirv_ptx._writer import float_literal, literal

if TYPE_CHECKING:
    from devmod_targets.spirv_ptx._memory import Value

_LAST = "31"


def _active(kernel: Kernel) -> str:
    return kernel.writer.op("b32", "activemask.b32")


def _lane(kernel: Kernel) -> str:
    return kernel.writer.op("b32", "mov.u32", "%laneid")


def _lowest(kernel: Kernel, mask: str) -> str:
    """Return the lowest bit that is set."""
    writer = kernel.writer
    reversed_bits = writer.op("b32", "brev.b32", mask)
    return writer.op("b32", "clz.b32", reversed_bits)


def _from_lane(kernel: Kernel, scalar: Scalar, value: str, lane: str, mask: str) -> str:
    """Return the value of another lane."""
    writer = kernel.writer
    numbers = Numbers(writer)

    def shuffled(bits: str) -> str:
        bits = writer.held(U32, bits)
        return writer.op("b32", "shfl.sync.idx.b32", bits, lane, _LAST, mask)

    if scalar.form == "bool":
        bit = writer.op("b32", "selp.u32", "1", "0", writer.predicate(value))
        return writer.op("pred", "setp.ne.u32", shuffled(bit), "0")
    bits = numbers.bits(scalar, value)
    if scalar.bits == 64:
        parts = [shuffled(part) for part in numbers.divided(scalar, U32, bits)]
        return numbers.from_bits(scalar, numbers.combined(U32, scalar, parts))
    return numbers.from_bits(scalar, shuffled(bits))


@handles(333)
def _elect(kernel: Kernel, _instruction: SpirvInstruction) -> Value:
    lowest = _lowest(kernel, _active(kernel))
    return [kernel.writer.op("pred", "setp.eq.u32", lowest, _lane(kernel))]


def _vote(kernel: Kernel, name: str, operand: int) -> Value:
    value = kernel.writer.predicate(kernel.one(operand))
    return [kernel.writer.op("pred", f"vote.sync.{name}.pred", value, _active(kernel))]


@handles(334, 335)
def _all_or_any(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    return _vote(kernel, "all" if instruction.opcode == 334 else "any", instruction.operands[3])


@handles(4428, 4429)
def _all_or_any_khr(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    return _vote(kernel, "all" if instruction.opcode == 4428 else "any", instruction.operands[2])


@handles(336, 4430)
def _all_equal(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    value = instruction.operands[3 if instruction.opcode == 336 else 2]
    writer = kernel.writer
    mask = _active(kernel)
    lane = _lowest(kernel, mask)
    numbers = Numbers(writer)
    result = "true"
    for scalar, own in zip(
        kernel.types.numbers(kernel.type_of(value)), kernel.numbers(value), strict=True
    ):
        first = _from_lane(kernel, scalar, own, lane, mask)
        if scalar.form == "bool":
            differs = writer.op("pred", "xor.pred", first, writer.predicate(own))
            equal = writer.op("pred", "not.pred", differs)
        elif scalar.form == "float":
            equal = numbers.float_compared(scalar, "eq", first, own)
        else:
            equal = numbers.compared(scalar, "eq", first, own, signed=False)
        result = writer.op("pred", "and.pred", writer.predicate(result), equal)
    return [writer.op("pred", "vote.sync.all.pred", result, mask)]


def _lanes_of(kernel: Kernel, value: int, lane: str, mask: str) -> Value:
    pairs = zip(kernel.types.numbers(kernel.type_of(value)), kernel.numbers(value), strict=True)
    return [_from_lane(kernel, scalar, own, lane, mask) for scalar, own in pairs]


@handles(337, 345)
def _broadcast(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    value, lane = instruction.operands[3:5]
    return _lanes_of(kernel, value, kernel.one(lane), _active(kernel))


@handles(338)
def _broadcast_first(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    mask = _active(kernel)
    return _lanes_of(kernel, instruction.operands[3], _lowest(kernel, mask), mask)


@handles(346, 347, 348)
def _shuffle(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    value, distance = instruction.operands[3:5]
    opcode = {346: "xor.b32", 347: "sub.u32", 348: "add.u32"}[instruction.opcode]
    lane = kernel.writer.op("b32", opcode, _lane(kernel), kernel.one(distance))
    return _lanes_of(kernel, value, lane, _active(kernel))


@handles(365, 366)
def _quad(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    value, index = instruction.operands[3:5]
    writer = kernel.writer
    lane = _lane(kernel)
    if instruction.opcode == 365:
        base = writer.op("b32", "and.b32", lane, "28")
        lane = writer.op("b32", "or.b32", base, kernel.one(index))
    else:
        direction = kernel.literal_of(index)
        if direction not in (0, 1, 2):
            raise RefusedError("its direction is no constant from 0 to 2")
        lane = writer.op("b32", "xor.b32", lane, str(direction + 1))
    return _lanes_of(kernel, value, lane, _active(kernel))


@handles(339)
def _ballot(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    value = kernel.writer.predicate(kernel.one(instruction.operands[3]))
    result = kernel.writer.op("b32", "vote.sync.ballot.b32", value, _active(kernel))
    return [result, "0", "0", "0"]


@handles(340, 341)
def _ballot_bit(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    ballot = kernel.numbers(instruction.operands[3])[0]
    place = _lane(kernel)
    if instruction.opcode == 341:
        place = kernel.one(instruction.operands[4])
    writer = kernel.writer
    shifted = writer.op("b32", "shr.u32", ballot, place)
    bit = writer.op("b32", "and.b32", shifted, "1")
    return [writer.op("pred", "setp.ne.u32", bit, "0")]


@handles(342)
def _ballot_count(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    _, operation, ballot = instruction.operands[2:5]
    writer = kernel.writer
    value = kernel.numbers(ballot)[0]
    masks = {0: "", 1: "%lanemask_le", 2: "%lanemask_lt"}
    if operation not in masks:
        raise RefusedError(f"it is the group operation {operation}")
    if masks[operation]:
        mask = writer.op("b32", "mov.u32", masks[operation])
        value = writer.op("b32", "and.b32", value, mask)
    return [writer.op("b32", "popc.b32", value)]


@handles(343, 344)
def _ballot_find(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    value = kernel.numbers(instruction.operands[3])[0]
    if instruction.opcode == 343:
        return [_lowest(kernel, value)]
    return [kernel.writer.op("b32", "bfind.u32", value)]


# -- reductions and scans

Combine = Callable[[Numbers, Scalar, str, str], str]


def _extreme(name: str, *, signed: bool) -> Combine:
    def combine(numbers: Numbers, scalar: Scalar, first: str, second: str) -> str:
        return numbers.extreme(scalar, name, first, second, signed=signed)

    return combine


def _plain(opcode: str) -> Combine:
    return lambda numbers, scalar, *values: numbers.plain(scalar, opcode, *values)


def _bitwise(name: str) -> Combine:
    return lambda numbers, scalar, *values: numbers.bitwise(scalar, name, *values)


#: How two values are combined, and the value that changes none: a number of the integer's bits, or
#: a float.
_REDUCTIONS: dict[int, tuple[Combine, Callable[[Scalar], str]]] = {
    349: (Numbers.sum, lambda scalar: "0"),
    350: (_plain("add.rn"), lambda scalar: float_literal(scalar.bits, 0.0)),
    351: (Numbers.product, lambda scalar: "1"),
    352: (_plain("mul.rn"), lambda scalar: float_literal(scalar.bits, 1.0)),
    353: (
        _extreme("min", signed=True),
        lambda scalar: literal(scalar, (1 << scalar.bits - 1) - 1),
    ),
    354: (_extreme("min", signed=False), lambda scalar: literal(scalar, (1 << scalar.bits) - 1)),
    355: (_plain("min"), lambda scalar: float_literal(scalar.bits, float("inf"))),
    356: (_extreme("max", signed=True), lambda scalar: literal(scalar, 1 << scalar.bits - 1)),
    357: (_extreme("max", signed=False), lambda scalar: "0"),
    358: (_plain("max"), lambda scalar: float_literal(scalar.bits, float("-inf"))),
    359: (_bitwise("and"), lambda scalar: literal(scalar, (1 << scalar.bits) - 1)),
    360: (_bitwise("or"), lambda scalar: "0"),
    361: (_bitwise("xor"), lambda scalar: "0"),
    362: (_bitwise("and"), lambda scalar: "true"),
    363: (_bitwise("or"), lambda scalar: "false"),
    364: (_bitwise("xor"), lambda scalar: "false"),
}


@handles(*_REDUCTIONS)
def _reduce(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    """A loop over the lanes that take part, in their order."""
    _, operation, value, *size = instruction.operands[2:]
    combine, neutral = _REDUCTIONS[instruction.opcode]
    writer = kernel.writer
    numbers = Numbers(writer)
    scalars = kernel.types.numbers(kernel.type_of(value))
    own = kernel.numbers(value)
    mask = _active(kernel)
    lane = _lane(kernel)
    totals = [writer.copy(scalar, neutral(scalar)) for scalar in scalars]
    rest = writer.copy(U32, mask)
    again = writer.label()
    writer.put_label(again)
    here = _lowest(kernel, rest)
    takes = _takes_part(kernel, operation, here, lane, size)
    for scalar, total, each in zip(scalars, totals, own, strict=True):
        other = _from_lane(kernel, scalar, each, here, mask)
        if scalar.form == "bool":
            other = writer.predicate(other)
        combined = combine(numbers, scalar, total, other)
        if takes:
            combined = choose(kernel, scalar.register, takes, combined, total)
        writer.move(scalar, total, combined)
    less = writer.op("b32", "sub.u32", rest, "1")
    writer.put("and.b32", rest, rest, less)
    more = writer.op("pred", "setp.ne.u32", rest, "0")
    writer.put("bra", again, guard=f"@{more}")
    return [*totals]


def _takes_part(kernel: Kernel, operation: int, here: str, lane: str, size: list[int]) -> str:
    """Return the predicate that a lane takes part in the result of this one; "" if all do."""
    writer = kernel.writer
    if operation == 0:
        return ""
    if operation == 1:
        return writer.op("pred", "setp.le.u32", here, lane)
    if operation == 2:
        return writer.op("pred", "setp.lt.u32", here, lane)
    cluster = kernel.literal_of(size[0]) if operation == 3 and size else None
    if cluster is None or not 1 <= cluster <= 32 or cluster & (cluster - 1):
        raise RefusedError(f"it is the group operation {operation}")
    mask = str(32 - cluster)
    ours = writer.op("b32", "and.b32", lane, mask)
    theirs = writer.op("b32", "and.b32", here, mask)
    return writer.op("pred", "setp.eq.u32", ours, theirs)
