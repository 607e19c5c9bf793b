"""`devmod conformance`: check a backend against the contract, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from devmod.commands import (
    complete_kind,
    debug_option,
    echo,
    print_json,
    print_table,
    progress,
    quiet_drivers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod_conformance._row import Result


@click.command(
    "conformance",
    short_help="Check a backend against the contract, row by row.",
    epilog="""\b
Examples:
  devmod conformance opencl
  devmod conformance opencl --row R32 --row R34
  devmod conformance opencl --row R61 --all-places
  devmod conformance opencl --json
""",
)
@click.argument(
    "kind", required=False, metavar="KIND", shell_complete=complete_kind("devmod.conformance")
)
@click.option(
    "--row",
    "only",
    multiple=True,
    metavar="ROW",
    help="Check only this row, such as R32 or R32-once. May be repeated.",
)
@click.option(
    "--all-places",
    is_flag=True,
    help="Interrupt the backend at every place (R61), not at a sample. This may take an hour.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON: a list of objects with row, outcome, reason and title.",
)
@debug_option
def command(kind: str | None, only: tuple[str, ...], all_places: bool, as_json: bool) -> int:
    """Check the installed backend of KIND against the contract, with the cases in its wheel.

    The exit status is 0 if no row fails, else 1. A row that does not apply on this machine is
    skipped. If no sample can be compiled here, most rows have nothing to check, and the exit status
    is 1.
    """
    from devmod import plugins
    from devmod.errors import NotRegisteredError
    from devmod_conformance._row import NO_SAMPLE
    from devmod_conformance._run import GROUP, run_isolated

    quiet_drivers()
    kinds = ", ".join(sorted(plugins.registered(GROUP))) or "none"
    if kind is None:
        raise click.UsageError(f"Missing argument 'KIND'. The installed kinds with cases: {kinds}")
    try:
        with progress(f"checking {kind}"):
            results = run_isolated(kind, only, all_places=all_places)
    except NotRegisteredError as error:
        if plugins.is_claimed("devmod.create", kind):
            raise
        text = str(error)
        error.args = (
            f"{text}{'' if text.endswith('?') else '.'} The installed kinds with cases: {kinds}",
        )
        raise
    if as_json:
        print_json(
            [
                {
                    "row": each.row.id,
                    "outcome": each.outcome,
                    "reason": each.reason,
                    "title": each.row.title,
                }
                for each in results
            ]
        )
    else:
        _print_results(kind, results)
    unchecked = [each for each in results if each.reason.startswith(NO_SAMPLE)]
    if unchecked:
        echo(
            f"devmod: error: {len(unchecked)} of {len(results)} rows were not checked: {unchecked[0].reason}",
            err=True,
        )
    return 1 if unchecked or any(each.outcome == "failed" for each in results) else 0


def _print_results(kind: str, results: Sequence[Result]) -> None:
    """Print a table, and the numbers of rows. A reason of several rows is printed once."""
    first: dict[tuple[str, str], str] = {}
    rows = []
    for each in results:
        text = " ".join(each.reason.split())
        if text:
            owner = first.setdefault((each.outcome, text), each.row.id)
            if owner != each.row.id:
                text = f"as {owner}"
        outcome = each.outcome.upper() if each.outcome == "failed" else each.outcome
        rows.append((each.row.id, outcome, text or each.row.title))
    print_table(("row", "outcome", "requirement, or reason"), rows)
    counts = []
    for outcome in ("passed", "skipped", "failed"):
        count = sum(each.outcome == outcome for each in results)
        counts.append(f"{count} {outcome}")
    reasons = sum(outcome == "failed" for outcome, _ in first)
    if reasons < count:
        counts[-1] += " for one reason" if reasons == 1 else f" for {reasons} reasons"
    echo(f"{kind}: {', '.join(counts)}")
