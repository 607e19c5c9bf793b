"""Local: an argument for memory that the threads of a block share."""

from __future__ import annotations

from devmod.errors import ArgumentError


class Local:
    """An argument for memory that the threads of a block share: OpenCL's ``__local`` and Metal's threadgroup pointers.

    Parameters
    ----------
    nbytes
        The size in bytes, 1 or more.

    Raises
    ------
    ArgumentError
        `nbytes` is not an int of 1 or more.
    """

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int) -> None:
        try:
            number = nbytes.__index__()
        except (AttributeError, TypeError):
            number = 0
        if number < 1:
            raise ArgumentError(f"Local(nbytes): expected an int of 1 or more, got {nbytes!r}", argument="nbytes")
        self.nbytes = number

    def __repr__(self) -> str:
        return f"Local({self.nbytes})"
