"""`devmod verify`: check a file, and compare the results of its candidates on the devices of this
machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from devmod.backend import LAUNCH_KEYWORDS
from devmod.commands import (
    OptionalValueCommand,
    debug_option,
    echo,
    echo_lines,
    json_option,
    plugins_at_work,
    print_json,
    print_table,
    progress,
    quiet_drivers,
)
from devmod.errors import list_names
from devmod_workbench._cli._describe import open_file
from devmod_workbench._tools.checks import run_with_checks
from devmod_workbench._tools.options import (
    DIMS,
    atol_option,
    call_arguments,
    rtol_option,
    sanitize_option,
    timeout_option,
)
from devmod_workbench._tools.typed import typed
from devmod_workbench._tools.values import read_launch, split_assignments
from devmod_workbench._tools.verify import (
    Verification,
    comparison_rows,
    describe_comparisons,
    describe_draws,
    verify,
)

#: The outcomes of candidates, and the words of a damaged payload.
_MARKS = (
    (r"^\s*(reference|agrees|ran)\b", "good"),
    (r"^\s*(differs|writes outside|reads outside|unwritten|failed|damaged|invalid)\b", "bad"),
    (r"^\s*(left out|not compared|not judged)\b", "care"),
)


@click.command(
    "verify",
    cls=OptionalValueCommand,
    short_help="Check a file, and compare its candidates here.",
    epilog="""\b
Examples:
  devmod verify k.devmod
  devmod verify k.devmod matmul
  devmod verify k.devmod matmul a=random[64,64] b=random[64,64] --threads 64,64
  devmod verify k.devmod n=1000 --threads 1000
  devmod verify k.devmod sum scratch=local:256 --block 64    # memory that the threads of a block share
  devmod verify k.devmod --rtol 1e-3
  devmod verify k.devmod --sanitize    # cuda on a simulated GPU, which finds races and more
  devmod verify k.devmod --json

\b
Exit status:
  0  nothing is wrong
  1  a payload is damaged or invalid, a candidate differs, fails, writes or reads outside of its arrays, or returns what nothing wrote,
     a check of --sanitize has found a fault, none could be launched, or an error; with --strict, nothing was compared for a function
""",
)
@call_arguments
@click.option("--threads", metavar=DIMS, help="The threads of each launch. Default: two blocks.")
@click.option("--grid", metavar=DIMS, help="The blocks of each launch, in place of --threads.")
@click.option("--block", metavar=DIMS, help="The block of a candidate that has none of its own.")
@rtol_option
@atol_option
@timeout_option("The time limit for a launch, the first with its build.", default=120)
@click.option(
    "--strict",
    is_flag=True,
    help="Fail if nothing was compared for a function, such as one with one candidate.",
)
@sanitize_option(
    "Launch the cuda candidates on the simulated GPU, with all checks of `devmod simulate`, or some."
)
@json_option
@debug_option
@click.pass_context
def command(
    context: click.Context,
    /,
    file: str,
    function: str | None,
    arguments: tuple[str, ...],
    strict: bool,
    sanitize: str | None,
    simulated: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Check the digests, the payloads and the launch tags of FILE. Launch each candidate of
    FUNCTION, or of all functions, and compare.

    Each candidate runs with several inputs on each device of this machine that it fits, in another
    process and under a guard, with the same random inputs from its interface. A candidate that ends
    the process has failed. A function that cannot be called from its interface alone is listed with
    the reason; NAME=VALUE gives an argument, as for `devmod run`. All functions with an argument of
    the name get it.

    `devmod inspect --verify` compares the digests without a runtime. `devmod check` says who signed
    FILE.
    """
    quiet_drivers()
    if sanitize is not None and not simulated:
        context.exit(run_with_checks("verify", sanitize))
    if function and "=" in function:
        arguments = (function, *arguments)
        function = None
    given = split_assignments(arguments, "verify")
    launch = {name: options.pop(name) for name in ("threads", "grid", "block")}
    sizes = read_launch(launch, {})
    with plugins_at_work(), progress("comparing"):
        verification = verify(open_file(file)[1], function, given, **sizes, **options)
    if as_json:
        print_json(verification.to_dict())
    else:
        _show(verification)
    if verification.uncompared:
        echo_lines(
            f"devmod: warning: nothing was compared for {list_names(verification.uncompared)}",
            err=True,
        )
    if not verification.ok or (strict and verification.uncompared):
        context.exit(1)


def _show(verification: Verification) -> None:
    """Print the lines of a result, and on a terminal a table for each function."""

    def show(lines: Iterable[str]) -> None:
        for line in lines:
            echo(typed(line, LAUNCH_KEYWORDS), marks=_MARKS)

    show(verification.describe_payloads())
    seen: set[str] = set()
    for name, checked in verification.functions.items():
        echo(f"{name}:", marks=((r"^.*$", "name"),))
        rows = []
        for row in comparison_rows(checked, {*seen}):
            rows.append([typed(cell, LAUNCH_KEYWORDS) for cell in row])
        lines = [typed(line, LAUNCH_KEYWORDS) for line in describe_comparisons(checked, seen)]
        print_table(("outcome", "candidate", "reason"), rows, marks=_MARKS, plain=lines)
        show(describe_draws(verification.draws[name]))
    if verification.functions:
        show([verification.summary()])
