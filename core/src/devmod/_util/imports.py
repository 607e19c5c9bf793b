"""Imports of Python's own modules that an interrupt would break for the rest of the process."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def import_with_pathlib(name: str) -> ModuleType:
    """Import a module of Python's that imports pathlib, also after KeyboardInterrupt in its first
    import.

    Python 3.13's pathlib is a package that expects its modules as attributes. After an interrupt
    they stay in `sys.modules`, and no second import sets the attributes: it raises NameError.
    """
    from importlib import import_module

    try:
        return import_module(name)
    except NameError:
        for each in [*sys.modules]:
            if each.startswith("pathlib."):
                del sys.modules[each]
        return import_module(name)
