"""The names of a function's inputs and results in its program, where the caller gives none."""

from __future__ import annotations

import inspect
from typing import Any


def default_names(fn: Any, count: int) -> list[str]:
    """Return the names of a function's first parameters, or x0, x1, ... if it has fewer."""
    names = []
    for each in inspect.signature(fn).parameters.values():
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
            names.append(each.name)
    if len(names) >= count:
        return names[:count]
    return [f"x{number}" for number in range(count)]


def result_names(count: int) -> list[str]:
    """Return the names of the results of a function that names none."""
    if count == 1:
        return ["y"]
    return [f"y{number}" for number in range(count)]
