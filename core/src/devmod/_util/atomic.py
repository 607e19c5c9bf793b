"""Atomic writing of files: a file is written whole, or not at all."""

from __future__ import annotations

import binascii
import errno
import functools
import os
import stat
import sys
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO

from devmod._util.regular_files import file_name, file_type
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from devmod._values.code import AnyPath


if sys.platform == "win32":  # an open file cannot be removed there
    fcntl = None
else:
    import fcntl as fcntl

#: The largest number of temporary files for one target. Each process that saves to it at the same
#: time has one.
_SLOTS = 8


def host_name() -> str:
    """Return the name of this machine; "" on Windows, which has no locks of POSIX."""
    if sys.platform == "win32":
        return ""
    return os.uname().nodename


def partial_names(path: str) -> list[str]:
    """Return the names of the temporary files for `path` on this machine.

    Their number is small and fixed, so a save finds stale ones without a listing of the folder,
    which may be large. In a network file system each machine has its own names, because other
    machines may not see a lock.
    """
    folder, name = os.path.split(path)
    tag = binascii.crc32(os.fsencode(f"{host_name()}/{name}"))
    # The name may have the largest length of the system, so a longer one has only a part of it.
    start = os.path.join(folder, f".{name[:32]}.{tag:08x}")
    return [f"{start}.{number}.partial" for number in range(_SLOTS)]


@contextmanager
def locked(path: str, mode: int = os.O_RDONLY) -> Iterator[int]:
    """Hold the lock of a file or a folder, and yield its descriptor; -1 on Windows, which has no
    such locks.

    Raises
    ------
    OSError
        Another process has the lock, the path is a link or was removed, or the file system has no
        locks.
    """
    if fcntl is None:
        yield -1
        return
    lock = os.open(path, mode | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may use the name now. That of a locked file does not change: only the
        # owner of the lock removes or moves it.
        if not os.path.samestat(os.fstat(lock), os.lstat(path)):
            raise FileNotFoundError(path)
        yield lock
    finally:
        os.close(lock)


@contextmanager
def changing(path: AnyPath) -> Iterator[None]:
    """Let one process at a time read a file and replace it. The others wait.

    The lock is that of the folder: `replacing` gives the name to another file. Without locks, such
    as on Windows, the last process wins.
    """
    folder = os.path.dirname(os.path.realpath(file_name(path)))
    with ExitStack() as stack:
        if fcntl is not None:
            with suppress(OSError):  # a folder that cannot be read, or a file system without locks
                lock = os.open(folder, os.O_RDONLY)
                stack.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class replacing:
    """A temporary file beside `path` that is moved over it when it is complete.

    It is moved at the end of the block, or removed if the block raises. If the process is killed
    before, the old file is unchanged, and the next save to `path` on this machine removes the
    ``.partial`` file.

    A symbolic link is followed, so it still points to the file, unless `within` is given. The new
    file has the permission bits, the owner and the group of an existing one, as far as the system
    allows. The temporary file never has wider permissions than the existing file.

    Parameters
    ----------
    path
        The file's path.
    size
        The number of bytes to write, if it is known. They are reserved first, so a full disk is
        detected before the write, and the file system allocates the space at once.
    sync
        Flush the file before it is moved, and its folder after it.
    within
        The folder that the file must be in. A symbolic link below it is an error.

    Raises
    ------
    OSError
        The system's error, with `path` as its file name: FileNotFoundError for a missing folder,
        PermissionError, IsADirectoryError, ENOSPC for a full disk. So has an OSError of the block
        that names no file.
    FormatError
        `path` is a device, a pipe or a socket; or it is not in the folder `within`, or has a
        symbolic link below it.
    """

    def __init__(
        self, path: AnyPath, *, size: int = 0, sync: bool = False, within: str = ""
    ) -> None:
        self._name = file_name(path)
        if within:
            self._path = os.path.abspath(self._name)
            self._within = os.path.abspath(within)
        else:
            self._path = os.path.realpath(self._name)
            self._within = ""
        self._size = size
        self._sync = sync
        self._file: BinaryIO | None = None
        self._partial = ""
        self._lock: FileIO | None = None  # open and locked while the temporary file has its name
        self._old: os.stat_result | None = None

    def __enter__(self) -> BinaryIO:
        if self._within:
            problem = path_problem(self._path, self._within)
            if problem:
                raise FormatError(f"{self._name!r} is not written: {problem}")
        try:
            with self._named():
                self._old = self._target()
                for partial in partial_names(self._path):
                    # It is of a killed process. One that still writes has locked its file.
                    with suppress(OSError), locked(partial, os.O_RDWR):
                        os.unlink(partial)
                self._file = self._create()
                self._set_mode(self._file.fileno())
                self._reserve(self._file.fileno())
            return self._file
        except BaseException:
            self._discard()
            raise

    def __exit__(
        self, failed: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        try:
            if failed is None:
                self._move()
            elif isinstance(error, OSError) and error.filename is None and error.errno is not None:
                raise OSError(
                    error.errno, error.strerror, self._name
                ) from error  # a full disk, while writing
        finally:
            self._discard()

    def _move(self) -> None:
        """Flush and close the file, and move it to `path`."""
        assert self._file is not None
        with self._named():
            self._file.flush()
            if self._sync:
                os.fsync(self._file.fileno())
            self._file.close()  # before the move: a network file system may report a full disk only now
            if self._within:
                replace_within(self._partial, self._path, self._within)
            else:
                os.replace(self._partial, self._path)
        self._partial = ""
        if self._sync and os.name != "nt":  # folders cannot be flushed there
            folder = os.open(os.path.dirname(self._path), os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _discard(self) -> None:
        """Close the temporary file, and remove it unless it was moved."""
        if fcntl is not None:
            self._unlink()  # while it is locked: another save may use the name afterwards
        self._close()
        if fcntl is None:
            self._unlink()

    def _close(self) -> None:
        for file in (self._file, self._lock):
            if file is not None:
                # Closing flushes the buffer, which fails again on a full disk.
                with suppress(OSError):
                    file.close()

    def _unlink(self) -> None:
        """Remove the temporary file if it has not been moved. Ctrl-C may come between the move and
        the assignment after it.
        """
        if not self._partial:
            return
        with suppress(OSError):
            if self._lock is None or os.path.samestat(
                os.fstat(self._lock.fileno()), os.lstat(self._partial)
            ):
                os.unlink(self._partial)
        self._partial = ""

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Give an OSError in the block the path that the caller gave as its file name."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._name) from None

    def _target(self) -> os.stat_result | None:
        """Return the state of the file that will be replaced; None if there is none."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(status.st_mode):
            raise FormatError(
                f"{self._name!r} is {file_type(status.st_mode)}, which saving would replace. Give the path of a regular file"
            )
        if not os.access(self._path, os.W_OK):  # a move would replace it all the same
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return status

    def _create(self) -> BinaryIO:
        # Before `_set_mode` the group and others have no permissions, which could be wider than
        # those of the target.
        mode = 0o666 if self._old is None else 0o600
        names = partial_names(self._path)
        # A random name, which no later save removes, in case all others are in use or belong to
        # another user.
        names.append(f"{names[0].removesuffix('0.partial')}{os.urandom(4).hex()}.partial")
        for partial in names:
            try:
                # A partial object as the opener runs no bytecode, so that Ctrl-C cannot come before
                # the file object has the descriptor.
                file = open(partial, "xb", 1 << 18, opener=functools.partial(os.open, mode=mode))  # noqa: SIM115 - `_discard` closes it
            except FileExistsError:
                continue
            self._file = file
            if fcntl is None or self._take_lock():
                self._partial = partial
                return file
            self._close()  # another save removes it as stale, before it was locked
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    def _take_lock(self) -> bool:
        """Lock the new temporary file until `_discard`. Return False if another save removes it."""
        assert self._file is not None
        assert fcntl is not None
        # Both have one lock, which closing the file must not release. `map` runs no bytecode
        # between the calls.
        self._lock = next(map(FileIO, map(os.dup, (self._file.fileno(),))))
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # the file system has no locks, so no save removes the file of another one
        return os.fstat(self._lock.fileno()).st_nlink > 0

    def _set_mode(self, file: int) -> None:
        """Give the temporary file the owner, the group and the permission bits of the target."""
        old = self._old
        if old is None or sys.platform == "win32":
            return
        bits = old.st_mode & 0o777
        new = os.fstat(file)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            for owner in (old.st_uid, -1):
                try:
                    os.fchown(file, owner, old.st_gid)
                    break
                except OSError:
                    continue
            else:  # the group differs, so it has the permissions of others
                bits &= ~0o070 | bits << 3
        os.fchmod(file, bits)

    def _reserve(self, file: int) -> None:
        if not self._size or not hasattr(os, "posix_fallocate"):
            return
        try:
            os.posix_fallocate(file, 0, self._size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                raise


def path_problem(path: str, folder: str) -> str:
    """Return why a file would not be written in a folder: its path leaves it, or has a symbolic
    link below it; "" if it would be.
    """
    inner = os.path.relpath(path, folder).split(os.sep)
    if inner[0] == os.pardir:
        return f"it is outside of {folder!r}"
    place = folder
    for part in inner:
        place = os.path.join(place, part)
        if os.path.islink(place):
            return f"{place!r} is a symbolic link"
    return ""


def replace_within(source: str, path: str, folder: str) -> None:
    """Rename a file to another name in its folder, which is `folder` or below it, as `os.replace`
    does.

    A link that appears meanwhile is not followed, if the system can open folders (Windows cannot).

    Raises
    ------
    FormatError
        The path has a symbolic link below `folder`.
    OSError
        The system's error.
    """
    problem = path_problem(path, folder)
    if problem:
        raise FormatError(f"{path!r} was not written: {problem}")
    if sys.platform == "win32" or os.rename not in os.supports_dir_fd:
        os.replace(source, path)
        return
    flags = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
    place = os.open(folder, flags)
    try:
        for part in os.path.relpath(path, folder).split(os.sep)[:-1]:
            below = os.open(part, flags | os.O_NOFOLLOW, dir_fd=place)
            os.close(place)
            place = below
        os.replace(
            os.path.basename(source), os.path.basename(path), src_dir_fd=place, dst_dir_fd=place
        )
    finally:
        os.close(place)
