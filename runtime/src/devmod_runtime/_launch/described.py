"""The signature, docstring and table of a function."""

from __future__ import annotations

from keyword import iskeyword

from devmod._values.info import block_text
from devmod._values.param import type_text
from devmod.backend import escape
from devmod.errors import list_names
from devmod_runtime._launch.order import LAUNCH_KEYWORDS, MemberArgument, keyword_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from inspect import Parameter
    from inspect import Signature as PythonSignature
    from typing import Any

    from devmod_runtime._launch.arguments import Argument
    from devmod_runtime._launch.function import Function


class InstanceText:
    """A ``__doc__`` that is the class's own text for the class, and ``text(instance)`` for an instance."""

    def __init__(self, of_class: str | None, text: Callable[[Any], str]) -> None:
        self._of_class, self._text = of_class, text

    def __get__(self, instance: Any, owner: type) -> str | None:
        return self._of_class if instance is None else self._text(instance)


class InstanceSignature:
    """A ``__signature__`` that an instance has, and its class has not."""

    def __get__(self, instance: Function | None, owner: type) -> PythonSignature:
        if instance is None:
            raise AttributeError("__signature__")
        return _signature(instance)


def describe(function: Function) -> str:
    """Return the docstring of a function: parameters with types and access, block, variants, origin.

    Raises
    ------
    FormatError
        The origin in the file is invalid.
    """
    interface = function._signature.interface
    lines = [f"The {function._launcher.kind} kernel {function.name}.", ""]
    if function._order.arguments:
        lines += ["Parameters", "----------"]
        for argument, name in zip(function._order.arguments, _parameter_names(function), strict=True):
            default = f" = {argument.default!r}" if argument.default is not None else ""
            lines.append(f"{name} : {type_of(function, argument)}{default}")
        lines.append("")
    if function._order.keywords_only:
        lines += [f"Arguments are given by name: {function._order.keywords_only}.", ""]
    if function._launcher.has_grid:
        lines += ["Launch", "------", f"    {_launch_text(block_text(interface) if interface is not None else '')}", ""]
    variants = function._variants() if function._variants is not None else ()
    if variants:
        lines += ["Variants", "--------", *(f"    {variant}" for variant in variants), ""]
    origin = function._origin() if callable(function._origin) else function._origin
    if origin is not None:
        build = ", ".join([f"target {origin.target!r}", *filter(None, (origin.toolchain, " ".join(origin.options)))])
        lines += ["Origin", "------", f"    {build}"]
        lines += [f"    from {list_names(origin.sources)}"] if origin.sources else []
    return escape("\n".join(lines).rstrip())


def _launch_text(block: str) -> str:
    if not block:
        return "threads= or grid=, and block="
    return f"threads= or grid=; {block}"


def type_of(function: Function, argument: Argument | MemberArgument) -> str:
    if isinstance(argument, MemberArgument):
        return argument.description
    interface = function._signature.interface
    if interface is None:
        return function.info.arg_types[argument.number]
    return type_text(interface.params[argument.number].replace(default=None))


def _parameter_names(function: Function) -> list[str]:
    """Return a unique Python name for each argument: its keyword if it has one."""
    used_names = set(LAUNCH_KEYWORDS)
    names = []
    for argument in function._order.arguments:
        name = keyword_of(argument) or argument.name
        if not name.isidentifier() or iskeyword(name):
            name = f"argument_{argument.number + 1}"
        while name in used_names:
            name += "_"
        used_names.add(name)
        names.append(name)
    return names


def _signature(function: Function) -> PythonSignature:
    from inspect import Parameter, Signature

    order, arguments = function._order, function._order.arguments
    names = _parameter_names(function)
    by_name = [names[argument.number] == keyword_of(argument) for argument in arguments]
    # Python's positional-only parameters come first, so what precedes the last of them is one in the signature.
    positions = [argument.number for argument in order.positional]
    last = max((number for number in positions if not by_name[number]), default=-1)
    parameters: list[Parameter] = []
    behind: list[Parameter] = []
    for argument, name in zip(arguments, names, strict=True):
        keyword_only = argument.number not in positions or bool(order.keywords_only)
        kind = Parameter.POSITIONAL_ONLY if argument.number <= last else Parameter.POSITIONAL_OR_KEYWORD
        default = Parameter.empty if argument.number in positions else argument.default
        parameter = Parameter(
            name, Parameter.KEYWORD_ONLY if keyword_only else kind, default=default, annotation=type_of(function, argument)
        )
        (behind if keyword_only else parameters).append(parameter)
    launch: dict[str, object] = {"grid": None, "block": None, "threads": None} if function._launcher.has_grid else {}
    launch["stream"] = None
    if not function._launcher.no_shared_memory:
        launch["shared_memory"] = 0
    behind += [Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name, default in launch.items()]
    return Signature([*parameters, *behind], return_annotation=None)
