"""Work on one device in turn, between the workers of a parallel test run and any other process of this user."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def device_turn(kind: str, index: int = 0) -> Iterator[None]:
    """Hold a device while the body runs: other processes of this user that ask for it wait.

    Compile and load outside of it, so that only what runs on the device waits. It may be entered again by the same thread.
    Without the package filelock it does nothing: then nothing is to run in parallel either.

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
    """A folder that is this user's alone: in a shared one, somebody else's file could stand in the lock's place."""
    who = str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    folder = os.path.join(tempfile.gettempdir(), f"devmod-turns-{who}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and os.stat(folder).st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user, so devices cannot be locked in it; set TMPDIR to a folder of your own")
    return folder
