"""Checks of the arguments of `devmod.compile`: strings, defines and folders."""

from __future__ import annotations

import operator
import os
from math import isfinite

from devmod.errors import CompileError
from devmod_targets._text import is_utf8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from devmod import TargetSpec

    Path = str | os.PathLike[str]


def strings(spec: TargetSpec, argument: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return the strings of an argument.

    Raises
    ------
    CompileError
        `values` is no sequence of strings, or one has a lone surrogate.
    """
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise CompileError(f"{argument}= is a sequence of strings, not {values!r}", kind=spec.kind)
    result = tuple(values)
    for value in result:
        if not isinstance(value, str):
            raise CompileError(f"{argument}= has {value!r}; each is a string", kind=spec.kind)
        if not is_utf8(value):
            raise CompileError(f"{argument}= has {value!r}, which UTF-8 cannot encode", kind=spec.kind)
    return result


def macros(spec: TargetSpec, defines: Mapping[str, object] | None) -> dict[str, str | None]:
    """Return the defines with their values in C; None for a define without a value.

    Raises
    ------
    CompileError
        `defines` is no map of name to value.
    """
    if defines is not None and not hasattr(defines, "items"):
        raise CompileError(f"defines= is a map of name to value, not {defines!r}", kind=spec.kind)
    return {_macro(spec, macro): _value(spec, macro, value) for macro, value in (defines or {}).items()}


def _macro(spec: TargetSpec, macro: object) -> str:
    if not isinstance(macro, str):
        raise CompileError(f"defines= has the name {macro!r}; a name is a string", kind=spec.kind)
    return macro


def _value(spec: TargetSpec, macro: str, value: object) -> str | None:
    """Return a define's value in C."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and isfinite(value):
        return float.__repr__(value)
    if not isinstance(value, float):
        try:
            return str(operator.index(value))  # type: ignore[arg-type]
        except TypeError:
            pass
    raise CompileError(
        f"the define {macro} has the value {value!r}; a value is a str, an int, a finite float, a bool or None", kind=spec.kind
    )


def folders(spec: TargetSpec, include: Path | Iterable[Path]) -> tuple[str, ...]:
    """Return the absolute paths of the include folders.

    Raises
    ------
    CompileError
        `include` is no folder's path and no sequence of them, or a folder does not exist.
    """
    if not isinstance(include, (str, os.PathLike)) and not hasattr(include, "__iter__"):
        raise CompileError(f"include= is a folder's path, or a sequence of them, not {include!r}", kind=spec.kind)
    result = []
    for folder in [include] if isinstance(include, (str, os.PathLike)) else include:
        if not isinstance(folder, (str, os.PathLike)):
            raise CompileError(f"include= has {folder!r}; each is a folder's path", kind=spec.kind)
        path = os.path.abspath(os.fsdecode(folder))
        if not os.path.isdir(path):
            raise CompileError(f"include= has {os.fsdecode(folder)!r}, which is not a folder", kind=spec.kind)
        result.append(path)
    return tuple(result)
