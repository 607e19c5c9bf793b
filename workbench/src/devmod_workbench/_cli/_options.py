"""What the commands share: the option --debug, options with a value or without, what a call lacks,
suggestions, completion of kinds, and quiet drivers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
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


class WholeNumber(click.IntRange):
    """A range of whole numbers, which its errors name so."""

    name = "whole number"


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


class OptionalValue(click.Option):
    """An option whose value may be left out, of an `OptionalValueCommand`.

    Parameters
    ----------
    names
        The names, as for a click option.
    flag_value
        The value of the option alone.
    details
        As for a click option. With a type of choices, the value may be the next word.
    """

    def __init__(self, names: Sequence[str], flag_value: str, **details: Any) -> None:
        super().__init__(names, **details)
        self.value_alone = flag_value

    def takes(self, word: str) -> bool:
        """Return whether the next word of the command line is the value."""
        return isinstance(self.type, click.Choice) and word in self.type.choices

    def with_value(self, value: str) -> str:
        """Return the word of the command line with a value, by a long name: click takes the `=` of
        a short one for a part of the value.
        """
        return f"{max(self.opts, key=len)}={value}"

    def repeat_text(self, first: str, second: str) -> str:
        """Return the error for an option with two values, "" for none."""
        name = max(self.opts, key=len)
        if first and second and not isinstance(self.type, click.Choice):
            return f"{name} is given twice; write {name}={first},{second}"
        return f"{name} is given twice"


class OptionalValueCommand(click.Command):
    """A command with an `OptionalValue`, such as ``--sanitize`` and ``--sanitize=race``.

    click's own option of this kind takes the next word too, which is an argument.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give each such option its value."""
        optional: dict[str, OptionalValue] = {}
        with_value: set[str] = set()
        for param in self.params:
            if isinstance(param, OptionalValue):
                optional |= dict.fromkeys(param.opts, param)
            elif isinstance(param, click.Option) and not param.is_flag:
                with_value.update(param.opts)

        words = []
        given: dict[OptionalValue, str] = {}
        before = ""
        for number, each in enumerate(args):
            is_value = before in with_value
            is_word = not (is_value or each.startswith("-"))
            if each == "--" or (is_word and not ctx.allow_interspersed_args):
                words += args[number:]  # those of another program
                break
            name, _, value = each.partition("=")
            option = optional.get(name)
            if option is not None and not is_value:
                if option in given:  # click would keep the last one
                    raise click.UsageError(option.repeat_text(given[option], value), ctx)
                given[option] = value
            if before in optional and optional[before].takes(each):
                words[-1] = optional[before].with_value(each)
            elif each in optional and not is_value:
                words.append(optional[each].with_value(optional[each].value_alone))
            else:
                words.append(each)
            before = "" if is_value else each
        return super().parse_args(ctx, words)


class RequiredUnless(click.Option):
    """An option that is required without another one.

    Parameters
    ----------
    names
        The names, as for a click option.
    unless
        The name of the other one, such as ``--sigstore``.
    details
        As for a click option.
    """

    def __init__(self, names: Sequence[str], unless: str, **details: Any) -> None:
        super().__init__(names, **details)
        self.unless = unless

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Take the value. Raise click's error without it and without the other option."""
        given = {**ctx.params, **opts}
        others = [each.name or "" for each in ctx.command.params if self.unless in each.opts]
        self.required = not any(given.get(name) for name in others)
        return super().handle_parse_result(ctx, opts, args)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Return the names of both options."""
        return f"{super().get_error_hint(ctx)} or '{self.unless}'"


def missing_text(error: click.MissingParameter) -> str:
    """Return the text of click's error for a missing argument or option, with all others that are
    missing too.
    """
    context = error.ctx
    if context is None or error.param is None:
        return error.format_message()
    missing = [error.param]
    # click has taken what was given before it looks for options that were not.
    for param in context.command.get_params(context):
        if param is not error.param and param.name not in context.params:
            try:
                param.handle_parse_result(context, {}, [])
            except click.MissingParameter:
                missing.append(param)
    if len(missing) == 1:
        message = error.format_message()
        about = getattr(error.param, "help", None)
        if about and not error.param.type.get_missing_message(error.param, context):
            message += f" {about}"
        return message
    kinds = sorted({f"{each.param_type_name}s" for each in missing})
    lines = [f"missing {' and '.join(kinds)}:"]
    for param in sorted(missing, key=context.command.params.index):
        line = param.make_metavar(context)
        if isinstance(param, click.Option):
            line = f"{', '.join(param.opts)} {line}"
            if isinstance(param, RequiredUnless):
                line += f", or {param.unless}"
            line += f": {param.help}"
        lines.append(f"  {line}")
    return "\n".join(lines)


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
