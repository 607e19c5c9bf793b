"""The names of a function's inputs and results in its program."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from devmod.errors import ArgumentError


def default_names(fn: Any, count: int) -> list[str]:
    """Return the names of a function's first parameters, or x0, x1, ... if it has fewer, or if
    nothing is known of them.
    """
    names = []
    parameters: Mapping[str, Any] = {}
    with suppress(ValueError, TypeError):  # a method of a compiled class
        parameters = inspect.signature(fn).parameters
    for each in parameters.values():
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


def named_results(
    value: Any, names: Sequence[str] | None, tensor: type, argument: str
) -> dict[str, Any]:
    """Return what a function or a model, which is an argument of `export`, has returned: tensors by
    name.
    """
    results = value
    if not isinstance(value, Mapping):
        if not isinstance(value, (tuple, list)):
            value = [value]
        results = dict(zip(result_names(len(value)), value, strict=True))
    wrong = [type(each).__name__ for each in results.values() if not isinstance(each, tensor)]
    if wrong or not results:
        raise ArgumentError(
            f"{argument} returned {', '.join(wrong) or 'nothing'}; expected a Tensor, or several of them",
            argument=argument,
        )
    if names is not None and len(names) != len(results):
        raise ArgumentError(
            f"outputs has {len(names)} names; {argument} has {len(results)} results",
            argument="outputs",
        )
    return dict(zip(names or map(str, results), results.values(), strict=True))
