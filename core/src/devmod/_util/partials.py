"""The names of temporary files beside a target, and the removal of those that killed processes left."""

from __future__ import annotations

import binascii
import os
from contextlib import suppress

try:
    import fcntl as fcntl
except ImportError:  # Windows. An open file cannot be removed there.
    fcntl = None  # type: ignore[assignment]

#: The largest number of temporary files for one target. Each process that saves to it at the same time has one.
_SLOTS = 8


def partial_names(path: str) -> list[str]:
    """Return the names of the temporary files for `path` on this machine.

    Their number is small and fixed, so a save finds stale ones without a listing of the folder, which may be large. In a network file
    system each machine has its own names, because other machines may not see a lock.
    """
    folder, name = os.path.split(path)
    host = os.uname().nodename if hasattr(os, "uname") else ""
    tag = binascii.crc32(os.fsencode(f"{host}/{name}"))
    # The name may have the largest length of the system, so a longer one has only a part of it.
    return [os.path.join(folder, f".{name[:32]}.{tag:08x}.{number}.partial") for number in range(_SLOTS)]


def remove_stale(path: str) -> None:
    """Remove the temporary files of killed processes for `path`. A process that still writes has locked its file."""
    for partial in partial_names(path):
        if fcntl is None:
            with suppress(OSError):
                os.unlink(partial)
            continue
        try:
            file = os.open(partial, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another save may use the name now. The name of a locked file does not change: only the owner of the lock removes or moves it.
            if os.path.samestat(os.fstat(file), os.lstat(partial)):
                os.unlink(partial)
        except OSError:
            continue  # a process still writes it, or the file system has no locks
        finally:
            os.close(file)
