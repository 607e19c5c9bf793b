"""Path arguments, and regular files alone: opening a pipe waits for its writer, and opening a
device may have effects.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader, FileIO

from devmod.errors import ArgumentError, FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

    from devmod._values.code import AnyPath

_TYPES = (
    (stat.S_ISFIFO, "a pipe (FIFO)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)

#: A pipe without a writer is opened at once, and refused.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: AnyPath, *, hint: str = "") -> BinaryIO:
    """Open a regular file for reading in binary mode. The result's ``name`` is the number of the
    open file, not the path.

    Parameters
    ----------
    path
        The file; a symbolic link is followed.
    hint
        What to do instead, for the message.

    Raises
    ------
    FormatError
        `path` is a pipe, a socket or a device.
    OSError
        The system's error, with `path` as its file name.
    """
    name = os.fspath(path)
    mode = _mode(path)
    _refuse(path, mode, hint)  # before it is opened: opening a tape may rewind it
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    # `map` runs no bytecode between the calls: an interrupt would lose the number of the open file.
    file = BufferedReader(next(map(FileIO, map(os.open, (name,), (_FLAGS,)))))
    try:
        _refuse(path, os.fstat(file.fileno()).st_mode, hint)  # the file may have been replaced
    except BaseException:
        file.close()
        raise
    return file


def check_regular(path: AnyPath) -> None:
    """Raise FormatError if `path` is a pipe, a socket or a device. Opening a folder or a missing
    file raises later.
    """
    _refuse(path, _mode(path))


def _mode(path: AnyPath) -> int:
    """Return the mode of a file; 0 if it has none, and opening it raises the error."""
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return 0


def file_type(mode: int) -> str:
    """Return the type of a file with that mode, such as "a pipe (FIFO)"; "" for a regular file or a
    folder.
    """
    for test, name in _TYPES:
        if test(mode):
            return name
    return ""


def _refuse(path: AnyPath, mode: int, hint: str = "") -> None:
    result = file_type(mode)
    if result:
        raise FormatError(
            f"{os.fsdecode(path)!r} is {result}; expected a regular file{hint and f'. {hint}'}"
        )


def file_name(path: AnyPath) -> str:
    """Return a path as a str.

    Raises
    ------
    ArgumentError
        No file can have this path: it has a zero character, or a lone surrogate that stands for no
        byte.
    """
    name = os.fsdecode(path)
    try:
        if b"\0" not in os.fsencode(name):
            return name
    except UnicodeEncodeError:
        pass
    raise ArgumentError(f"no file can have the path {name!r}", argument="path")


def suffix_of(path: str) -> str:
    """Return the suffix of a path without its dot, in lower case."""
    return os.path.splitext(path)[1][1:].lower()


def absolute(path: str) -> str:
    """Return a path that begins at the root, with its links and ``..``: `os.path.abspath` also
    removes a ``..`` behind a link.
    """
    if os.path.isabs(path):
        return path
    return os.path.join(os.getcwd(), path)


def path_to_str(path: object, call: str, hint: str) -> str:
    """Return a path as a str.

    Parameters
    ----------
    path
        A str or an os.PathLike.
    call, hint
        For messages: the call, such as "load(path)", and the function for bytes:
        "devmod.loads(data) reads a bundle in memory".

    Raises
    ------
    ArgumentError
        `path` is neither, or no file can have it.
    """
    if isinstance(path, (str, os.PathLike)):
        return file_name(path)
    text = f"{call}: path is a str or an os.PathLike, not {type(path).__name__}"
    if isinstance(path, (bytes, bytearray, memoryview)):
        text += f". {hint}"
    raise ArgumentError(text, argument="path")
