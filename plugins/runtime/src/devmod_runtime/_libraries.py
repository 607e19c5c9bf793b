"""Open the library of a driver, and tell `devmod.doctor` where one was looked for, and which
devices the user may not open.

docs/backend.md shows a plugin's check.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from glob import glob
from typing import Any, NamedTuple

#: The files of GPUs on Linux.
RENDER_NODES = "/dev/dri/renderD*"
#: dlinfo's request for the record of a library in the linker's list.
_LINK_MAP = 2


class Attempt(NamedTuple):
    """A place where the library or the program of a driver was looked for.

    Attributes
    ----------
    place
        A path, or a name that the system's linker looks for.
    found
        ctypes' object of the library, or the path of a program; None if the place has none that can
        be used.
    problem
        Why it cannot be used; "" if it can, or if there is none.
    """

    place: str
    found: Any = None
    problem: str = ""


def open_library(places: Iterable[str]) -> list[Attempt]:
    """Open the first library that can be opened. Return the attempts until then: the last one has
    the library, if there is one.
    """
    attempts = []
    for place in places:
        try:
            attempts.append(Attempt(place, ctypes.CDLL(place)))
            break
        except OSError as error:
            # For a name, this text is the answer if no folder has the library. Another one is about
            # a library that exists.
            is_missing = str(error).startswith(
                f"{place}: cannot open shared object file: No such file"
            )
            problem = "" if is_missing else str(error)
            attempts.append(Attempt(place, problem=problem))
    return attempts


def driver_row(*parts: Iterable[Attempt]) -> tuple[str, str, str]:
    """Return what the hook ``devmod_doctor`` tells of a driver.

    Parameters
    ----------
    parts
        For each part of the driver, such as a loader and the libraries that it loads, the places
        where it was looked for. Each part needs one. The row has what was found and what cannot be
        opened; for a part without a library, all places.
    """
    state = "ok"
    texts: list[str] = []
    for attempts in map(tuple, parts):
        found = [each for each in attempts if each.found is not None]
        texts += map(_found_text, found)
        texts += [each.problem for each in attempts if each.problem]
        if found:
            continue
        missing = [each.place for each in attempts if not each.problem]
        texts += _missing_texts(missing)
        if state != "problem":
            state = "not installed"
        if len(missing) < len(attempts):
            state = "problem"
    return "driver", state, ", ".join(texts)


def _found_text(attempt: Attempt) -> str:
    path = _path(attempt.found) or attempt.place
    if path == attempt.place:
        return path
    return f"{attempt.place} is {path}"


def _missing_texts(places: Iterable[str]) -> list[str]:
    paths = []
    names = []
    for place in places:
        if os.path.isabs(place):
            paths.append(place)
        else:
            names.append(place)
    texts = []
    if paths:
        texts.append(f"not found: {' '.join(paths)}")
    if names:
        texts.append(f"not found by the system's linker: {' '.join(names)}")
    return texts


def permission_rows(*patterns: str) -> list[tuple[str, str, str]]:
    """Return what the hook ``devmod_doctor`` tells of the files of devices.

    Parameters
    ----------
    patterns
        The paths of the files, such as "/dev/nvidia*". A file that does not exist is no problem: a
        machine may have no such device.

    Returns
    -------
    list of tuple
        A row for each file that this user may not read or write. Drivers do not list its device,
        and give no reason.
    """
    rows = []
    for pattern in patterns:
        for path in sorted(glob(pattern)):
            if not os.access(path, os.R_OK | os.W_OK):
                problem = (
                    f"this user may not open {path}, so its device is not listed: {_access(path)}"
                )
                rows.append(("permissions", "problem", problem))
    return rows


def _access(path: str) -> str:
    """Return how a user gets access to the file of a device."""
    if sys.platform == "win32":
        return ""  # it has no such files
    import grp

    about = os.stat(path)
    if not about.st_gid or about.st_mode & 0o060 != 0o060:
        return f"sudo chmod a+rw {path}"
    try:
        return (
            f"sudo usermod -a -G {grp.getgrgid(about.st_gid).gr_name} $LOGNAME, then log in again"
        )
    except KeyError:
        return f"start the container with --group-add {about.st_gid}"


def _path(found: Any) -> str:
    """Return the file of a library that was opened by its name; "" where the system does not
    tell.
    """
    if isinstance(found, str):
        return found
    try:
        information = ctypes.CDLL(None).dlinfo
    except (AttributeError, OSError, TypeError):  # macOS, Windows
        return ""
    record = ctypes.POINTER(ctypes.c_char_p)()
    if information(ctypes.c_void_p(found._handle), _LINK_MAP, ctypes.byref(record)):
        return ""
    return os.fsdecode(record[1] or b"")  # struct link_map: the address, then the file
