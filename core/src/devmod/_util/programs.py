"""The programs of the machine."""

from __future__ import annotations

import os
import shutil


def find_program(name: str) -> str:
    """Return the absolute path of a program; "" if it is missing.

    Only the absolute folders in PATH are searched. The current folder may be a stranger's: a
    relative entry of PATH names it, and Windows searches it before PATH.

    Parameters
    ----------
    name
        The program's name; or its path, if that has a folder.
    """
    if os.path.dirname(name):
        path = shutil.which(name)
        if path is None:
            return ""
        return os.path.abspath(path)
    folders = os.pathsep.join(filter(os.path.isabs, os.get_exec_path()))
    path = shutil.which(name, path=folders)
    if path is None or not os.path.isabs(path):
        return ""
    return path
