"""`devmod plugins`: who brings what, and what is wrong with it."""

from __future__ import annotations

from traceback import format_exception

import click

from devmod import _registry
from devmod._cli import debug_option
from devmod._cli._output import plugins_at_work, print_json, print_table, printable
from devmod._refusals import unknown_offer
from devmod._registry import Claim
from devmod.errors import PluginError

#: The state in a word, the problem or "", and the traceback of what the plugin raised or "".
_State = tuple[str, str, str]


@click.command(
    "plugins",
    short_help="List who brings what, and what is wrong with it.",
    epilog="""\b
Examples:
  devmod plugins              # each is imported, so that a broken one is found
  devmod plugins --no-import  # by the metadata alone
  devmod plugins --json       # with the traceback of each that is broken
  devmod plugins --debug      # the same for people
""",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--no-import", is_flag=True, help="Import none of them: what is wrong inside a plugin stays unknown.")
@click.option("--all", "with_core", is_flag=True, help="List what core itself brings, too.")
@debug_option
@click.pass_context
def command(context: click.Context, as_json: bool, no_import: bool, with_core: bool) -> None:
    """List every entry that plugins offer: its group and name, the distribution and version, and its state."""
    with plugins_at_work():
        found = [_row(claim, state) for claim, state in _states(import_them=not no_import)]
    if not with_core:
        found = [row for row in found if row["distribution"] != _registry.CORE]
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("No plugin is installed. A runtime is added with pip, for example: pip install devmod-opencl")
        return
    who = [f"{row['distribution']} {row['version']}".strip() or "in this process" for row in found]
    short = [row["state"] if not row["problem"] else row["state"].upper() for row in found]
    print_table(
        ("group", "name", "from", "object", "state"),
        [(row["group"], row["name"], by, row["object"], state) for row, by, state in zip(found, who, short, strict=True)],
    )
    debug = (context.obj or {}).get("debug")
    for problem, traceback in {row["problem"]: row["traceback"] for row in found if row["problem"]}.items():
        click.echo(printable(f"! {problem}"))
        if debug and traceback:
            click.echo("\n".join(map(printable, traceback.splitlines())))


def _states(*, import_them: bool) -> list[tuple[Claim, _State]]:
    """Every claim with its state. Of a distribution whose entries nobody can tell there is one row, of no group and no name."""
    made = []
    for group in _registry.GROUPS:
        used = _registry.registered(group)
        in_process = [claim for claim in _registry.claims(group) if claim.object is not None]
        for claim in [*in_process, *_registry.declared(group)]:
            made.append((claim, _state(claim, used.get(claim.name), import_them)))
    for source in _registry.unreadable():
        claim = Claim("", "", "", source)
        state, problem, _ = _state(claim, None, import_them)
        made.append((claim, (state, problem and unknown_offer(source), "")))
    return made


def _state(claim: Claim, used: Claim | None, import_them: bool) -> _State:
    shut_out = _registry.refusal(claim)
    if shut_out:
        return f"shut out by {shut_out}", "", ""
    if claim.problem:
        return "broken", claim.problem, ""
    if claim.group not in _registry._SHARED and used is not None:
        if used.problem:
            return "conflict", used.problem, ""
        if (used.who, used.value) != (claim.who, claim.value):
            return f"not used: {used.who} goes first", "", ""
    if import_them and claim.group != "devmod.protocol":
        try:
            claim.load()
        except PluginError as error:
            return "broken", str(error), "".join(format_exception(error.__cause__)).rstrip() if error.__cause__ else ""
    return "ok", "", ""


def _row(claim: Claim, state: _State) -> dict[str, str]:
    return {
        "group": claim.group,
        "name": claim.name,
        "distribution": claim.distribution,
        "version": claim.version,
        "object": claim.value,
        "state": state[0],
        "problem": state[1],
        "traceback": state[2],
    }
