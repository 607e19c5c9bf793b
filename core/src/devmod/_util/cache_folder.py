"""The folder of devmod's caches. Its files are read and written for this user alone.

The warm path of every look-up imports this module, so it imports nothing heavy.
"""

from __future__ import annotations

import os
import sys

from devmod._util.environment import environment_text

#: The real paths of the cache folders whose parents this process has checked, by the configured
#: paths. One check is enough, because no other user can change these parents. The folder itself is
#: checked at every use.
_real: dict[str, str] = {}
#: The problems that were logged. Each is logged once.
_logged: set[str] = set()


def cache_dir() -> str:
    """Return the folder of devmod's caches; "" if there is none. It may be missing. Each call reads
    the environment.

    It is ``DEVMOD_CACHE_DIR``, else the platform's folder: ``$XDG_CACHE_HOME/devmod`` or
    ``~/.cache/devmod``, ``~/Library/Caches/devmod`` on macOS, ``%LOCALAPPDATA%\\devmod\\Cache`` on
    Windows.
    """
    configured = environment_text("DEVMOD_CACHE_DIR")
    if configured:
        return os.path.abspath(os.path.expanduser(configured))
    if sys.platform == "win32":
        result = os.path.join(
            os.environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local"),
            "devmod",
            "Cache",
        )
    elif sys.platform == "darwin":
        result = os.path.expanduser("~/Library/Caches/devmod")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):  # the XDG specification: relative paths are ignored
            base = os.path.expanduser("~/.cache")
        result = os.path.join(base, "devmod")
    if not os.path.isabs(result):
        return ""
    return result


# -- trust: a cache has code that is run, so only this user and root may write to it


# Where to change: who may write to a cache on the disk
#   tests: `core/tests/test_disk_cache.py`
def folder_problem(folder: str) -> str:
    """Return why the files in a folder cannot be trusted; "" if they can, or if the folder is
    missing.

    The folder must belong to this user or to root, and only its owner may write to it. In each
    folder above it, no other user may be able to rename an entry of this user.
    """
    if sys.platform == "win32":
        return ""  # the folder is in the user's profile and inherits its access list
    real = _real.get(folder) or os.path.realpath(folder)
    try:
        about = os.stat(real)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{real!r} cannot be read ({error.strerror})"
    problem = _owner_problem(real, about, about.st_mode & 0o022)
    if problem or folder in _real:
        return problem
    path = real
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        try:
            about = os.stat(path)
        except OSError as error:
            return f"{path!r} cannot be read ({error.strerror})"
        writers = about.st_mode & 0o022
        if about.st_mode & 0o1000:  # sticky, such as /tmp: only its owner can rename an entry
            writers = 0
        elif about.st_gid == about.st_uid == os.geteuid():
            writers &= 0o002  # the user's private group, as with umask 002
        problem = _owner_problem(path, about, writers)
        if problem:
            return problem
    _real[folder] = real
    return ""


def _owner_problem(path: str, about: os.stat_result, writers: int) -> str:
    if sys.platform == "win32":
        return ""
    if about.st_uid not in (0, os.geteuid()):
        return (
            f"{path!r} belongs to user {about.st_uid}, and this process runs as user {os.geteuid()}"
        )
    if writers:
        return f"other users can write to {path!r} (mode {about.st_mode & 0o7777:04o}); to mend it: chmod go-w {path}"
    return ""


def _private_folder(folder: str) -> str:
    """Return a folder's real path; "" if its files cannot be trusted. The reason is logged once."""
    problem = folder_problem(folder)
    if not problem:
        return _real.get(folder) or os.path.realpath(folder)
    if problem not in _logged:
        _logged.add(problem)
        from devmod._util.environment import debug

        debug(f"the cache folder {folder!r} is not used: {problem}")
    return ""


# -- files


def read_private(path: str, largest: int, *, touch: bool = False) -> bytes | None:
    """Return the bytes of a file in a cache folder; None if it is missing, too large, or others may
    have written it.

    Parameters
    ----------
    path
        The file. Symbolic links and pipes are not opened.
    largest
        The largest size in bytes.
    touch
        Set the file's times to now, so that it counts as used.
    """
    folder, name = os.path.split(path)
    real = _private_folder(folder)
    if not real:
        return None
    path = os.path.join(real, name)
    try:
        # No other user can write to the folder, so the file cannot be replaced by a link or a pipe
        # after this check.
        if os.lstat(path).st_mode & 0o170000 != 0o100000:
            return None
        with open(path, "rb", buffering=0) as file:
            about = os.fstat(file.fileno())
            if about.st_size > largest:
                return None
            if _owner_problem(path, about, about.st_mode & 0o022):
                return None
            data = part = file.read(about.st_size + 1)
            while part and len(data) < about.st_size:  # Linux reads at most 2 GiB at once
                part = file.read(about.st_size - len(data))
                data += part
            if touch:
                used = file.fileno() if os.utime in os.supports_fd else path
                try:  # noqa: SIM105 - as below
                    os.utime(used)
                except OSError:
                    pass  # a cache that root has filled is read anyway
    except (OSError, ValueError):
        return None
    return data


def write_private(path: str, data: bytes) -> bool:
    """Write a file of a cache atomically, readable by this user alone. Return whether that
    succeeded.

    A missing folder is made. A process that reads at the same time gets the old file or the new
    one.
    """
    import functools
    import time

    folder, name = os.path.split(path)
    temporary = ""
    try:
        make_folder(folder)
        real = _private_folder(folder)
        if not real:
            return False
        temporary = os.path.join(real, f"{name}.{os.getpid()}.{time.time_ns():x}.tmp")
        # A partial object: see `_util.atomic`.
        with open(temporary, "xb", opener=functools.partial(os.open, mode=0o600)) as out:
            out.write(data)
        os.replace(temporary, os.path.join(real, name))
        temporary = ""
        return True
    except OSError:
        return False
    finally:
        if temporary:  # also after Ctrl-C
            try:  # noqa: SIM105 - an import of contextlib would slow every look-up
                os.unlink(temporary)
            except OSError:
                pass


def make_folder(folder: str) -> None:
    """Make a folder and the missing ones above it for this user alone, independent of the umask."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    if above != folder:
        make_folder(above)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise
