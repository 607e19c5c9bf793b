"""`devmod conformance`: whether a backend does what the contract asks, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from devmod._cli import debug_option
from devmod._cli._output import print_json, print_table, printable

if TYPE_CHECKING:
    from devmod.testing import Result


@click.command(
    "conformance",
    short_help="Check a backend against the contract, row by row.",
    epilog="""\b
Examples:
  devmod conformance opencl
  devmod conformance opencl --row R32 --row R34
  devmod conformance opencl --json
  devmod conformance opencl --markdown > conformance.md
""",
)
@click.argument("kind")
@click.option("--row", "only", multiple=True, metavar="ROW", help="Check this row alone, such as R32 or R32-once; may be repeated.")
@click.option("--json", "form", flag_value="json", help="Print JSON: a list of objects with row, outcome, reason and title.")
@click.option("--markdown", "form", flag_value="markdown", help="Print a table in Markdown.")
@debug_option
def command(kind: str, only: tuple[str, ...], form: str | None) -> int:
    """Check the installed backend of KIND with the cases that it ships. The exit status is 0 when no row fails."""
    from devmod.testing._apart import run_apart

    results = run_apart(kind, only)
    if form == "json":
        print_json([{"row": each.row.id, "outcome": each.outcome, "reason": each.reason, "title": each.row.title} for each in results])
    elif form == "markdown":
        _print_markdown(kind, results)
    else:
        shown = [each.outcome.upper() if each.outcome == "failed" else each.outcome for each in results]
        print_table(
            ("row", "outcome", "what is asked, or why not"),
            [(each.row.id, outcome, _said(each)) for each, outcome in zip(results, shown, strict=True)],
        )
        click.echo(_summary(kind, results))
    return 1 if any(each.outcome == "failed" for each in results) else 0


def _print_markdown(kind: str, results: Sequence[Result]) -> None:
    click.echo(f"# Conformance of {kind}\n")
    click.echo("| row | outcome | what is asked | reason |\n|---|---|---|---|")
    for each in results:
        cells = (each.row.id, each.outcome, each.row.title, each.reason)
        click.echo("| " + " | ".join(printable(" ".join(cell.split())).replace("|", "\\|") for cell in cells) + " |")
    click.echo(f"\n{_summary(kind, results)}")


def _said(result: Result) -> str:
    return " ".join(result.reason.split()) or result.row.title


def _summary(kind: str, results: Sequence[Result]) -> str:
    counts = {outcome: sum(each.outcome == outcome for each in results) for outcome in ("passed", "skipped", "failed")}
    return f"{kind}: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
