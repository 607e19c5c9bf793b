"""Where devmod keeps what it may lose: one folder a user, and how files get into it."""

from __future__ import annotations

import os
import sys


def cache_dir() -> str:
    """The folder of devmod's caches, read anew at each call; "" where the user has none. It need not exist.

    ``DEVMOD_CACHE_DIR``, else the platform's own place: ``$XDG_CACHE_HOME/devmod`` or ``~/.cache/devmod``,
    ``~/Library/Caches/devmod`` on macOS, ``%LOCALAPPDATA%\\devmod\\Cache`` on Windows.
    """
    chosen = os.environ.get("DEVMOD_CACHE_DIR", "")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    if sys.platform == "win32":
        made = os.path.join(os.environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local"), "devmod", "Cache")
    elif sys.platform == "darwin":
        made = os.path.expanduser("~/Library/Caches/devmod")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        # The XDG specification has a relative path ignored.
        made = os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "devmod")
    return made if os.path.isabs(made) else ""


def write_private(path: str, data: bytes) -> bool:
    """Put `data` at `path` at once and whole, readable by this user alone; False where that cannot be done.

    Its folder is made when it is missing. A process that reads beside this one sees the old file or the new one.
    """
    import time

    made = f"{path}.{os.getpid()}.{time.time_ns():x}.tmp"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        file = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    except OSError:
        return False
    try:
        with open(file, "wb") as out:
            out.write(data)
        os.replace(made, path)
    except OSError:
        try:  # noqa: SIM105 - contextlib would be imported on the path to every look-up
            os.unlink(made)
        except OSError:
            pass
        return False
    return True
