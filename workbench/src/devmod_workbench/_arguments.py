"""Checks of the arguments of functions such as `devmod.verify`, which take modules."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from devmod import Module
from devmod.errors import ArgumentError


def check_module(caller: str, module: object) -> None:
    """Raise ArgumentError if an object is no module."""
    if isinstance(module, Module):
        return
    hint = ""
    if isinstance(module, (str, os.PathLike)):
        hint = f". To open a file: {caller}(devmod.load({os.fspath(module)!r:.200}))"
    elif callable(module) and hasattr(module, "info"):  # the class would import the runtime
        hint = f". Pass the module, and the name of the function: {caller}(module, {_name(module)})"
    raise ArgumentError(
        f"{caller}: expected a module, as of devmod.load, got {module!r:.200}{hint}",
        argument="module",
    )


def modules_of(caller: str, modules: Module | Mapping[str, Module]) -> dict[str, Module]:
    """Return modules by their labels, "" for a single one. ArgumentError if one is no module."""
    labelled: dict[str, Any] = {"": modules}
    if isinstance(modules, Mapping):
        labelled = dict(modules)
    for each in labelled.values():
        check_module(caller, each)
    return labelled


def check_values(caller: str, arguments: object) -> None:
    """Raise ArgumentError if the arguments of a call are no mapping of names to values."""
    if arguments is not None and not isinstance(arguments, Mapping):
        raise ArgumentError(
            f"{caller}(arguments): expected a mapping of names to values, got {arguments!r:.200}",
            argument="arguments",
        )


def check_names(caller: str, names: object) -> None:
    """Raise ArgumentError if a function is given in place of its name."""
    if callable(names):
        raise ArgumentError(
            f"{caller}: expected the name of a function, got {names!r:.200}. Pass {_name(names)}",
            argument="name",
        )


def _name(function: object) -> str:
    """Return the name of a function as Python writes it, at most 200 characters."""
    return f"{getattr(function, 'name', '')!r:.200}"
