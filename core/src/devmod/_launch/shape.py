"""The shape of a launch as callers say it: grid and block, or TVM's launch values behind the arguments."""

from __future__ import annotations

from devmod._launch.launcher import LaunchShape
from devmod.errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod._launch.arguments import Plan
    from devmod._launch.launcher import Launcher

    Dims = int | Sequence[int] | None

#: Where a launch value goes that is the dynamic shared memory.
_SHARED = (3, 0)
_WORDS = ("grid", "block", "cluster")
_MAX = 2**63 - 1


class ShapeReader:
    """Reads the shape of one function's launches.

    Parameters
    ----------
    described
        The function in a message.
    launcher, plan
        What its kind and its payload say.
    """

    __slots__ = ("_described", "_launcher", "_plan")

    def __init__(self, described: str, launcher: Launcher, plan: Plan) -> None:
        self._described = described
        self._launcher = launcher
        self._plan = plan

    def read(self, args: Sequence[Any], grid: Dims, block: Dims, shared_memory: int) -> tuple[Sequence[Any], LaunchShape | None]:
        """The arguments without launch values, and the shape; None for a grid with a zero, which launches nothing.

        Raises
        ------
        ArgumentError
            There are too many or too few, or a value is no count.
        """
        plan = self._plan
        count = len(plan.arguments)
        triples = [[1, 1, 1], [1, 1, 1], [1, 1, 1], [0]]
        from_args = plan.launch and len(args) == count + len(plan.launch)
        if from_args:
            if grid is not None or block is not None:
                raise self._wrong("grid", "is called with grid= or block= and with launch values behind its arguments; give one of them")
            if shared_memory and _SHARED in plan.launch:
                raise self._wrong(
                    "shared_memory", "is called with shared_memory= and with its launch value behind the arguments; give one of them"
                )
            for tag, (which, axis), value in zip(plan.tags, plan.launch, args[count:], strict=True):
                triples[which][axis] = self._count(tag, value, f"the launch value {tag}", 1 if which in (1, 2) else 0)
            args = args[:count]
        elif len(args) != count:
            behind = f"; its launch values ({', '.join(plan.tags)}) may follow them" if plan.tags else ""
            takes = f"{count} argument{'' if count == 1 else 's'}{f' ({plan.signature})' if count else ''}"
            raise self._wrong("", f"takes {takes}{behind}; {len(args)} {'was' if len(args) == 1 else 'were'} given")
        elif self._launcher.has_grid:
            if grid is None:
                raise self._wrong("grid", "needs grid=, the number of blocks: an int, or up to three of them for x, y, z")
            triples[0] = self._triple("grid", grid, 0)
        elif grid is not None or block is not None:
            raise self._wrong("grid" if grid is not None else "block", "has neither grid nor block: a call of it is one call")
        triples[1] = self._block(block, triples[1] if from_args and any(which == 1 for which, _ in plan.launch) else None, bool(from_args))
        shared = self._shared(shared_memory if shared_memory != 0 else triples[3][0])
        if 0 in triples[0]:
            return args, None
        x, y, z = triples[0]
        bx, by, bz = triples[1]
        cx, cy, cz = triples[2]
        return args, LaunchShape((x, y, z), (bx, by, bz), (cx, cy, cz), shared)

    def _block(self, block: Dims, values: list[int] | None, from_args: bool) -> list[int]:
        fixed = self._plan.block
        if block is not None:
            values = self._triple("block", block, 1)
        if values is None:
            if fixed is None and self._launcher.has_grid and not from_args:
                raise self._wrong("block", "needs block=, the number of threads in a block: an int, or up to three of them for x, y, z")
            return list(fixed or (1, 1, 1))
        if fixed is not None and tuple(values) != fixed:
            raise self._wrong("block", f"is built for blocks of {fixed} threads, and {tuple(values)} was given; leave block= out")
        return values

    def _shared(self, value: Any) -> int:
        if type(value) is int and value == 0:
            return 0
        number = self._count("shared_memory", value, f"shared_memory={value!r}", 0)
        if number and self._launcher.no_shared_memory:
            raise self._wrong("shared_memory", f"cannot be given shared_memory={number}: {self._launcher.no_shared_memory}")
        return number

    def _triple(self, word: str, value: Any, least: int) -> list[int]:
        parts = value if isinstance(value, (tuple, list)) else (value,)
        if not 1 <= len(parts) <= 3:
            raise self._wrong(word, f"was given {word}={value!r}: it is an int, or up to three of them for x, y, z")
        made = [self._count(word, part, f"{word}={value!r}", least) for part in parts]
        return made + [1] * (3 - len(made))

    def _count(self, argument: str, value: Any, what: str, least: int) -> int:
        try:
            number = int(value.__index__())
        except (AttributeError, TypeError):
            raise self._wrong(argument, f"was given {what}: {value!r} is not a whole number") from None
        if not least <= number <= _MAX:
            raise self._wrong(argument, f"was given {what}: {number} is not a count from {least} up")
        return number

    def _wrong(self, argument: str, text: str) -> ArgumentError:
        return ArgumentError(f"{self._described} {text}", kind=self._launcher.kind, argument=argument)
