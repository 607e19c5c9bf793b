"""A lock on a device, for the workers of a parallel test run and other processes of the same
user.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


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
        from filelock import FileLock
    except ModuleNotFoundError:
        yield
        return
    with FileLock(os.path.join(_folder(), f"{kind}-{index}.lock"), is_singleton=True):
        yield


def _folder() -> str:
    """Return a folder that only this user can write. In a shared folder, another user could create
    the lock's file first.
    """
    user = str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    folder = os.path.join(tempfile.gettempdir(), f"devmod-turns-{user}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and os.stat(folder).st_uid != os.getuid():
        raise PermissionError(
            f"{folder} belongs to another user, so devices cannot be locked in it. Set TMPDIR to a folder of your own"
        )
    return folder
