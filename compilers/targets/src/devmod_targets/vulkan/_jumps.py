"""Find the jumps into a loop of a program in OpenCL C, which clspv compiles to wrong code."""

from __future__ import annotations

from typing import Any, NamedTuple

_LOOPS = ("DO_STMT", "FOR_STMT", "WHILE_STMT")


class _Place(NamedTuple):
    """A goto or a label: its number in the order of the function, the loops around it, and its
    cursor.
    """

    number: int
    loops: tuple[int, ...]
    cursor: Any


class _Jumps:
    """The jumps of a function.

    Attributes
    ----------
    case
        The first label of a switch within a loop that the switch contains, or None.
    gotos
        Each goto with the name of its label.
    labels
        The labels by their names.
    """

    def __init__(self, function: Any) -> None:
        self.case: Any = None
        self.gotos: list[tuple[str, _Place]] = []
        self.labels: dict[str, _Place] = {}
        self._count = 0
        self._visit(function, (), 0)

    def _visit(self, cursor: Any, loops: tuple[int, ...], outside: int) -> None:
        """Visit a statement. `outside` is the number of loops around its switch."""
        self._count += 1
        kind = cursor.kind.name
        place = _Place(self._count, loops, cursor)
        if kind in _LOOPS:
            loops = (*loops, self._count)
        elif kind == "SWITCH_STMT":
            outside = len(loops)
        elif kind in ("CASE_STMT", "DEFAULT_STMT"):
            if len(loops) > outside:
                self.case = self.case or cursor
        elif kind == "LABEL_STMT":
            self.labels[str(cursor.spelling)] = place
        elif kind == "GOTO_STMT":
            self.gotos += [(str(each.spelling), place) for each in cursor.get_children()]
        for child in cursor.get_children():
            self._visit(child, loops, outside)

    def is_into_loop(self, name: str, goto: _Place) -> bool:
        """Return whether a goto enters a loop elsewhere than at its begin. A goto back to a label
        is a loop too.
        """
        label = self.labels.get(name)
        if label is None:
            return False
        if label.loops != goto.loops[: len(label.loops)]:
            return True
        for other, back in self.gotos:
            begin = self.labels.get(other, back).number
            if goto.number < begin < label.number < back.number:
                return True
        return False


def jump_into_loop(function: Any) -> Any:
    """Return the cursor of the first jump into a loop of a function, or None."""
    jumps = _Jumps(function)
    for name, goto in jumps.gotos:
        if jumps.is_into_loop(name, goto):
            return goto.cursor
    return jumps.case
