"""The output files of commands: a check before the compiles, which may take minutes, and their
state after Ctrl-C.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from devmod.errors import FormatError

_Path = str | os.PathLike[str]


def check_writable(path: _Path) -> None:
    """Raise the error of the system that saving to a path would raise, if it is known before.

    The save checks again: the folder may change, and the disk may become full. It writes a
    temporary file beside the old one, so it needs the permission to write to the folder as well.

    Raises
    ------
    OSError
        FileNotFoundError or NotADirectoryError with the name of the folder, IsADirectoryError for a
        folder in place of the file, PermissionError.
    FormatError
        The path is "-".
    """
    name = os.fsdecode(path)
    if name == "-":
        raise FormatError(
            "the output '-' is standard output, to which `devmod compile` alone writes. Give the name of a file"
        )
    real = os.path.realpath(name)
    folder = os.path.dirname(real)
    os.stat(os.path.join(folder, ""))  # with the slash, a file in place of the folder is an error
    exists = os.path.lexists(real)
    if exists and stat.S_ISDIR(os.stat(real).st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not os.access(folder, os.W_OK | os.X_OK) or (exists and not os.access(real, os.W_OK)):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)


@contextmanager
def noting_interrupts(*paths: _Path) -> Iterator[None]:
    """Add a note to the KeyboardInterrupt of the block: which of the files it has written. `devmod`
    prints the note.

    Parameters
    ----------
    paths
        The files that the block writes, each whole or not at all.
    """
    before = {path: _state(path) for path in paths}
    try:
        yield
    except KeyboardInterrupt as error:
        if before:
            outcomes = [_outcome(path, old) for path, old in before.items()]
            error.add_note(f"interrupted: {', '.join(outcomes)}")
        raise


def _outcome(path: _Path, old: tuple[int, ...]) -> str:
    new = _state(path)
    if new != old:
        return f"{os.fsdecode(path)} was written"
    if new:
        return f"{os.fsdecode(path)} is unchanged"
    return f"{os.fsdecode(path)} was not written"


def _state(path: _Path) -> tuple[int, ...]:
    """Return what changes when a file is replaced; () if there is none."""
    try:
        about = os.stat(path)
    except OSError:
        return ()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns
