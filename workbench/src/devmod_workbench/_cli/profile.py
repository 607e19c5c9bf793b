"""`devmod profile`: run a Python script, and print what its kernels took."""

from __future__ import annotations

import runpy
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from traceback import format_exception

import click

from devmod.commands import (
    debug_option,
    echo,
    echo_lines,
    plugins_at_work,
    print_json,
    quiet_drivers,
)
from devmod_workbench._tools.options import OUTPUT
from devmod_workbench._tools.profile import Profile


@click.command(
    "profile",
    short_help="Run a Python script, and print what its kernels took.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="""\b
Examples:
  devmod profile train.py --epochs 2              # the options behind the script are its own
  devmod profile -o trace.json train.py           # a trace for https://ui.perfetto.dev
  devmod profile --json train.py > profile.json   # the rows as data; what the script prints goes to standard error
""",
)
@click.option(
    "-o",
    "--output",
    type=OUTPUT,
    metavar="FILE",
    help="Write a trace in Chrome's format to FILE.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the table as JSON, and the output of SCRIPT on standard error.",
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@debug_option
@click.pass_context
def command(
    context: click.Context,
    output: Path | None,
    as_json: bool,
    script: str,
    arguments: tuple[str, ...],
) -> None:
    """Run the Python script SCRIPT with ARGUMENTS. Print a table of its kernels, copies, builds and
    waits on standard error.

    The exit status is that of the script.
    """
    if script.endswith(".devmod"):
        raise click.UsageError(
            f"{script} is a file of kernels: give a Python script that calls them. `devmod bench` measures the functions of a file"
        )
    quiet_drivers()
    if output is not None:
        output.parent.stat()  # a missing folder is an error before the script runs
    path = output and output.absolute()  # the script may change the folder
    output_of_script: AbstractContextManager[object] = nullcontext()
    if as_json:
        output_of_script = plugins_at_work()
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    profile = Profile()
    status: int | str | None = 0
    try:
        with output_of_script, profile:
            runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        status = error.code
    except KeyboardInterrupt:
        echo_lines("\ninterrupted", err=True)  # below the ^C of a terminal, as of other commands
        status = 130
    except Exception as error:  # noqa: BLE001 - the script's own, which Python prints as it would without the command
        _print_error(error, script)
        status = 1
    if isinstance(status, str):
        echo_lines(status, err=True)
        status = 1
    status = status or 0
    if as_json:
        print_json({"script": script, "status": status, **profile.to_dict()})
    else:
        echo_lines(profile.table(), err=True)
    if path is not None:
        profile.save(path)
        echo(f"{output}: a trace of {len(profile.records)} records", err=True)
    context.exit(status)


def _print_error(error: Exception, script: str) -> None:
    """Print an error with its frames from the script on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != script:
        frames = frames.tb_next
    echo_lines("".join(format_exception(type(error), error, frames)).rstrip("\n"), err=True)
