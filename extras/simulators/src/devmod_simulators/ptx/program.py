"""Modules and kernels: variables get addresses, functions become blocks of decoded instructions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from devmod_simulators.ptx import (  # noqa: F401  # these register decoders
    ops_atomic,
    ops_bits,
    ops_convert,
    ops_copy,
    ops_logic,
    ops_texture,
    ops_video,
)
from devmod_simulators.ptx.decoder import Decoder, Step, decode, form_of
from devmod_simulators.ptx.ends import ENDS, Jump, Leave, Table
from devmod_simulators.ptx.errors import invalid_ptx
from devmod_simulators.ptx.flow import live_registers, most_live, order
from devmod_simulators.ptx.memory import FUNCTION_PARAMETERS
from devmod_simulators.ptx.ops_system import is_system_call
from devmod_simulators.ptx.ptx_types import Function, Instruction, aligned

if TYPE_CHECKING:
    from devmod_simulators.ptx.module import Module

#: What ptxas takes for addresses and its calling convention, in kernels of some lines.
_OWN_REGISTERS = 8

#: What a loop that waits for other lanes has.
_SPINNING = ("atom.", "ld.volatile", "ld.relaxed", "ld.acquire", "nanosleep", "ld.weak", "mbarrier")


@dataclass(slots=True)
class Block:
    """Instructions that lanes execute together, and what comes after them."""

    number: int
    steps: list[Step] = field(default_factory=list)
    #: Of the steps, and of the end.
    instructions: list[Instruction] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    writes: int = 0
    live: int = 0
    #: The registers that live behind the block, and those that each instruction reads and writes.
    after: int = 0
    uses: list[tuple[set[int], set[int]]] = field(default_factory=list)
    spins: bool = False
    end: Any = None
    #: Of the end, with checks.
    site: Any = None
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
    #: With checks: the blocks after operations of a warp or a cluster.
    after: dict[int, type] = field(default_factory=dict)
    #: What lanes run that have passed an operation of a warp or a barrier, by the block that it
    #: ends.
    behind: dict[int, set[int]] = field(default_factory=dict)


class Program:
    """A kernel with the functions that it calls, decoded with one layout of shared memory."""

    def __init__(self, module: "Module", kernel: str, watcher: Any = None) -> None:
        self.module = module
        #: What checks do with each instruction.
        self.watcher = watcher
        #: Of origins.py.
        self.flows: dict[str, Any] = {}
        self.kernel = module.text.functions[kernel]
        self.shared, self.static_shared = module.shared_layout(self.kernel)
        self.codes: dict[str, Code] = {}
        self.layouts: dict[str, tuple[dict[str, tuple[str, int]], int]] = {}
        #: Of an execution: the latest form, and what is the same for all of it.
        self.columns: tuple[Any, dict[str, Any]] = (None, {})
        #: The compiled kernel, or why there is none; before that, what its compilation waits for.
        self.compiled: Any = None
        self.tier: Any = None

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return self.kernel.name

    def registers(self) -> int:
        """Return an estimate of the registers of a thread, from the functions that are decoded."""
        most = 0
        for code in self.codes.values():
            dtypes = enumerate(code.function.registers)
            wide = _bits(register for register, dtype in dtypes if dtype.itemsize > 4)
            for block in code.blocks:
                uses = [(_bits(reads), _bits(writes)) for reads, writes in block.uses]
                most = max(most, most_live(block.after, uses, wide))
        return _OWN_REGISTERS + most

    def shared_size(self, dynamic: int) -> int:
        """Return the bytes of shared memory of a block."""
        end = self.static_shared
        for start, size in self.shared.values():
            if not size:
                end = max(end, start)
        return end + dynamic

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
            _, frame_size = self.layouts[name]
            code = Code(function, _Blocks(self, function).decoded(), frame_size, layout)
            self.codes[name] = code
            if self.watcher is not None:
                self.watcher.decoded(code)
        return self.codes[name]


def function_parameters(function: Function) -> tuple[dict[str, tuple[str, int]], int]:
    """Return the places of a function's local variables and parameters in its frame, and the
    frame's size.
    """
    places: dict[str, tuple[str, int]] = {}
    size = 0
    kernel_params = set()
    if function.entry:
        kernel_params = {variable.name for variable in function.params}
    for variable in function.variables.values():
        if variable.name in kernel_params or variable.space not in ("local", "param"):
            continue
        align = max(variable.align, 1)
        size = aligned(size, align)
        place = size
        # The space of parameters of device functions is local memory too: their addresses have a
        # mark.
        if variable.space == "param":
            place += FUNCTION_PARAMETERS
        places[variable.name] = ("local", place)
        size += variable.size
    if function.entry:
        for variable, offset in zip(function.params, function.offsets(), strict=True):
            places[variable.name] = ("param", offset)
    return places, aligned(size, 16)


def _ends(instruction: Instruction) -> bool:
    if instruction.root == "call":
        return not is_system_call(instruction)
    return instruction.root in ENDS


def _may_spin(instruction: Instruction) -> bool:
    """Return whether a loop with this instruction can wait for other lanes."""
    if instruction.opcode.startswith(_SPINNING):
        return True
    texts = {getattr(operand, "text", "") for operand in instruction.operands}
    return not texts.isdisjoint(("%clock", "%clock64", "%globaltimer"))


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
        if instruction.guard is not None and _needs_branch(instruction):
            around[len(code)] = len(code) + 2
            code.append(
                replace(instruction, opcode="bra", operands=[], negated=not instruction.negated)
            )
            instruction = replace(instruction, guard=None, negated=False)
        code.append(instruction)
    moved[len(function.instructions)] = len(code)
    code.append(Instruction("exit" if function.entry else "ret", [], function.line))
    labels = {label: moved[position] for label, position in function.labels.items()}
    return code, labels, around


def _needs_branch(instruction: Instruction) -> bool:
    """Return whether an instruction with a guard gets a branch around it."""
    root = instruction.root
    return root != "bra" and (root == "call" or _ends(instruction))


def _bits(registers: Iterable[int]) -> int:
    return sum(1 << register for register in registers)


class _Blocks:
    """The blocks of a function while it is decoded."""

    def __init__(self, program: Program, function: Function) -> None:
        self._program = program
        self._function = function
        self._code, self._labels, self._around = _expand(function)
        self._starts = self._block_starts()
        self._number_of = {start: number for number, start in enumerate(self._starts)}

    def _block_starts(self) -> list[int]:
        starts = {0, *self._labels.values(), *self._around.values()}
        for position, instruction in enumerate(self._code):
            if _ends(instruction):
                starts.add(position + 1)
                if instruction.root not in ("bra", "brx", "ret", "exit", "trap"):
                    # Lanes wait before it.
                    starts.add(position)
        starts.discard(len(self._code))
        return sorted(starts)

    def _find(self, instruction: Instruction, name: str) -> int:
        """Return the position of a label."""
        for scope in reversed(instruction.scopes):
            if (scope, name) in self._labels:
                return self._labels[scope, name]
        raise invalid_ptx(instruction.line, f"unknown label {name!r}")

    def decoded(self) -> list[Block]:
        """Return the blocks in the order of the scheduler's priority, the first one first."""
        blocks: list[Block] = []
        successors: list[list[int]] = []
        reads_of: list[int] = []
        stops = [*self._starts[1:], len(self._code)]
        for number, (start, stop) in enumerate(zip(self._starts, stops, strict=True)):
            block = Block(number)
            reads: set[int] = set()
            writes: set[int] = set()
            for position in range(start, stop):
                decoder = self._add(block, position)
                block.uses.append((decoder.reads, decoder.writes))
                reads |= decoder.reads - writes
                writes |= decoder.writes
            if block.end is None:
                block.end = Jump()
            block.reads = sorted(reads)
            block.writes = _bits(writes)
            blocks.append(block)
            successors.append(self._following(block))
            reads_of.append(_bits(reads))

        lives = live_registers(successors, reads_of, [block.writes for block in blocks])
        for block, live, following in zip(blocks, lives, successors, strict=True):
            block.live = live
            for other in following:
                block.after |= lives[other]
        return _renumber(blocks, successors)

    def _add(self, block: Block, position: int) -> Decoder:
        """Decode an instruction as the next step of a block, or as its end."""
        instruction = self._code[position]
        block.instructions.append(instruction)
        decoder = Decoder(self._program, self._function, instruction)
        with form_of(decoder):
            if _ends(instruction):
                self._end(block, position, decoder)
            else:
                block.steps.append(decode(decoder))
        block.spins |= _may_spin(instruction)
        return decoder

    def _end(self, block: Block, position: int, decoder: Decoder) -> None:
        instruction = decoder.instruction
        target = self._around.get(position)
        if target is None and instruction.root == "bra":
            target = self._find(instruction, instruction.operands[0].text)
        block.end = ENDS[instruction.root](decoder)
        if self._program.watcher is not None:
            self._program.watcher.end(decoder, block)
        if isinstance(block.end, Table):
            names = self._function.tables[instruction.operands[1].text]
            block.targets = [self._number_of[self._find(instruction, name)] for name in names]
        if target is not None:
            block.taken = self._number_of[target]

    def _following(self, block: Block) -> list[int]:
        """Set the block after one, and return those that lanes may run next."""
        following = []
        if block.taken >= 0:
            following.append(block.taken)
        following += block.targets
        if isinstance(block.end, Jump) and block.taken >= 0:
            block.next = block.taken
        elif not isinstance(block.end, Leave | Table) and block.number + 1 < len(self._starts):
            block.next = block.number + 1
            following.append(block.next)
        return following


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
