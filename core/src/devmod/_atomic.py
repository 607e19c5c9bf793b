"""Writing a file whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO


class replacing:
    """A file that is written beside `path` and moved over it when all went well; else `path` stays as it was.

    A process that is killed meanwhile leaves the old file whole, and a ``.partial`` file beside it. A link is followed, so
    that it goes on pointing to the file; an existing file's permission bits are kept.

    Parameters
    ----------
    path
        The file's path.
    size
        The bytes that will be written, where that is known: they are reserved first, so that a full disk shows at once
        and the file system need not search for space while it writes.
    sync
        Flush the file and its folder to the disk before and after the move.

    Raises
    ------
    OSError
        What the system says, with `path` as its file name: FileNotFoundError for a missing folder, PermissionError,
        IsADirectoryError.
    FormatError
        `path` is a device, a pipe or a socket.
    """

    def __init__(self, path: str | os.PathLike[str], *, size: int = 0, sync: bool = False) -> None:
        self._named = os.fsdecode(path)
        self._path = os.path.realpath(self._named)
        self._size = size
        self._sync = sync

    def __enter__(self) -> BinaryIO:
        bits = self._replaced_bits()
        folder, name = os.path.split(self._path)
        # The name may be as long as the system takes, so ours is not made by adding to it.
        self._partial = os.path.join(folder, f".{name[:32]}.{os.getpid():x}-{os.urandom(4).hex()}.partial")
        try:
            self._file: BinaryIO = open(self._partial, "xb")
        except OSError as error:
            raise self._in_our_words(error) from None
        try:
            if bits is not None and hasattr(os, "fchmod"):
                os.fchmod(self._file.fileno(), bits)
            self._reserve()
        except BaseException as error:
            self._give_up()
            if isinstance(error, OSError):
                raise self._in_our_words(error) from None
            raise
        return self._file

    def __exit__(self, failed: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if failed is not None:
            self._give_up()
            if isinstance(error, OSError) and error.filename is None and error.errno is not None:
                raise self._in_our_words(error) from error  # a full disk, while writing
            return
        try:
            self._file.flush()
            if self._sync:
                os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._partial, self._path)
        except BaseException as problem:
            self._give_up()
            if isinstance(problem, OSError):
                raise self._in_our_words(problem) from None
            raise
        if self._sync:
            _sync_folder(os.path.dirname(self._path))

    def _replaced_bits(self) -> int | None:
        """The permission bits of the file that is there; None where there is none."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._in_our_words(error) from None
        if stat.S_ISDIR(there.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self._named)
        if not stat.S_ISREG(there.st_mode):
            raise FormatError(f"{self._named!r} is a device, a pipe or a socket, and would be replaced by a file; give a file's path")
        if not os.access(self._path, os.W_OK):  # moving over it would work, and is not what read-only means to its owner
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self._named)
        return there.st_mode & 0o777

    def _reserve(self) -> None:
        if not self._size or not hasattr(os, "posix_fallocate"):
            return
        try:
            os.posix_fallocate(self._file.fileno(), 0, self._size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                raise

    def _give_up(self) -> None:
        # Closing writes what is buffered, which fails again on a full disk.
        with suppress(OSError):
            self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._partial)

    def _in_our_words(self, error: OSError) -> OSError:
        """The same error about the path that the caller knows."""
        return OSError(error.errno, error.strerror, self._named)


def _sync_folder(folder: str) -> None:
    if os.name == "nt":  # a folder has no handle to flush there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
