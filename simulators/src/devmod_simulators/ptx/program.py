"""Modules and kernels: variables get addresses, functions become blocks of decoded instructions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from devmod_simulators.ptx import (  # noqa: F401  # these register decoders
    ops_atomic,
    ops_bits,
    ops_convert,
    ops_copy,
    ops_logic,
    ops_texture,
)
from devmod_simulators.ptx.decoder import Decoder, Step, decode, form_of
from devmod_simulators.ptx.ends import Jump, Leave, Table, decode_end
from devmod_simulators.ptx.errors import invalid_ptx
from devmod_simulators.ptx.flow import live_registers, order
from devmod_simulators.ptx.memory import FUNCTION_PARAMETERS
from devmod_simulators.ptx.ops_fragments import MATRIX
from devmod_simulators.ptx.ops_system import is_system_call
from devmod_simulators.ptx.ptx_types import Function, Instruction

if TYPE_CHECKING:
    from devmod_simulators.ptx.module import Module

#: Instructions that end a block: what they do depends on other lanes, or they change the flow.
ENDS = {
    "bra",
    "brx",
    "ret",
    "exit",
    "trap",
    "call",
    "bar",
    "barrier",
    "shfl",
    "vote",
    "match",
    "redux",
    "elect",
    "activemask",
    *MATRIX,
}

#: What a loop that waits for other lanes has.
_SPINNING = ("atom.", "ld.volatile", "ld.relaxed", "ld.acquire", "nanosleep", "ld.weak", "mbarrier")


@dataclass(slots=True)
class Block:
    """Instructions that lanes execute together, and what comes after them."""

    number: int
    steps: list[Step] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)  # of the steps, and of the end
    reads: list[int] = field(default_factory=list)
    writes: int = 0
    live: int = 0
    spins: bool = False
    end: Any = None
    site: Any = None  # of the end, with checks
    next: int = -1
    taken: int = -1
    targets: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Code:
    """A function, decoded for one kernel."""

    function: Function
    blocks: list[Block]
    frame_size: int
    layout: dict[str, tuple[str, int]]
    after: dict[int, type] = field(
        default_factory=dict
    )  # with checks: the blocks after operations of a warp or a cluster
    behind: dict[int, set[int]] = field(
        default_factory=dict
    )  # and what lanes run that have passed such an operation
    past: dict[int, set[int]] = field(default_factory=dict)  # of barriers, by the block after them


class Program:
    """A kernel with the functions that it calls, decoded with one layout of shared memory."""

    def __init__(self, module: "Module", kernel: str, watcher: Any = None) -> None:
        self.module = module
        self.watcher = watcher  # what checks do with each instruction
        self.flows: dict[str, Any] = {}  # of origins.py
        self.kernel = module.text.functions[kernel]
        self.shared, self.static_shared = module.shared_layout(self.kernel)
        self.codes: dict[str, Code] = {}
        self.layouts: dict[str, tuple[dict[str, tuple[str, int]], int]] = {}
        self.columns: tuple[Any, dict[str, Any]] = (
            None,
            {},
        )  # of an execution: the latest form, and what is the same for all of it

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return self.kernel.name

    def shared_size(self, dynamic: int) -> int:
        """Return the bytes of shared memory of a block."""
        return (
            max([self.static_shared, *(start for start, size in self.shared.values() if not size)])
            + dynamic
        )

    def layout(self, function: Function) -> dict[str, tuple[str, int]]:
        """Return the places of a function's local variables and parameters."""
        if function.name not in self.layouts:
            self.layouts[function.name] = function_parameters(function)
        return self.layouts[function.name][0]

    def code(self, name: str) -> Code:
        """Return a decoded function."""
        if name not in self.codes:
            function = self.module.text.functions[name]
            layout = self.layout(function)
            code = self.codes[name] = Code(
                function, blocks_of(self, function), self.layouts[name][1], layout
            )
            if self.watcher is not None:
                self.watcher.decoded(code)
        return self.codes[name]


def function_parameters(function: Function) -> tuple[dict[str, tuple[str, int]], int]:
    """Return the places of a function's local variables and parameters in its frame, and the
    frame's size.
    """
    places: dict[str, tuple[str, int]] = {}
    size = 0
    kernel_params = {variable.name for variable in function.params} if function.entry else set()
    for variable in function.variables.values():
        if variable.name in kernel_params or variable.space not in ("local", "param"):
            continue
        align = max(variable.align, 1)
        size = -(-size // align) * align
        # The space of parameters of device functions is local memory too: their addresses have a
        # mark.
        places[variable.name] = (
            "local",
            size + (FUNCTION_PARAMETERS if variable.space == "param" else 0),
        )
        size += variable.size
    if function.entry:
        offset = 0
        for variable in function.params:
            offset = -(-offset // variable.align) * variable.align
            places[variable.name] = ("param", offset)
            offset += variable.size
    return places, -(-size // 16) * 16


def _root(instruction: Instruction) -> str:
    return instruction.opcode.split(".", 1)[0]


def _ends(instruction: Instruction) -> bool:
    root = _root(instruction)
    if root == "call":
        return not is_system_call(instruction)
    return root in ENDS


def _may_spin(instruction: Instruction) -> bool:
    """Return whether a loop with this instruction can wait for other lanes."""
    return instruction.opcode.startswith(_SPINNING) or any(
        getattr(operand, "text", "") in ("%clock", "%clock64", "%globaltimer")
        for operand in instruction.operands
    )


def _expand(
    function: Function,
) -> tuple[list[Instruction], dict[tuple[int, str], int], dict[int, int]]:
    """Return the instructions with a branch around each guarded end, labels by position, and
    targets of those branches.
    """
    code: list[Instruction] = []
    moved = {}
    around: dict[int, int] = {}
    for position, instruction in enumerate(function.instructions):
        moved[position] = len(code)
        if (
            instruction.guard is not None
            and (_ends(instruction) or _root(instruction) == "call")
            and _root(instruction) != "bra"
        ):
            around[len(code)] = len(code) + 2
            code.append(
                replace(instruction, opcode="bra", operands=[], negated=not instruction.negated)
            )
            instruction = replace(instruction, guard=None, negated=False)
        code.append(instruction)
    moved[len(function.instructions)] = len(code)
    code.append(Instruction("exit" if function.entry else "ret", [], function.line))
    return code, {label: moved[position] for label, position in function.labels.items()}, around


def blocks_of(program: Program, function: Function) -> list[Block]:
    """Decode a function: its blocks in the order of the scheduler's priority, the first one
    first.
    """
    code, labels, around = _expand(function)

    def find(instruction: Instruction, name: str) -> int:
        for scope in reversed(instruction.scopes):
            if (scope, name) in labels:
                return labels[scope, name]
        raise invalid_ptx(instruction.line, f"unknown label {name!r}")

    leaders = {0, *labels.values(), *around.values()}
    for position, instruction in enumerate(code):
        if _ends(instruction):
            leaders.add(position + 1)
            if _root(instruction) not in ("bra", "brx", "ret", "exit", "trap"):
                leaders.add(position)  # lanes wait before it
    leaders.discard(len(code))
    starts = sorted(leaders)
    number_of = {start: number for number, start in enumerate(starts)}
    blocks: list[Block] = []
    successors: list[list[int]] = []
    reads_of: list[int] = []
    for number, start in enumerate(starts):
        stop = starts[number + 1] if number + 1 < len(starts) else len(code)
        block = Block(number)
        reads: set[int] = set()
        writes: set[int] = set()
        for position in range(start, stop):
            instruction = code[position]
            block.instructions.append(instruction)
            decoder = Decoder(program, function, instruction)
            with form_of(decoder):
                if not _ends(instruction):
                    block.steps.append(decode(decoder))
                else:
                    target = around.get(position)
                    if target is None and _root(instruction) == "bra":
                        target = find(instruction, instruction.operands[0].text)
                    block.end = decode_end(decoder)
                    if program.watcher is not None:
                        program.watcher.end(decoder, block)
                    if isinstance(block.end, Table):
                        names = function.tables[instruction.operands[1].text]
                        block.targets = [number_of[find(instruction, name)] for name in names]
                    block.taken = number_of[target] if target is not None else -1
            block.spins |= _may_spin(instruction)
            reads |= decoder.reads - writes
            writes |= decoder.writes
        if block.end is None:
            block.end = Jump()
        following = [block.taken] if block.taken >= 0 else []
        following += block.targets
        unconditional = isinstance(block.end, Jump) and block.taken >= 0
        if (
            not unconditional
            and not isinstance(block.end, Leave | Table)
            and number + 1 < len(starts)
        ):
            block.next = number + 1
            following.append(number + 1)
        if unconditional:
            block.next = block.taken
        block.reads = sorted(reads)
        block.writes = sum(1 << register for register in writes)
        blocks.append(block)
        successors.append(following)
        reads_of.append(sum(1 << register for register in reads))
    for block, live in zip(
        blocks,
        live_registers(successors, reads_of, [block.writes for block in blocks]),
        strict=True,
    ):
        block.live = live
    return _renumber(blocks, successors)


def _renumber(blocks: list[Block], successors: list[list[int]]) -> list[Block]:
    """Return the blocks that the first one reaches, in the order of their priority."""
    ordered = order(0, successors)
    new = {old: number for number, old in enumerate(ordered)}
    result = []
    for old in ordered:
        block = blocks[old]
        block.number = new[old]
        block.next = new.get(block.next, -1)
        block.taken = new.get(block.taken, -1)
        block.targets = [new[target] for target in block.targets]
        result.append(block)
    return result
