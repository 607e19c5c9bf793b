"""Files that stay in a folder, although a stranger chose their names or filled the folder: no symbolic link below it is followed."""

from __future__ import annotations

import os

from devmod.errors import FormatError


def path_problem(path: str, folder: str) -> str:
    """Return why a file would not be written in a folder: its path leaves it, or has a symbolic link below it; "" if it would be."""
    inner = os.path.relpath(path, folder).split(os.sep)
    if inner[0] == os.pardir:
        return f"it is outside of {folder!r}"
    place = folder
    for part in inner:
        place = os.path.join(place, part)
        if os.path.islink(place):
            return f"{place!r} is a symbolic link"
    return ""


def replace_within(source: str, path: str, folder: str) -> None:
    """Rename a file to another name in its folder, which is `folder` or below it, as `os.replace` does.

    A link that appears meanwhile is not followed, if the system can open folders (Windows cannot).

    Raises
    ------
    FormatError
        The path has a symbolic link below `folder`.
    OSError
        The system's error.
    """
    problem = path_problem(path, folder)
    if problem:
        raise FormatError(f"{path!r} was not written: {problem}")
    if os.rename not in os.supports_dir_fd:
        os.replace(source, path)
        return
    flags = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
    place = os.open(folder, flags)
    try:
        for part in os.path.relpath(path, folder).split(os.sep)[:-1]:
            below = os.open(part, flags | os.O_NOFOLLOW, dir_fd=place)
            os.close(place)
            place = below
        os.replace(os.path.basename(source), os.path.basename(path), src_dir_fd=place, dst_dir_fd=place)
    finally:
        os.close(place)
