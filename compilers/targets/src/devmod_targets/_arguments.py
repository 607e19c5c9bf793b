"""The arguments of `devmod.compile`, and checks of strings, defines and folders."""

from __future__ import annotations

import operator
import os
from contextlib import suppress
from math import isfinite
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from devmod.errors import CompileError
from devmod_targets._text import is_utf8

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from devmod import FunctionInfo

    Path = str | os.PathLike[str]


class Arguments(SimpleNamespace):
    """The keyword arguments of `devmod.compile`, as they were given.

    One that has no default here is only for compilers, which have it in `CompileRequest.others`.
    """

    name: str | None = None
    language: str | None = None
    fmap: Mapping[str, FunctionInfo] | None = None
    options: str | Iterable[str] = ()
    defines: Mapping[str, object] | None = None
    include: Path | Iterable[Path] = ()
    name_expressions: Iterable[str] = ()
    block: Any = None
    local: Any = None
    shared_memory: Any = None
    aliases: Any = None
    subgroup: Any = None
    tune: Any = None
    constraints: Any = ()
    sizes: Any = ()
    grid: Any = None


def strings(argument: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return the strings of an argument.

    Raises
    ------
    CompileError
        `values` is no sequence of strings, or one has a lone surrogate.
    """
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise CompileError(f"{argument}= is a sequence of strings, not {values!r}")
    result = tuple(values)
    for value in result:
        if not isinstance(value, str):
            raise CompileError(f"{argument}= has {value!r}; each is a string")
        if not is_utf8(value):
            raise CompileError(f"{argument}= has {value!r}, which UTF-8 cannot encode")
    return result


def macros(defines: Mapping[str, object] | None) -> dict[str, str | None]:
    """Return the defines with their values in C; None for a define without a value.

    Raises
    ------
    CompileError
        `defines` is no map of name to value.
    """
    if defines is not None and not hasattr(defines, "items"):
        raise CompileError(f"defines= is a map of name to value, not {defines!r}")
    defines = defines or {}
    for macro in defines:
        if not isinstance(macro, str):
            raise CompileError(f"defines= has the name {macro!r}; a name is a string")
    return {macro: _value(macro, value) for macro, value in defines.items()}


def _value(macro: str, value: object) -> str | None:
    """Return a define's value in C."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and isfinite(value):
        return float.__repr__(value)
    if not isinstance(value, float):
        with suppress(TypeError):
            return str(operator.index(value))  # type: ignore[arg-type]
    raise CompileError(
        f"the define {macro} has the value {value!r}; a value is a str, an int, a finite float, a bool or None"
    )


def folders(include: Path | Iterable[Path]) -> tuple[str, ...]:
    """Return the absolute paths of the include folders.

    Raises
    ------
    CompileError
        `include` is no folder's path and no sequence of them, or a folder does not exist.
    """
    if isinstance(include, (str, os.PathLike)):
        include = [include]
    if not hasattr(include, "__iter__"):
        raise CompileError(f"include= is a folder's path, or a sequence of them, not {include!r}")
    result = []
    for folder in include:
        if not isinstance(folder, (str, os.PathLike)):
            raise CompileError(f"include= has {folder!r}; each is a folder's path")
        path = os.path.abspath(os.fsdecode(folder))
        if not os.path.isdir(path):
            raise CompileError(f"include= has {os.fsdecode(folder)!r}, which is not a folder")
        result.append(path)
    return tuple(result)
