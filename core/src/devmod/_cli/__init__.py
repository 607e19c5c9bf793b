"""The command line program `devmod`. Each command has a file of its own, imported when the command is called."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from io import StringIO
from traceback import format_exception

import click

from devmod import __version__
from devmod._cli import _output
from devmod._cli._commands import Commands
from devmod._cli._options import debug_option
from devmod._cli._spelling import to_shell
from devmod.errors import CompileError, DevmodError, describe_error, with_log


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  devmod compile k.cl -t opencl -o k.devmod    # no OpenCL needed here
  devmod inspect k.devmod                      # its modules, the installed runtimes, what to install
  devmod view k.devmod                         # the same in the browser, with the sources
  devmod plugins                               # the installed runtimes
  devmod devices                               # their devices
  devmod new-backend acme                      # write the skeleton of a new backend

\b
Exit status:
  0    done
  1    an error, or a row of `devmod conformance` that failed
  2    wrong usage: an unknown command or option, or a value that an option does not take
  130  interrupted by Ctrl-C
""",
)
@click.version_option(__version__, "--version", message="devmod %(version)s")
@debug_option
def group() -> None:
    """Compile device kernels on a machine without a device, ship one file, and run it where the wheel of a backend is installed.

    Each command has a --help. For the file that `compile`, `inspect` and `view` read, - is standard input; for the file that `compile`
    writes, it is standard output.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    int
        The exit status: 0; 1 for an error of devmod or of the system, or a failed row of the conformance kit; 2 for wrong usage;
        130 for Ctrl-C.
    """
    state: dict[str, bool] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            code = group.main(arguments, prog_name="devmod", standalone_mode=False, obj=state)
        if sys.stdout is not None:  # standard output may be closed
            sys.stdout.flush()
    except click.ClickException as error:
        usage = StringIO()
        error.show(usage)
        _output.echo_lines(usage.getvalue().rstrip("\n"), err=True)
        return error.exit_code
    except BrokenPipeError:
        # The reader of the pipe has ended. Discard the output that the interpreter flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SystemExit:  # click's own: after a completion, and if the reader of a pipe has ended
        raise
    except BaseException as error:  # noqa: BLE001 - a plugin may raise any exception; the text is printed escaped
        cause = error.__cause__ or error if isinstance(error, click.Abort) else error  # click's for Ctrl-C and for an EOFError
        if isinstance(cause, (click.Abort, KeyboardInterrupt)):
            _output.echo_lines("\n".join(getattr(cause, "__notes__", ())) or "interrupted", err=True)
            return 130
        if state.get("debug"):
            _output.echo_lines("".join(format_exception(cause)).rstrip("\n"), err=True)
        else:
            _output.echo_lines(f"devmod: error: {_one_line(cause)}", err=True)
        return 1
    return code if isinstance(code, int) else 0


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    _output.echo_lines(f"devmod: {getattr(message, 'level', 'warning')}: {message}", err=True)


def _one_line(error: BaseException) -> str:
    if isinstance(error, DevmodError):
        return with_log(to_shell(str(error)), error.log if isinstance(error, CompileError) else "")
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
    return f"{describe_error(error)} (--debug shows the traceback){notes}"
