"""Temporary folders. The next process of the same user that makes one removes those of processes that were killed."""

from __future__ import annotations

import binascii
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

try:
    import fcntl as fcntl
except ImportError:  # Windows: folders of processes that were killed stay
    fcntl = None  # type: ignore[assignment]

#: The start of the names of the folders.
PREFIX = "devmod-tmp-"
#: How often a removal is tried: a program that was killed may write at that moment.
_REMOVALS = 10


@contextmanager
def temporary_folder() -> Iterator[str]:
    """Create an empty folder for this user alone in the system's temporary folder, and remove it at the end.

    The process holds a lock on the folder (``flock``), which the kernel releases when the process ends in whatever way. The first call in
    a later process of this machine then removes the folder: in a network file system, other machines may not see a lock.
    """
    above = tempfile.gettempdir()
    _remove_abandoned(above)
    lock = -1
    while True:
        folder = os.path.join(above, f"{_machine_prefix()}{os.urandom(8).hex()}")
        os.mkdir(folder, 0o700)
        try:
            lock = _lock(folder)
        except (BlockingIOError, FileNotFoundError):  # a process has found it unlocked and removes it
            continue
        except OSError:  # this file system has no locks, so no process removes it
            pass
        break
    try:
        yield folder
    finally:
        _remove(folder)
        if lock >= 0:
            os.close(lock)


@cache
def _remove_abandoned(above: str) -> None:
    """Remove this user's folders that no process has locked. Strangers may write to the folder above."""
    with suppress(OSError):  # a folder whose names cannot be read
        pattern = re.compile(f"{_machine_prefix()}[0-9a-f]{{16}}")
        for name in filter(pattern.fullmatch, os.listdir(above) if fcntl is not None else ()):
            folder = os.path.join(above, name)
            with suppress(OSError):
                lock = _lock(folder)
                about = os.fstat(lock)
                if about.st_uid == os.geteuid() and not about.st_mode & 0o077:
                    _remove(folder)
                os.close(lock)


def _machine_prefix() -> str:
    host = os.uname().nodename if hasattr(os, "uname") else ""
    return f"{PREFIX}{binascii.crc32(os.fsencode(host)):08x}-"


def _lock(folder: str) -> int:
    """Return a descriptor that holds the lock of a folder; -1 on Windows.

    Raises
    ------
    OSError
        Another process has the lock, the folder is a link or was removed, or the file system has no locks.
    """
    if fcntl is None:
        return -1
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(lock), os.lstat(folder)):
            raise FileNotFoundError(folder)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _remove(folder: str) -> None:
    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            break
