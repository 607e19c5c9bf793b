"""The launch configuration of a call: grid and block, or TVM's launch values behind the arguments."""

from __future__ import annotations

from devmod._launch.arguments import SHARED_MEMORY
from devmod._launch.launcher import LaunchConfig
from devmod._launch.scalars import explain_not_int
from devmod.errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod._launch.arguments import Signature
    from devmod._launch.launcher import Launcher

    Dims = int | Sequence[int] | None

_MAX = 2**63 - 1


class LaunchConfigReader:
    """Reads the launch configuration from the calls of one function.

    Parameters
    ----------
    label
        The function in a message.
    launcher, signature
        The function's launcher and signature.
    """

    __slots__ = ("_label", "_launcher", "_signature")

    def __init__(self, label: str, launcher: Launcher, signature: Signature) -> None:
        self._label = label
        self._launcher = launcher
        self._signature = signature

    def read(self, args: Sequence[Any], grid: Dims, block: Dims, shared_memory: int) -> tuple[Sequence[Any], LaunchConfig | None]:
        """Return the arguments without launch values, and the configuration; None for a grid with a zero, which launches nothing.

        Raises
        ------
        ArgumentError
            A value is not a count.
        """
        signature = self._signature
        count = len(signature.arguments)
        triples = [[1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1], [0]]
        from_args = signature.launch and len(args) == count + len(signature.launch)
        if from_args:
            if grid is not None or block is not None:
                raise self._error("grid", "is called with grid= or block= and with launch values behind its arguments; give one of them")
            if shared_memory and SHARED_MEMORY in signature.launch:
                raise self._error(
                    "shared_memory", "is called with shared_memory= and with its launch value behind the arguments; give one of them"
                )
            for tag, (which, axis), value in zip(signature.tags, signature.launch, args[count:], strict=True):
                triples[which][axis] = self._count(tag, value, f"the launch value {tag}", 1 if which in (1, 2, 3) else 0)
            args = args[:count]
        elif self._launcher.has_grid:
            if grid is None:
                raise self._error("grid", "needs grid=, the number of blocks: an int, or up to three ints for x, y, z")
            triples[0] = self._triple("grid", grid, 0)
        elif grid is not None or block is not None:
            raise self._error("grid" if grid is not None else "block", "has neither grid nor block; call it without them")
        triples[1] = self._block(
            block, triples[1] if from_args and any(which == 1 for which, _ in signature.launch) else None, bool(from_args)
        )
        shared = self._shared(shared_memory if shared_memory != 0 else triples[4][0])
        if 0 in triples[0]:
            return args, None
        x, y, z = triples[0]
        bx, by, bz = triples[1]
        cx, cy, cz = triples[2]
        px, py, pz = triples[3]
        return args, LaunchConfig((x, y, z), (bx, by, bz), (cx, cy, cz), shared, (px, py, pz))

    def _block(self, block: Dims, values: list[int] | None, from_args: bool) -> list[int]:
        interface = self._signature.interface
        fixed = interface.block if interface is not None else None
        if block is not None:
            values = self._triple("block", block, 1)
        if values is None:
            if fixed is None and self._launcher.has_grid and not from_args:
                raise self._error("block", "needs block=, the number of threads in a block: an int, or up to three ints for x, y, z")
            return list(fixed or (1, 1, 1))
        if fixed is not None and tuple(values) != fixed:
            raise self._error("block", f"is built for blocks of {fixed} threads, and {tuple(values)} was given; omit block=")
        return values

    def _shared(self, value: Any) -> int:
        if type(value) is int and value == 0:
            return 0
        number = self._count("shared_memory", value, f"shared_memory={value!r}", 0)
        if number and self._launcher.no_shared_memory:
            raise self._error("shared_memory", f"cannot be given shared_memory={number}: {self._launcher.no_shared_memory}")
        return number

    def _triple(self, word: str, value: Any, least: int) -> list[int]:
        parts = value if isinstance(value, (tuple, list)) else (value,)
        if not 1 <= len(parts) <= 3:
            raise self._error(word, f"was given {word}={value!r}: expected an int, or up to three ints for x, y, z")
        counts = [self._count(word, part, f"{word}={value!r}", least) for part in parts]
        return counts + [1] * (3 - len(counts))

    def _count(self, argument: str, value: Any, what: str, least: int) -> int:
        try:
            number = int(value.__index__())
        except (AttributeError, TypeError):
            raise self._error(argument, f"was given {what}: {explain_not_int(value, argument)}") from None
        if not least <= number <= _MAX:
            raise self._error(argument, f"was given {what}: {number} is not a count of {least} or more")
        return number

    def _error(self, argument: str, text: str) -> ArgumentError:
        return ArgumentError(f"{self._label} {text}", kind=self._launcher.kind, argument=argument)
