"""Temporary folders. The next process of the same user that makes one removes those of processes
that were killed.
"""

from __future__ import annotations

import binascii
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache

from devmod._util.atomic import fcntl, host_name, locked

#: The start of the names of the folders.
PREFIX = "devmod-tmp-"
#: How often a removal is tried: a program that was killed may write at that moment.
_REMOVALS = 10


@contextmanager
def temporary_folder(above: str = "") -> Iterator[str]:
    """Create an empty folder for this user alone in a folder, by default the system's temporary
    one, and remove it at the end.

    The process holds a lock on the folder (``flock``), which the kernel releases when the process
    ends in whatever way. The first call in a later process of this machine then removes the folder:
    in a network file system, other machines may not see a lock.
    """
    above = above or tempfile.gettempdir()
    _remove_abandoned(above)
    with ExitStack() as lock:
        while True:
            folder = os.path.join(above, f"{_machine_prefix()}{os.urandom(8).hex()}")
            os.mkdir(folder, 0o700)
            try:
                lock.enter_context(locked(folder))
            except (BlockingIOError, FileNotFoundError):
                continue  # a process has found it unlocked and removes it
            except OSError:  # this file system has no locks, so no process removes it
                pass
            break
        owner = os.getpid()
        try:
            yield folder
        finally:
            # A fork that ends in the body leaves the folder to its parent.
            if os.getpid() == owner:
                remove_folder(folder)


@cache
def _remove_abandoned(above: str) -> None:
    """Remove this user's folders that no process has locked. Strangers may write to the folder
    above.
    """
    if fcntl is None:
        return
    with suppress(OSError):  # a folder whose names cannot be read
        pattern = re.compile(f"{_machine_prefix()}[0-9a-f]{{16}}")
        for name in filter(pattern.fullmatch, os.listdir(above)):
            folder = os.path.join(above, name)
            with suppress(OSError), locked(folder) as lock:
                about = os.fstat(lock)
                if about.st_uid == os.geteuid() and not about.st_mode & 0o077:
                    remove_folder(folder)


def _machine_prefix() -> str:
    return f"{PREFIX}{binascii.crc32(os.fsencode(host_name())):08x}-"


def remove_folder(folder: str) -> None:
    """Remove a folder, also if a program writes to it at that moment."""
    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            break
