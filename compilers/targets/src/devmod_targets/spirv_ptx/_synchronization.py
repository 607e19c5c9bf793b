"""Barriers and atomic operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devmod_readers.spirv import SpirvInstruction
from devmod_targets.spirv_ptx._kernel import Kernel, handles
from devmod_targets.spirv_ptx._numbers import Numbers
from devmod_targets.spirv_ptx._types import RefusedError, Scalar

if TYPE_CHECKING:
    from devmod_targets.spirv_ptx._memory import Pointer, Value

#: Scopes.
_WORKGROUP = 2
_SUBGROUP = 3
_SCOPES = {0: "sys", 1: "gpu", _WORKGROUP: "cta", _SUBGROUP: "cta", 4: "cta", 5: "gpu"}
#: Bits of memory semantics: Acquire, Release, and both.
_ACQUIRE = 2
_RELEASE = 4
_BOTH = 8 | 16

#: The operation of PTX, and the letter of its type.
_ATOMICS = {
    229: ("exch", "b"),
    232: ("add", "u"),
    233: ("add", "u"),
    234: ("add", "u"),
    235: ("add", "u"),
    236: ("min", "s"),
    237: ("min", "u"),
    238: ("max", "s"),
    239: ("max", "u"),
    240: ("and", "b"),
    241: ("or", "b"),
    242: ("xor", "b"),
    6035: ("add", "f"),
}


def _constant(kernel: Kernel, number: int) -> int:
    value = kernel.literal_of(number)
    if value is None:
        raise RefusedError("its scope or its memory semantics is no constant")
    return value


def _scope(kernel: Kernel, number: int) -> str:
    return _SCOPES.get(_constant(kernel, number), "sys")


def _fence(kernel: Kernel, scope: int, semantics: int) -> None:
    if _constant(kernel, semantics) & (_ACQUIRE | _RELEASE | _BOTH):
        name = _scope(kernel, scope)
        kernel.writer.put(f"fence.acq_rel.{name}")


@handles(224)
def _control_barrier(kernel: Kernel, instruction: SpirvInstruction) -> None:
    execution, memory, semantics = instruction.operands
    scope = _constant(kernel, execution)
    if scope == _SUBGROUP:
        mask = kernel.writer.op("b32", "activemask.b32")
        kernel.writer.put("bar.warp.sync", mask)
        return
    if scope != _WORKGROUP:
        raise RefusedError(f"it waits for threads of the scope {scope}")
    if _scope(kernel, memory) != "cta":
        _fence(kernel, memory, semantics)
    kernel.has_barriers = True
    kernel.writer.put("bar.sync", "0")


@handles(225)
def _memory_barrier(kernel: Kernel, instruction: SpirvInstruction) -> None:
    _fence(kernel, *instruction.operands[:2])


def _order(kernel: Kernel, semantics: int, *, loads: bool = True, stores: bool = True) -> str:
    """Return the order of an atomic operation."""
    bits = _constant(kernel, semantics)
    acquires = loads and bits & (_ACQUIRE | _BOTH)
    releases = stores and bits & (_RELEASE | _BOTH)
    if acquires and releases:
        return "acq_rel"
    if acquires:
        return "acquire"
    if releases:
        return "release"
    return "relaxed"


def _target(kernel: Kernel, number: int) -> tuple[Pointer, Scalar]:
    pointer = kernel.pointer(number)
    if pointer.space not in ("global", "shared"):
        raise RefusedError("its memory is that of one thread")
    scalar = kernel.types.scalar(pointer.type)
    if scalar.bits not in (32, 64):
        raise RefusedError(f"it is atomic with {scalar.bits} bits")
    return pointer, scalar


@handles(227)
def _atomic_load(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    _, _, target, scope, semantics = instruction.operands
    pointer, scalar = _target(kernel, target)
    order = _order(kernel, semantics, stores=False)
    opcode = f"ld.{order}.{_scope(kernel, scope)}.{pointer.space}.{scalar.memory}"
    return [kernel.writer.op(scalar.register, opcode, kernel.memory.operand(pointer))]


@handles(228)
def _atomic_store(kernel: Kernel, instruction: SpirvInstruction) -> None:
    target, scope, semantics, value = instruction.operands
    pointer, scalar = _target(kernel, target)
    order = _order(kernel, semantics, loads=False)
    opcode = f"st.{order}.{_scope(kernel, scope)}.{pointer.space}.{scalar.memory}"
    value_held = kernel.writer.held(scalar, kernel.one(value))
    kernel.writer.put(opcode, kernel.memory.operand(pointer), value_held)


@handles(*_ATOMICS)
def _atomic(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    target, scope, semantics, *values = instruction.operands[2:]
    pointer, scalar = _target(kernel, target)
    name, letter = _ATOMICS[instruction.opcode]
    numbers = Numbers(kernel.writer)
    if instruction.opcode == 232:
        value = "1"
    elif instruction.opcode == 233:
        value = "4294967295" if scalar.bits == 32 else "0xFFFFFFFFFFFFFFFF"
    else:
        value = kernel.one(values[0])
    if instruction.opcode == 235:
        value = numbers.negated(scalar, value)
    bits = Scalar("int", scalar.bits)
    if letter == "b":
        value = numbers.bits(scalar, value)
    order = f"{_order(kernel, semantics)}.{_scope(kernel, scope)}"
    opcode = f"atom.{order}.{pointer.space}.{name}.{letter}{scalar.bits}"
    result_type = scalar if letter == "f" else bits
    address = kernel.memory.operand(pointer)
    result = kernel.writer.op(result_type.register, opcode, address, value)
    if letter == "b":
        result = numbers.from_bits(scalar, result)
    return [result]


@handles(230, 231)
def _compare_exchange(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    target, scope, semantics, _, value, expected = instruction.operands[2:]
    pointer, scalar = _target(kernel, target)
    order = f"{_order(kernel, semantics)}.{_scope(kernel, scope)}"
    opcode = f"atom.{order}.{pointer.space}.cas.b{scalar.bits}"
    address = kernel.memory.operand(pointer)
    operands = kernel.one(expected), kernel.one(value)
    return [kernel.writer.op(scalar.register, opcode, address, *operands)]


@handles(5614, 5615)
def _float_extreme(kernel: Kernel, instruction: SpirvInstruction) -> Value:
    """A loop of compare and swap: PTX has no minimum and maximum of floats for atomics."""
    target, scope, semantics, value = instruction.operands[2:]
    pointer, scalar = _target(kernel, target)
    writer = kernel.writer
    numbers = Numbers(writer)
    order = f"{_order(kernel, semantics)}.{_scope(kernel, scope)}"
    address = kernel.memory.operand(pointer)
    bits = Scalar("int", scalar.bits)
    kind = bits.register
    name = "min" if instruction.opcode == 5614 else "max"
    new = kernel.one(value)
    old = writer.op(kind, f"ld.relaxed.{_scope(kernel, scope)}.{pointer.space}.{kind}", address)
    again = writer.label()
    writer.put_label(again)
    before = writer.copy(bits, old)
    number = numbers.from_bits(scalar, before)
    extreme = numbers.plain(scalar, name, number, new)
    wanted = numbers.bits(scalar, extreme)
    writer.put(f"atom.{order}.{pointer.space}.cas.{kind}", old, address, before, wanted)
    failed = writer.op("pred", f"setp.ne.{kind}", old, before)
    writer.put("bra", again, guard=f"@{failed}")
    return [number]
