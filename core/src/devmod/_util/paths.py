"""Path arguments of callers."""

from __future__ import annotations

import os

from devmod.errors import ArgumentError


def path_to_str(path: object, call: str, hint: str) -> str:
    """Return a path as a str.

    Parameters
    ----------
    path
        A str or an os.PathLike.
    call, hint
        For messages: the call, such as "load(path)", and the function for bytes: "devmod.loads(data) reads a bundle in memory".

    Raises
    ------
    ArgumentError
        `path` is neither.
    """
    if isinstance(path, str):
        return path
    if isinstance(path, os.PathLike):
        return os.fsdecode(path)
    in_memory = f". {hint}" if isinstance(path, (bytes, bytearray, memoryview)) else ""
    raise ArgumentError(f"{call}: path is a str or an os.PathLike, not {type(path).__name__}{in_memory}", argument="path")
