"""A lock on a device, for the workers of a parallel test run and other processes of the same
user.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from functools import cache


def device_turn(kind: str, index: int = 0) -> AbstractContextManager[object]:
    """Lock a device while the body runs. Other processes of this user that lock it wait.

    Compile and load outside of the body, so that other processes wait only for work on the device.
    A thread may lock a device that it has locked already. Without the package filelock, nothing is
    locked.

    Parameters
    ----------
    kind, index
        As for `devmod.device`.
    """
    return _lock(f"{kind}-{index}.lock")


@cache  # it takes longer than the lock
def _lock(name: str) -> AbstractContextManager[object]:
    """Return the lock of a device, in a folder that only this user can write. In a shared folder,
    another user could create the lock's file first.
    """
    try:
        from filelock import FileLock
    except ModuleNotFoundError:
        return nullcontext()
    if sys.platform == "win32":
        user = os.environ.get("USERNAME", "user")
    else:
        user = str(os.getuid())
    folder = os.path.join(tempfile.gettempdir(), f"devmod-turns-{user}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if sys.platform != "win32" and os.stat(folder).st_uid != os.getuid():
        raise PermissionError(
            f"{folder} belongs to another user, so devices cannot be locked in it. Set TMPDIR to a folder of your own"
        )
    return FileLock(os.path.join(folder, name), is_singleton=True)
