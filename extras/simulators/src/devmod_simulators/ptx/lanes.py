"""Frames and the groups of lanes that execute together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from devmod_simulators.ptx.errors import PtxError
from devmod_simulators.ptx.flow import bits
from devmod_simulators.ptx.memory import FUNCTION_PARAMETERS, Place
from devmod_simulators.ptx.ptx_types import Array

if TYPE_CHECKING:
    from devmod_simulators.ptx.execution import Execution
    from devmod_simulators.ptx.program import Code

_SERIALS = count()
#: The most lanes that are few: what costs most is then a call of NumPy, and not what it computes.
NARROW = 1 << 12


class Frame:
    """A call of a function: the lanes that made it together, with a value of each register for each
    lane.

    A register that has one value for all lanes is an array of one element. Arrays of registers
    never change in place.
    """

    def __init__(self, execution: "Execution", code: "Code", lanes: Array, base: int) -> None:
        self.execution = execution
        self.code = code
        self.lanes = lanes
        self.count = len(lanes)
        self.base = base  # where the frame begins in the local memory of each lane
        self.registers: list[Array] = [np.zeros(1, dtype) for dtype in code.function.registers]
        self.depth = 0
        #: Of registers with values that nothing wrote, while they are followed.
        self.poison: dict[int, Any] = {}
        self.serial = next(_SERIALS)
        self.parent: Frame | None = None
        self.parent_index: Any = None  # the lanes' positions in the parent
        self.return_block = 0
        self.results: list[str] = []

    def __lt__(self, other: "Frame") -> bool:
        """Return whether this call runs before another one: the deepest call first."""
        return (-self.depth, self.serial) < (-other.depth, other.serial)

    def place(self, name: str) -> int:
        """Return where a parameter of a device function is in the local memory of a lane."""
        return self.base + (self.code.layout[name][1] & (FUNCTION_PARAMETERS - 1))

    def flush(self, groups: list["Lanes"], live: int) -> None:
        """Take the registers that groups have changed, those in `live`."""
        changed = 0
        for lanes in groups:
            changed |= lanes.dirty & live
        for number in bits(changed):
            new: Any = None
            for lanes in groups:
                if lanes.dirty >> number & 1:
                    value = lanes.r[number]
                    if new is None:
                        old = self.registers[number].view(value.dtype)
                        new = old.repeat(self.count) if len(old) == 1 else old.copy()
                    new[lanes.index] = value.view(new.dtype)
            self.registers[number] = new


class Lanes:
    """Lanes of a frame at the same place: all of them (`index` is None), or those at the positions
    in `index`.
    """

    __slots__ = ("columns", "count", "dirty", "found", "frame", "index", "places", "r", "warps")

    def __init__(self, frame: Frame, index: Array | None) -> None:
        self.frame = frame
        self.index = index
        self.count = frame.count if index is None else len(index)
        #: The registers: those of the frame, or copies of the lanes' values that are written back
        #: when lanes part or meet.
        self.r: list[Any] = frame.registers if index is None else [None] * len(frame.registers)
        self.dirty = 0
        self.columns: dict[str, Array] = {}
        #: What memory.py knows of the latest arrays of addresses, by their identity: unrolled loops
        #: use one with many offsets.
        self.places: dict[int, Place] = {}
        #: What instructions have found with their latest registers, which never change in place.
        self.found: dict[Any, tuple[Any, ...]] = {}
        #: Of ops_warp.py, from the first operation of a warp on.
        self.warps: Any = None

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
                column = self.frame.lanes
                if self.index is not None:
                    column = column[self.index]
            else:
                column = execution.column(name)
                if len(column) > 1 and not (
                    self.index is None and self.frame.count == execution.count
                ):
                    column = column[self.lanes]
            self.columns[name] = column
        return column

    def load(self, numbers: list[int]) -> None:
        """Fetch registers from the frame."""
        if self.index is None:
            return
        registers = self.frame.registers
        r = self.r
        for number in numbers:
            if r[number] is None:
                value = registers[number]
                r[number] = value if len(value) == 1 else value.take(self.index)

    def flush(self, live: int) -> None:
        """Write changed registers back to the frame, those in `live`."""
        self.frame.flush([self], live)

    def part(self, positions: Array, live: int) -> "Lanes":
        """Return the lanes at `positions` of these, with copies of the changed registers in `live`.
        These lanes end.
        """
        if self.index is None:
            return Lanes(self.frame, positions)
        part = self.select(positions, bits(self.dirty & live))
        part.dirty = self.dirty & live
        return part

    def select(self, positions: Array, reads: Sequence[int]) -> "Lanes":
        """Return the lanes at `positions` of these, with copies of the registers in `reads`. It
        does not flush.
        """
        part = Lanes(self.frame, positions if self.index is None else self.index[positions])
        for number in reads:
            value = self.r[number]
            part.r[number] = value if len(value) == 1 else value.take(positions)
        return part

    def spread(self, value: Array) -> Array:
        """Return `value` with an element for each lane."""
        return value if len(value) == self.count else np.repeat(value, self.count)

    def error(self, name: str, text: str, position: int = 0) -> PtxError:
        """Return an error of a lane, with its kernel, block and thread."""
        execution = self.frame.execution
        block, thread = execution.where(int(self.lanes[position if self.count > 1 else 0]))
        return PtxError(
            name, f"{text}, kernel {execution.program.name}, block {block}, thread {thread}"
        )
