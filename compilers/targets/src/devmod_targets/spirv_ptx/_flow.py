"""The control flow of a function: its blocks, branches, and OpPhi as copies before the branches."""

from __future__ import annotations

from devmod_readers.spirv import SpirvInstruction
from devmod_targets.spirv_ptx._kernel import PHI, Kernel, handles
from devmod_targets.spirv_ptx._memory import Pointer
from devmod_targets.spirv_ptx._types import RefusedError, Scalar


@handles(PHI, 0, 246, 247)
def _nothing(kernel: Kernel, instruction: SpirvInstruction) -> None:
    """OpPhi, OpNop and the merges have no instruction of their own."""


def _copies(kernel: Kernel, target: int) -> list[tuple[Scalar, str, str]]:
    """Return the copies on the way from the block that ends to another one: a target and a source
    for each number.
    """
    frame = kernel.frame
    copies: list[tuple[Scalar, str, str]] = []
    for phi in frame.phis.get(target, ()):
        type_, number = phi.operands[:2]
        pairs = zip(phi.operands[2::2], phi.operands[3::2], strict=True)
        sources = [value for value, parent in pairs if parent == frame.block]
        if not sources:
            raise RefusedError(f"it branches to an OpPhi without the block %{frame.block}")
        values = kernel.numbers(sources[0])
        registers = frame.phi_registers[number]
        copies += zip(kernel.types.numbers(type_), registers, values, strict=True)
    return copies


def _go(kernel: Kernel, target: int) -> None:
    """Write the copies and the branch to a block."""
    writer = kernel.writer
    copies = _copies(kernel, target)
    if len(copies) > 1:
        # A copy may change the source of another.
        copies = [
            (scalar, register, writer.copy(scalar, value)) for scalar, register, value in copies
        ]
    for scalar, register, value in copies:
        writer.move(scalar, register, value)
    writer.put("bra", _label(kernel, target))


def _label(kernel: Kernel, target: int) -> str:
    label = kernel.frame.labels.get(target)
    if label is None:
        raise RefusedError(f"it branches to %{target}, which is no block of its function")
    return label


def _has_copies(kernel: Kernel, target: int) -> bool:
    return bool(kernel.frame.phis.get(target))


@handles(249)
def _branch(kernel: Kernel, instruction: SpirvInstruction) -> None:
    _go(kernel, instruction.operands[0])


@handles(250)
def _branch_conditional(kernel: Kernel, instruction: SpirvInstruction) -> None:
    condition, first, second = instruction.operands[:3]
    writer = kernel.writer
    guard = f"@{writer.predicate(kernel.one(condition))}"
    if not _has_copies(kernel, first):
        writer.put("bra", _label(kernel, first), guard=guard)
        _go(kernel, second)
        return
    edge = writer.label()
    writer.put("bra", edge, guard=guard)
    _go(kernel, second)
    writer.put_label(edge)
    _go(kernel, first)


@handles(251)
def _switch(kernel: Kernel, instruction: SpirvInstruction) -> None:
    selector, default, *rest = instruction.operands
    writer = kernel.writer
    scalar = kernel.scalar_of(selector)
    value = kernel.one(selector)
    width = 2 if scalar.bits == 64 else 1
    edges = []
    for at in range(0, len(rest), width + 1):
        number = sum(word << 32 * index for index, word in enumerate(rest[at : at + width]))
        number &= (1 << scalar.bits) - 1
        target = rest[at + width]
        kind = scalar.register
        holds = writer.op("pred", f"setp.eq.{kind}", value, f"0x{number:X}")
        label = _label(kernel, target)
        if _has_copies(kernel, target):
            label = writer.label()
            edges.append((label, target))
        writer.put("bra", label, guard=f"@{holds}")
    _go(kernel, default)
    for label, target in edges:
        writer.put_label(label)
        _go(kernel, target)


@handles(253)
def _return(kernel: Kernel, _instruction: SpirvInstruction) -> None:
    kernel.writer.put("bra", kernel.frame.end)


@handles(254)
def _return_value(kernel: Kernel, instruction: SpirvInstruction) -> None:
    frame = kernel.frame
    numbers = kernel.types.numbers(frame.function.result)
    values = kernel.numbers(instruction.operands[0])
    for scalar, target, value in zip(numbers, frame.result, values, strict=True):
        kernel.writer.move(scalar, target, value)
    kernel.writer.put("bra", frame.end)


@handles(255)
def _unreachable(kernel: Kernel, _instruction: SpirvInstruction) -> None:
    kernel.writer.put("exit")


@handles(57)
def _call(kernel: Kernel, instruction: SpirvInstruction) -> list[str]:
    _, _, number, *arguments = instruction.operands
    function = kernel.code.functions[number]
    values = []
    for argument in arguments:
        value = kernel.value(argument)
        if not isinstance(value, Pointer):
            value = [*value]
        values.append(value)
    result = kernel.inline(function, values)
    kernel.instruction = instruction
    kernel.writer.at(instruction.line)
    return result
