"""The program `devmod`: its commands, and those of other wheels. Each command has a file of its
own, imported at its call.

docs/design/command-line.md has the reasons.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from io import StringIO
from traceback import format_exception
from typing import Any

import click

from devmod import __version__, _can_import
from devmod._plugins import messages, registry
from devmod.backend import escape_line
from devmod.errors import (
    ArgumentError,
    CompileError,
    DevmodError,
    NotRegisteredError,
    describe_error,
    not_installed,
    pip_install,
    with_log,
)
from devmod_workbench._cli import _output
from devmod_workbench._cli._known import GROUPS, KNOWN, SYNONYMS, KnownCommand
from devmod_workbench._cli._options import SuggestingGroup, debug_option, missing_text
from devmod_workbench._tools.checks import NOT_CHECKED, NotCheckedError
from devmod_workbench._tools.typed import typed_error

GROUP = "devmod.commands"


class Commands(SuggestingGroup):
    """The commands by name. A command is imported when it is called."""

    synonyms = SYNONYMS

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. A SystemExit is an error of a plugin, since no command raises one."""
        try:
            return super().invoke(ctx)
        except SystemExit as error:
            raise DevmodError(
                f"a plugin ended the command with {describe_error(error)}; --debug shows where"
            ) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        others = [name for name in registry.registered(GROUP) if name not in KNOWN]
        return [*KNOWN, *sorted(others)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = KNOWN.get(cmd_name)
        command: click.Command | None = None
        if entry is not None and entry.is_own:
            if _is_installed(entry):
                if entry.distribution:
                    # A wrong DEVMOD_GUARD is the error of each command that may launch.
                    import_module(entry.distribution.replace("-", "_"))
                module = import_module(f"devmod_workbench._cli.{cmd_name}")
                command = module.command
        elif registry.is_name(GROUP, cmd_name):
            command = registry.find(GROUP, cmd_name)
        if command is not None or entry is None:
            return command

        refused = registry.excluded_claim(GROUP, cmd_name)
        if refused is not None:
            raise messages.excluded_error(*refused)
        missing = not_installed(entry.distribution, entry.package or entry.distribution)
        if entry.instead:
            missing += f". {entry.instead}"
        raise NotRegisteredError(
            f"the command {cmd_name!r} cannot run: {missing}",
            kind=cmd_name,
            key=f"{GROUP}.{cmd_name}",
            distribution=entry.distribution,
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups of commands from the table; click would import each command."""
        claims = registry.registered(GROUP)
        # The lines of all groups begin in one column.
        width = max(len(name) for name in KNOWN)

        for title, commands in GROUPS.items():
            rows = []
            for name, entry in commands.items():
                line = entry.help
                is_there = name in claims
                if entry.is_own:
                    is_there = _is_installed(entry)
                if not is_there:
                    line += f" ({entry.install})"
                rows.append((name.ljust(width), line))
            with formatter.section(title):
                formatter.write_dl(rows)

        others = [name for name in self.list_commands(ctx) if name not in KNOWN]
        if others:
            rows = []
            for name in others:
                line = escape_line(f"From {claims[name].provider}.")
                rows.append((name.ljust(width), line))
            with formatter.section("From other plugins"):
                formatter.write_dl(rows)


def _is_installed(entry: KnownCommand) -> bool:
    """Return whether the wheel that a command of this one needs is there."""
    return not entry.distribution or _can_import(entry.distribution.replace("-", "_"))


# Where to change: an exit status of commands, the code with which `devmod` ends
#   here: the epilog of `group`; `main`
#   also: `docs/command-line.md`
#   tests: `tests/test_two_places.py`, `workbench/tests/test_cli.py`
@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  devmod compile k.cl -t opencl -o k.devmod    # no OpenCL needed here
  devmod inspect k.devmod                      # what it has, what to install
  devmod view k.devmod                         # the same in the browser
  devmod plugins                               # the installed runtimes
  devmod devices                               # their devices
  devmod new-backend acme                      # begin a new backend

\b
Exit status:
  0    done
  1    an error, or a row of `devmod conformance` that failed
  2    wrong usage: an unknown command or option, or a value of a wrong form
  3    `devmod run --sanitize` cannot compile the source for its checks
  130  interrupted by Ctrl-C
""",
)
@click.version_option(__version__, "--version", message="devmod %(version)s")
@debug_option
def group() -> None:
    """Compile device kernels on a machine without a device, ship one file, and run it where the
    wheel of a backend is installed.

    Each command has a --help. For the file that `compile`, `inspect`, `run`, `bench`, `verify` and
    `view` read, - is standard input; for the file that `compile` writes, it is standard output.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    int
        The exit status: 0; 1 for an error of devmod or of the system, or a failed row of the
        conformance kit; 2 for wrong usage; 3 for a source that `--sanitize` cannot check; 130 for
        Ctrl-C.
    """
    state: dict[str, bool] = {}
    # An architecture may repeat the warning of another one.
    show_once: Any = lru_cache(None)(lambda text, kind: show_warning(kind(text)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: show_once(
                typed_error(message), type(message)
            )
            code = group.main(arguments, prog_name="devmod", standalone_mode=False, obj=state)
        if sys.stdout is not None:  # standard output may be closed
            sys.stdout.flush()
    except click.ClickException as error:
        _output.echo_lines(_usage_text(error), err=True)
        return error.exit_code
    except BrokenPipeError:
        # The reader of the pipe has ended. Discard the output that the interpreter flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SystemExit:  # click's own: after a completion, and if the reader of a pipe has ended
        raise
    except BaseException as error:  # noqa: BLE001 - a plugin may raise any exception; the text is printed escaped
        return _show_error(error, bool(state.get("debug")))
    if isinstance(code, int):
        return code
    return 0


def _show_error(error: BaseException, debug: bool) -> int:
    """Print the text or the traceback of an error, and return the exit status."""
    # click raises an Abort for Ctrl-C and for an EOFError.
    if isinstance(error, click.Abort) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        text = "\n".join(getattr(error, "__notes__", ())) or "interrupted"
        _output.echo_lines(text, err=True)
        return 130
    if debug:
        _output.echo_lines("".join(format_exception(error)).rstrip("\n"), err=True)
    else:
        text = f"devmod: error: {with_log(*error_text(error))}"
        _output.echo_lines(text, err=True)
    if isinstance(error, ArgumentError) and str(error.argument).startswith("--"):
        return 2  # what click's own types do not check, such as --threads
    if isinstance(error, NotCheckedError):
        return NOT_CHECKED
    return 1


def _usage_text(error: click.ClickException) -> str:
    """Return the usage of a command and its error; the help alone, which click raises too."""
    usage = StringIO()
    error.show(usage)
    text = usage.getvalue().rstrip("\n")
    message = error.format_message().rstrip("\n")
    if text == message:
        return text
    above = text.removesuffix(message).rpartition("\n")[0]
    if isinstance(error, click.MissingParameter):
        message = missing_text(error)
    elif isinstance(error, click.NoSuchOption) and not error.possibilities and error.ctx:
        message += f" Its options: {', '.join(_options_of(error.ctx.command))}"
    return f"{above}\ndevmod: error: {message}".lstrip("\n")


def _options_of(command: click.Command) -> list[str]:
    """Return the longest form of each option of a command."""
    options = [
        each for each in command.params if isinstance(each, click.Option) and not each.hidden
    ]
    return [max(each.opts, key=len) for each in options]


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning to standard error, for ``warnings.showwarning``."""
    text = str(message)
    if isinstance(message, Warning):
        text = typed_error(message)
    line = f"devmod: {getattr(message, 'level', 'warning')}: {text}"
    _output.echo_lines(line, err=True)


def error_text(error: BaseException) -> tuple[str, str]:
    """Return the text of a command's error, and the log of a compiler or ""."""
    if isinstance(error, DevmodError):
        text = typed_error(error)
        if isinstance(error, CompileError):
            return text, error.log
        return text, ""

    if isinstance(error, OSError) and error.strerror:
        if error.filename is None:
            return error.strerror, ""
        return f"{error.filename}: {error.strerror}", ""

    text = describe_error(error)
    package = messages.missing_wheel(error)
    if package:
        install = pip_install("--force-reinstall", package.replace("_", "-"))
        text += f". To install it again: {install}"
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
    return f"{text} (--debug shows the traceback){notes}", ""
