"""Check the output of a command before the compiles, which may take minutes."""

from __future__ import annotations

import errno
import os
import stat


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise the error of the system that saving to a path would raise, if it is known before.

    The save checks again: the folder may change, and the disk may become full. It writes a temporary file beside the old one, so it
    needs the permission to write to the folder as well.

    Raises
    ------
    OSError
        FileNotFoundError or NotADirectoryError for the folder, IsADirectoryError for a folder in place of the file, PermissionError. The
        file name is `path`.
    """
    name = os.fsdecode(path)
    real = os.path.realpath(name)
    folder = os.path.dirname(real)
    try:
        os.stat(os.path.join(folder, ""))  # with the slash, a file in place of the folder is an error
        exists = os.path.lexists(real)
        if exists and stat.S_ISDIR(os.stat(real).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(folder, os.W_OK | os.X_OK) or (exists and not os.access(real, os.W_OK)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None
