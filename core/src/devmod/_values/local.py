"""Local: an argument for memory that the threads of a block share."""

from __future__ import annotations

from devmod._values.value import Value
from devmod.errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LIMIT = 2**63


class Local(Value):
    """An argument for memory that the threads of a block share: OpenCL's ``__local`` and Metal's threadgroup pointers.

    Parameters
    ----------
    nbytes
        The size in bytes, 1 or more.
    per_thread
        The bytes for each thread of a block, in place of `nbytes`. The size follows from the block of the call.

    Raises
    ------
    ArgumentError
        Neither or both are given, or the size is not an int of 1 or more.
    """

    __slots__ = ("nbytes", "per_thread")
    nbytes: int
    per_thread: int

    def __init__(self, nbytes: int | None = None, *, per_thread: int | None = None) -> None:
        if (nbytes is None) == (per_thread is None):
            value = "neither" if nbytes is None else "both"
            raise ArgumentError(f"Local: expected nbytes or per_thread, got {value}", argument="nbytes")
        if per_thread is None:
            self._set(nbytes=_size("nbytes", nbytes), per_thread=0)
        else:
            self._set(nbytes=0, per_thread=_size("per_thread", per_thread))

    def bytes_of(self, threads: int) -> int:
        """Return the size in bytes for a block of `threads` threads."""
        return self.nbytes or self.per_thread * threads

    def __repr__(self) -> str:
        return f"Local({self.nbytes})" if self.nbytes else f"Local(per_thread={self.per_thread})"


def _size(name: str, value: Any) -> int:
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        number = 0
    if not 1 <= number < _LIMIT:
        raise ArgumentError(f"Local({name}): expected an int of 1 or more, got {value!r}", argument=name)
    return number
