"""Paths with slashes, as manifests, origins and includes have them."""

from __future__ import annotations

import os
from collections.abc import Iterable


def below(folder: str, path: str) -> str:
    """Return the path of this system for one with slashes below a folder."""
    return os.path.join(folder, *path.split("/"))


def with_slashes(path: str, folder: str) -> str:
    """Return a path relative to a folder, with slashes."""
    return os.path.relpath(path, folder).replace(os.sep, "/")


def name_in(path: str, folders: Iterable[str]) -> str:
    """Return a file as the first folder that has it contains it; its name alone if none has it."""
    for folder in folders:
        if path.startswith(os.path.join(folder, "")):
            return with_slashes(path, folder)
    return os.path.basename(path)
