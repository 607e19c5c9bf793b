"""The blocks of a kernel and of the functions that it calls as one graph: each call has a copy of
its function.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from devmod_simulators.ptx.ends import Branch, Call, Jump, Leave, Table
from devmod_simulators.ptx.errors import UnsupportedError
from devmod_simulators.ptx.flow import order
from devmod_simulators.ptx.instructions import opcode_of
from devmod_simulators.ptx.ops_together import BarrierOperation, WarpOperation
from devmod_simulators.ptx.ptx_types import aligned

if TYPE_CHECKING:
    from devmod_simulators.ptx.program import Block, Code, Program
    from devmod_simulators.ptx.ptx_types import Instruction

#: The most instructions of a kernel, with those of each copy of a function.
MOST_INSTRUCTIONS = 20_000
#: The most calls in each other.
MOST_CALLS = 32


#: What the end of a block is.
_KINDS = {
    Jump: "jump",
    Branch: "branch",
    Table: "table",
    Leave: "leave",
    Call: "call",
    WarpOperation: "warp",
    BarrierOperation: "barrier",
}


@dataclass(eq=False)
class Copy:
    """A function where it is called from: its frame in local memory."""

    code: Code
    number: int
    base: int
    parent: Copy | None = None
    #: The parameters of the caller that take its results.
    results: list[str] = field(default_factory=list)

    @property
    def depth(self) -> int:
        """How many calls it is in."""
        return self.parent.depth + 1 if self.parent else 0


@dataclass(eq=False)
class Unit:
    """Instructions that the lanes of a warp execute together, and what comes after them."""

    copy: Copy
    block: Block
    instructions: list[Instruction]
    kind: str
    #: The instruction that ends the unit, if it is one.
    last: Instruction | None = None
    next: int = -1
    taken: int = -1
    targets: list[int] = field(default_factory=list)
    number: int = 0
    #: Of a call: the copy that it enters; of a return: the one that it leaves.
    other: Copy | None = None
    spins: bool = False

    def following(self) -> list[int]:
        """Return the units that lanes may run next."""
        return [each for each in (self.taken, *self.targets, self.next) if each >= 0]


class Graph:
    """The units of a kernel, in the order of their priority."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.units: list[Unit] = []
        self.count = 0
        self.copies = 0
        self.frame = 0
        self._add(program.kernel.name, None, -1, 0)
        self._renumber()

    @property
    def has_loops(self) -> bool:
        """Whether lanes may run a unit again."""
        return any(target <= unit.number for unit in self.units for target in unit.following())

    def _add(self, name: str, parent: Copy | None, back: int, base: int) -> tuple[int, Copy]:
        """Add the units of a function, and return the first one and the copy."""
        code = self.program.code(name)
        copy = Copy(code, self.copies, base, parent)
        self.copies += 1
        if copy.depth > MOST_CALLS:
            raise UnsupportedError("calls that are too deep, or recursive")
        self.frame = max(self.frame, base + aligned(code.frame_size, 16))
        first = len(self.units)
        for block in code.blocks:
            self._unit(copy, block)
        for unit in self.units[first : first + len(code.blocks)]:
            self._connect(unit, first, back)
        return first, copy

    def _unit(self, copy: Copy, block: Block) -> None:
        instructions = list(block.instructions)
        for each in instructions:
            form = opcode_of(each.opcode).form
            if form is not None and form.interpreted:
                raise UnsupportedError(f"{each.opcode}: {form.interpreted}")
        last = None
        if len(instructions) > len(block.steps):
            last = instructions.pop()
        self.count += len(block.instructions)
        if self.count > MOST_INSTRUCTIONS:
            raise UnsupportedError(f"more than {MOST_INSTRUCTIONS} instructions with all calls")
        kind = _KINDS[type(block.end)]
        self.units.append(Unit(copy, block, instructions, kind, last, spins=block.spins))

    def _connect(self, unit: Unit, first: int, back: int) -> None:
        """Set the units that follow one."""
        block = unit.block
        if unit.kind == "leave" and block.end.kind == "ret" and unit.copy.parent:
            unit.kind = "return"
            unit.next = back
            unit.other = unit.copy
            return
        if unit.kind == "leave":
            return
        if block.next >= 0:
            unit.next = first + block.next
        if unit.kind == "branch":
            unit.taken = first + block.taken
        if unit.kind == "table":
            unit.targets = [first + target for target in block.targets]
        if unit.kind == "barrier" and block.end.reduction:
            finish = Unit(unit.copy, block, [], "finish", unit.last, unit.next)
            unit.next = len(self.units)
            self.units.append(finish)
        if unit.kind == "call":
            call = block.end
            if call.pointer is not None:
                raise UnsupportedError("a call by an address")
            name = call.name
            copy: Copy | None = unit.copy
            while copy:
                if copy.code.function.name == name:
                    raise UnsupportedError("a recursive call")
                copy = copy.parent
            base = unit.copy.base + aligned(unit.copy.code.frame_size, 16)
            unit.next, unit.other = self._add(name, unit.copy, unit.next, base)
            unit.other.results = call.results

    def _renumber(self) -> None:
        ordered = order(0, [unit.following() for unit in self.units])
        new = {old: number for number, old in enumerate(ordered)}
        units = [self.units[old] for old in ordered]
        for number, unit in enumerate(units):
            unit.number = number
            unit.next = new.get(unit.next, -1)
            unit.taken = new.get(unit.taken, -1)
            unit.targets = [new[each] for each in unit.targets]
        self.units = units
