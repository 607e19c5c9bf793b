"""`devmod plugins`: list the distributions with plugins, their entry points and their problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from traceback import format_exception
from typing import Any

import click

from devmod._plugins import registry
from devmod._plugins.claim import SHARED_GROUPS
from devmod._plugins.discovery import distributions
from devmod._plugins.hooks import HOOKS
from devmod._plugins.messages import broken_entry, unreadable_entries
from devmod.errors import PluginError, did_you_mean, pip_install
from devmod.plugins import CORE, GROUPS, Claim
from devmod.worker import answer_items, answers
from devmod_workbench._cli._known import KNOWN
from devmod_workbench._cli._options import FiniteRange, debug_option, json_option, quiet_drivers
from devmod_workbench._cli._output import echo, echo_lines, plugins_at_work, print_json, print_table

#: The state, and the problem or "".
_State = tuple[str, str]
#: An entry point, its state, its problem or "", and the traceback of the plugin's exception or "":
#: by the names that --json has.
_Row = dict[str, str]
#: The problem of an entry point and the traceback of its exception; both "" if it works.
_Problem = tuple[str, str]
#: The state of the cases for the conformance kit, where that is not installed.
_NO_KIT = "needs devmod-conformance"


@click.command(
    "plugins",
    short_help=KNOWN["plugins"].help,
    epilog="""\b
Examples:
  devmod plugins              # imports each plugin, to find broken ones
  devmod plugins --all        # a line for each entry point
  devmod plugins --no-import  # reads the metadata alone
  devmod plugins --json       # with the tracebacks of broken plugins
  devmod plugins --debug      # the same as text
""",
)
@json_option
@click.option(
    "--no-import", is_flag=True, help="Import no plugin. Errors inside plugins are not found."
)
@click.option(
    "--all", "with_all", is_flag=True, help="List each entry point, those of devmod-core too."
)
@click.option(
    "--timeout",
    type=FiniteRange(0, min_open=True),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="The time limit for the import of one plugin.",
)
@debug_option
@click.pass_context
def command(
    context: click.Context, as_json: bool, no_import: bool, with_all: bool, timeout: float
) -> None:
    """List the distributions with plugins: the version, the names of their entry points, and the
    state. Problems are printed below.

    Plugins are imported in another process, so that one that ends its process is listed as broken.
    An entry point in an unknown group whose name begins with "devmod." is listed too: nothing uses
    it. So is a hook that is never called, since it is unknown or for an unknown kind.
    """
    quiet_drivers()
    limit = None if no_import else timeout
    with plugins_at_work():
        rows = _rows(limit, with_core=with_all)
    if as_json:
        print_json(rows)
        return
    if not rows:
        echo(
            f"No plugin is installed. A runtime is added with pip, for example: {pip_install('devmod-opencl[pocl]')}"
        )
        return
    if with_all:
        lines = [
            (row["group"], row["name"], _source(row), row["object"], _short(row)) for row in rows
        ]
        print_table(("group", "name", "from", "object", "state"), lines)
    else:
        print_table(("from", "names", "state"), _by_distribution(rows))

    debug = (context.obj or {}).get("debug")
    problems = {row["problem"]: row["traceback"] for row in rows if row["problem"]}
    for problem, traceback in problems.items():
        echo(f"! {problem}")
        if debug and traceback:
            echo_lines(traceback)


def _source(row: _Row) -> str:
    return f"{row['distribution']} {row['version']}".strip() or "in this process"


def _short(row: _Row) -> str:
    """Return the state, in capitals if there is a problem."""
    if row["problem"]:
        return row["state"].upper()
    return row["state"]


def _by_distribution(rows: list[_Row]) -> list[tuple[str, str, str]]:
    """Return a row for each distribution: the names of its entries, and the states of those that
    cannot be used.
    """
    sources: dict[str, list[_Row]] = {}
    for row in sorted(rows, key=_source):
        sources.setdefault(_source(row), []).append(row)
    result = []
    for source, own in sources.items():
        names = sorted({row["name"] for row in own if row["group"] != "devmod.protocol"})
        states = dict.fromkeys(_short(row) for row in own if row["state"] not in ("ok", _NO_KIT))
        result.append((source, ", ".join(names), ", ".join(states) or "ok"))
    return result


def _rows(timeout: float | None, *, with_core: bool) -> list[_Row]:
    """Return a row for every claim. A distribution with unreadable entry points has one row without
    group and name.

    Parameters
    ----------
    timeout
        The time limit in seconds for the import of a plugin. None: plugins are not imported.
    with_core
        Whether those of core are returned, and imported, too.
    """
    rows = []
    importable = []
    for claim, registered in _claims():
        if with_core or claim.distribution != CORE:
            row = _row(claim, _state(claim, registered))
            rows.append(row)
            if row["state"] == "ok" and claim.group != "devmod.protocol" and claim.object is None:
                importable.append((claim, row))
    for claim in registry.ignored_entries():
        rows.append(_row(claim, _state(claim, None)))
    for source in distributions():
        if source.problem and not source.entries:  # a damaged entry_points.txt
            claim = Claim("", "", "", source)
            state, problem = _state(claim, None)
            rows.append(_row(claim, (state, problem and unreadable_entries(source))))
    if timeout is not None:
        _import_all(importable, timeout)
    return rows


def _claims() -> Iterator[tuple[Claim, Claim | None]]:
    """Yield every claim of a known group, with the claim that is registered by its name."""
    for group in GROUPS:
        registered = registry.registered(group)
        in_process = [claim for claim in registry.claims(group) if claim.object is not None]
        # A folder lists its distributions in any order.
        declared = sorted(registry.declared_claims(group), key=lambda claim: claim.distribution)
        for claim in (*in_process, *declared):
            yield claim, registered.get(claim.name)


def _state(claim: Claim, registered: Claim | None) -> _State:
    """Return the state of a claim according to its metadata."""
    excluding_variable = registry.excluding_variable(claim)
    if excluding_variable:
        return f"excluded by {excluding_variable}", ""
    if claim.group and claim.group not in GROUPS:
        return "unknown group", claim.problem
    if claim.problem:
        return "broken", claim.problem
    if claim.group == "devmod.hooks":
        unused = _unused(claim)
        if unused:
            return "never called", unused
    if claim.group == "devmod.conformance" and find_spec("devmod_conformance") is None:
        return _NO_KIT, ""
    if claim.group not in SHARED_GROUPS and registered is not None:
        if registered.problem:
            return "conflict", registered.problem
        if (registered.provider, registered.value) != (claim.provider, claim.value):
            return f"not used: {registered.provider} goes first", ""
    return "ok", ""


def _unused(claim: Claim) -> str:
    """Return why no call uses an entry of ``devmod.hooks``, according to its name; "" if it may be
    used.
    """
    kinds = set()
    for group in ("devmod.targets", "devmod.create", "devmod.device"):
        kinds |= {each.name for each in registry.claims(group)}
    hook, _, kind = claim.name.partition(".")
    if hook not in HOOKS:
        unknown = f"the hook {hook!r}, and there is no such hook"
        advice = did_you_mean(hook, HOOKS, cutoff=0.8)
    elif kind and kind not in kinds:
        unknown = (
            f"the hook {hook} of the kind {kind!r}, and no installed distribution has this kind"
        )
        advice = did_you_mean(kind, sorted(kinds), cutoff=0.8)
    else:
        return ""
    subject = claim.provider if claim.distribution else "An object registered in this process"
    return f"{subject} has an entry {claim.name!r} for {unknown}, so it is never called{advice}"


def _row(claim: Claim, state: _State) -> _Row:
    return {
        "group": claim.group,
        "name": claim.name,
        "distribution": claim.distribution,
        "version": claim.version,
        "object": claim.value,
        "state": state[0],
        "problem": state[1],
        "traceback": "",
    }


# -- Importing plugins in a separate process to find broken ones: an import may end its process or
# hang.


def _import_all(claims: Sequence[tuple[Claim, _Row]], seconds: float) -> None:
    """Import the objects of claims, and write the problem of each into its row.

    If the import of a module ends its process or takes longer than `seconds`, that is the problem
    of all entries of the module.
    """
    by_module: dict[str, list[tuple[Claim, _Row]]] = {}
    for claim, row in claims:
        by_module.setdefault(claim.value.partition(":")[0].strip(), []).append((claim, row))
    items = [[_identity(claim) for claim, _ in group] for group in by_module.values()]
    results = answers(__name__, items, _problems, seconds)
    for (module, group), (answer, end) in zip(by_module.items(), results, strict=True):
        for position, (claim, row) in enumerate(group):
            if end is None:
                problem, traceback = answer[position]
            else:
                problem = str(broken_entry(claim, f"importing {module} {end}"))
                traceback = ""
            if problem:
                row |= {"state": "broken", "problem": problem, "traceback": traceback}


def main(request: dict[str, Any]) -> None:
    """Run in the new process: import the objects of each module's claims, and answer with their
    problems.
    """
    answer_items(request, _problems)


def _problems(identities: Sequence[Sequence[str]]) -> list[_Problem]:
    known = {}
    for group in GROUPS:
        for claim in registry.declared_claims(group):
            known[tuple(_identity(claim))] = claim
    return [_problem(known.get(tuple(each))) for each in identities]


def _identity(claim: Claim) -> list[str]:
    return [claim.group, claim.name, claim.value, claim.distribution, claim.location]


def _problem(claim: Claim | None) -> _Problem:
    if claim is None:  # a concurrent uninstall
        return "", ""
    try:
        registry.load_claim(claim)
    except PluginError as error:
        traceback = ""
        if error.__cause__:
            traceback = "".join(format_exception(error.__cause__)).rstrip()
        return str(error), traceback
    return "", ""
