"""The command line: `devmod`. One file a command; each is imported when it is called."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import click

from devmod import __version__
from devmod.errors import CompileError, DevmodError, said

COMMANDS = ("compile", "inspect", "view", "devices", "plugins", "conformance", "new-backend")


class _Commands(click.Group):
    """The commands by name, without importing those that are not asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = import_module(f"devmod._cli.{cmd_name.replace('-', '_')}").command
        return found


def debug_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The option --debug, which each command has."""

    def remember(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.ensure_object(dict)["debug"] = True

    return click.option("--debug", is_flag=True, expose_value=False, callback=remember, help="Show the traceback of an error.")(function)


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  devmod compile k.cl -t opencl -o k.devmod    # no OpenCL needed here
  devmod inspect k.devmod                      # what is in it, what is installed, what to install
  devmod view k.devmod                         # the same in the browser, where its WebGPU kernels run
  devmod plugins                               # the runtimes that are installed
  devmod devices                               # what they can run on
  devmod new-backend acme                      # a backend of your own, to start from
""",
)
@click.version_option(__version__, "--version", message="devmod %(version)s")
@debug_option
def group() -> None:
    """Compile device kernels on a box without any device, ship one file, run it where a backend's wheel is installed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    int
        The exit code: 0, 1 for an error of devmod or of the system, 2 for wrong usage.
    """
    state: dict[str, bool] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            code = group.main(arguments, prog_name="devmod", standalone_mode=False, obj=state)
        if sys.stdout is not None:  # where it is closed, nobody listens
            sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # Whoever read our output has read enough. What the interpreter still flushes at exit goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if state.get("debug"):
            raise
        click.echo(f"devmod: error: {_one_line(error)}", err=True)
        return 1
    return code if isinstance(code, int) else 0


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    click.echo(f"devmod: warning: {message}", err=True)


def _one_line(error: Exception) -> str:
    if isinstance(error, DevmodError):
        text = str(error)
        if isinstance(error, CompileError) and error.log.strip() not in text:
            text += "\n" + error.log.strip()
        return text
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
    return f"{said(error)} (--debug shows the traceback){notes}"
