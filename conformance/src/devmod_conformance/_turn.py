"""A lock on a device, for the workers of a parallel test run and other processes of the same
user.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import FileLock


@contextmanager
def device_turn(kind: str, index: int = 0) -> Iterator[None]:
    """Lock a device while the body runs. Other processes of this user that lock it wait.

    Compile and load outside of the body, so that other processes wait only for work on the device.
    A thread may lock a device that it has locked already. Without the package filelock, nothing is
    locked.

    Parameters
    ----------
    kind, index
        As for `devmod.device`.
    """
    try:
        lock = _lock(tempfile.gettempdir(), f"{kind}-{index}.lock")
    except ModuleNotFoundError:
        yield
        return
    with lock:
        yield


@cache  # it takes longer than the lock
def _lock(temporary: str, name: str) -> FileLock:
    """Return the lock of a device, in a folder that only this user can write. In a shared folder,
    another user could create the lock's file first.
    """
    from filelock import FileLock

    user = str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    folder = os.path.join(temporary, f"devmod-turns-{user}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and os.stat(folder).st_uid != os.getuid():
        raise PermissionError(
            f"{folder} belongs to another user, so devices cannot be locked in it. Set TMPDIR to a folder of your own"
        )
    return FileLock(os.path.join(folder, name), is_singleton=True)
