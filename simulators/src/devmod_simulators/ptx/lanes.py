"""Frames and the groups of lanes that execute together."""

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from .flow import bits
from .ptx_types import Array

if TYPE_CHECKING:
    from .execution import Execution
    from .program import Code

_SERIALS = count()


class Frame:
    """A call of a function: the lanes that made it together, with a value of each register for each lane.

    A register that has one value for all lanes is an array of one element. Arrays of registers never change in place.
    """

    def __init__(self, execution: "Execution", code: "Code", lanes: Array, base: int) -> None:
        self.execution = execution
        self.code = code
        self.lanes = lanes
        self.count = len(lanes)
        self.base = base  # where the frame begins in the local memory of each lane
        self.registers: list[Array] = [np.zeros(1, dtype) for dtype in code.function.registers]
        self.depth = 0
        self.serial = next(_SERIALS)
        self.parent: Frame | None = None
        self.parent_index: Array | None = None  # the lanes' positions in the parent
        self.return_block = 0
        self.results: tuple[Any, ...] = ()


class Lanes:
    """Lanes of a frame at the same place: all of them (`index` is None), or those at the positions in `index`."""

    __slots__ = ("columns", "count", "dirty", "frame", "index", "r")

    def __init__(self, frame: Frame, index: Array | None) -> None:
        self.frame = frame
        self.index = index
        self.count = frame.count if index is None else len(index)
        #: The registers: those of the frame, or copies of the lanes' values that are written back when lanes part or meet.
        self.r: list[Any] = frame.registers if index is None else [None] * len(frame.registers)
        self.dirty = 0
        self.columns: dict[str, Array] = {}

    @property
    def lanes(self) -> Array:
        """The numbers of the lanes in the execution."""
        return self.column("lanes")

    def column(self, name: str) -> Array:
        """Return the lanes' elements of an array of the execution, such as `tid.x`."""
        column = self.columns.get(name)
        if column is None:
            execution = self.frame.execution
            if name == "lanes":
                column = self.frame.lanes if self.index is None else self.frame.lanes[self.index]
            else:
                column = execution.column(name)
                if len(column) > 1 and not (self.index is None and self.frame.count == execution.count):
                    column = column[self.lanes]
            self.columns[name] = column
        return column

    def load(self, numbers: list[int]) -> None:
        """Fetch registers from the frame."""
        if self.index is None:
            return
        registers, r = self.frame.registers, self.r
        for number in numbers:
            if r[number] is None:
                value = registers[number]
                r[number] = value if len(value) == 1 else value.take(self.index)

    def flush(self, live: int) -> None:
        """Write changed registers back to the frame, those in `live`."""
        if self.index is None:
            return
        registers = self.frame.registers
        for number in bits(self.dirty & live):
            value = self.r[number]
            old = registers[number]
            new = np.full(self.frame.count, old[0].view(value.dtype)) if len(old) == 1 else old.view(value.dtype).copy()
            new[self.index] = value
            registers[number] = new

    def select(self, positions: Array, reads: list[int]) -> "Lanes":
        """Return the lanes at `positions` of these, with copies of the registers in `reads`. It does not flush."""
        part = Lanes(self.frame, positions if self.index is None else self.index[positions])
        for number in reads:
            value = self.r[number]
            part.r[number] = value if len(value) == 1 else value.take(positions)
        return part

    def spread(self, value: Array) -> Array:
        """Return `value` with an element for each lane."""
        return value if len(value) == self.count else np.repeat(value, self.count)

    def describe(self, position: int) -> str:
        """Return kernel, block and thread of a lane, for messages."""
        return self.frame.execution.describe(int(self.lanes[position]))
