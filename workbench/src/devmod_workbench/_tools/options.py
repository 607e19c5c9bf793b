"""Options of several commands that launch functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from devmod.commands import FiniteRange, OptionalValue, OutputPath, complete_function, complete_kind

#: The value of an option with a number for each dimension.
DIMS = "X[,Y[,Z]]"
#: A file that a command writes.
OUTPUT = OutputPath()


def call_arguments(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments FILE, FUNCTION and NAME=VALUE to a command."""
    for add in (
        click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]..."),
        click.argument("function", required=False, shell_complete=complete_function),
        click.argument("file", type=click.Path(allow_dash=True)),
    ):
        command = add(command)
    return command


def timeout_option(text: str, default: float | None = None) -> Callable[..., Any]:
    """Return the option --timeout with a text for its help."""
    return click.option(
        "--timeout",
        type=FiniteRange(0, min_open=True),
        default=default,
        show_default=True,
        metavar="SECONDS",
        help=text,
    )


def sanitize_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option --sanitize with a text for its help, and the hidden one that the command
    has below `devmod simulate` (`run_with_checks`).
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option("--simulated", is_flag=True, hidden=True)(command)
        return click.option(
            "--sanitize", cls=OptionalValue, flag_value="", metavar="[=CHECKS]", help=text
        )(command)

    return add


threads_option = click.option(
    "--threads",
    metavar=DIMS,
    help="The threads in each dimension; names of sizes stand for numbers, as in N,N*2.",
)
grid_option = click.option(
    "--grid", metavar=DIMS, help="The blocks in each dimension, in place of --threads."
)
devices_option = click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="KIND[:NUMBER]",
    shell_complete=complete_kind("devmod.device"),
    help="The device. Several are compared.",
)
sizes_option = click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=NUMBER[,NUMBER...]",
    help="What NAME stands for. Several are compared.",
)
plot_option = click.option(
    "--plot",
    type=OUTPUT,
    metavar="FILE",
    help="Write a plot: .svg, .png or .pdf.",
)
rtol_option = click.option(
    "--rtol",
    type=FiniteRange(0),
    help="The tolerance for floats, relative to the expected value. Default: by their type.",
)
atol_option = click.option(
    "--atol",
    type=FiniteRange(0),
    help="The absolute tolerance. Default: by the type; 0 for integers.",
)
