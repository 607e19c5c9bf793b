"""What the commands share: the option --debug, suggestions, completion of kinds, and quiet
drivers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from devmod.errors import did_you_mean
from devmod.targets import PROGRAM
from devmod_workbench._cli._output import STDOUT


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --json to a command, for its parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def debug_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --debug to a command."""

    def remember(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.ensure_object(dict)["debug"] = True

    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=remember,
        help="Show the traceback of an error.",
    )(function)


class FiniteRange(click.FloatRange):
    """A range of numbers. NaN, which every comparison passes, and infinity are outside."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number of a text."""
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class OutputPath(click.Path):
    """The file of a command that writes nothing to standard output (-)."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of a text."""
        if value == STDOUT:
            self.fail(
                "'-' is standard output, to which `devmod compile` alone writes. Give the name of a file",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


class SuggestingGroup(click.Group):
    """A group of commands. The error for an unknown name has a suggestion and the list of
    commands.
    """

    #: Other words for commands.
    synonyms: Mapping[str, str] = {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command for the arguments, as click does."""
        known = self.list_commands(ctx)
        if not args or args[0] in known or args[0].startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        synonym = self.synonyms.get(args[0].lower())
        if synonym:
            suggestion = f". Did you mean {synonym!r}?"
        else:
            suggestion = did_you_mean(args[0], known) or "."
        raise click.UsageError(
            f"{ctx.command_path} has no command {args[0]!r}{suggestion} The commands: {', '.join(known)}",
            ctx,
        )


def complete_kind(group: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a completer of the kinds in a registry. It imports no plugin."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
        from devmod._plugins import registry

        kinds = [kind for kind in registry.registered(group) if kind != PROGRAM]
        return sorted(kind for kind in kinds if kind.startswith(incomplete))

    return complete


def complete_function(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the functions of the files before the word, and let the shell complete files if no
    parameter `file` has them.
    """
    from devmod_workbench._cli._describe import open_file

    given = context.params.get("file") or context.params.get(parameter.name or "") or ()
    if isinstance(given, str):
        given = (given,)
    names: dict[str, None] = {}
    for path in given:
        if os.path.isfile(path):
            with suppress(Exception):  # the command has the error
                names |= dict.fromkeys(open_file(path)[1])
    items = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    if not items and "file" not in context.params:
        return [CompletionItem(incomplete, type="file")]
    return items


def quiet_drivers() -> None:
    """Give libwayland the folder that it reports as missing on standard error.

    Mesa's Vulkan layer looks for a Wayland display whenever devices are listed, and libwayland
    prints an error line each time if XDG_RUNTIME_DIR is not set. In a folder without a display it
    finds none, as before. Only processes of the command line call this: a library must not change
    the environment of its program.
    """
    if sys.platform == "linux" and not os.environ.get("XDG_RUNTIME_DIR"):
        from tempfile import gettempdir

        os.environ["XDG_RUNTIME_DIR"] = gettempdir()
