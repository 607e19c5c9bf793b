"""Importing plugins in a separate process to find broken ones: an import may end its process or hang."""

from __future__ import annotations

from collections.abc import Sequence
from traceback import format_exception
from typing import Any

from devmod._plugins import entries, registry
from devmod._plugins.claim import GROUPS, Claim
from devmod._plugins.messages import broken_entry
from devmod.errors import PluginError
from devmod.worker import answer_items, answers, can_start_python

#: The problem of an entry point and the traceback of its exception; both "" if it works.
Problem = tuple[str, str]


def import_problems(claims: Sequence[Claim], seconds: float) -> list[Problem]:
    """Import the objects of the claims, and return the problem of each.

    If the import of a module ends its process or takes longer than `seconds`, that is the problem of all entries of the module. A frozen
    program, which has no interpreter to start, imports them in this process.
    """
    if not can_start_python():
        return [_problem(claim) for claim in claims]
    by_module: dict[str, list[Claim]] = {}
    for claim in claims:
        by_module.setdefault(claim.value.partition(":")[0].strip(), []).append(claim)
    problems: dict[int, Problem] = {}
    items = [[_identity(claim) for claim in group] for group in by_module.values()]
    for (module, group), (answer, end) in zip(by_module.items(), answers(__name__, items, seconds), strict=True):
        for position, claim in enumerate(group):
            problem, traceback = answer[position] if answer is not None else (str(broken_entry(claim, f"importing {module} {end}")), "")
            problems[id(claim)] = problem, traceback
    return [problems[id(claim)] for claim in claims]


def main(request: dict[str, Any]) -> None:
    """Run in the new process: import the objects of each module's claims, and answer with their problems."""
    known = {tuple(_identity(claim)): claim for group in GROUPS for claim in entries.declared_claims(group)}

    def problems(identities: list[list[str]]) -> list[Problem]:
        claims = [known.get(tuple(each)) for each in identities]
        return [_problem(claim) if claim is not None else ("", "") for claim in claims]  # None: a concurrent uninstall

    answer_items(request, problems)


def _identity(claim: Claim) -> list[str]:
    return [claim.group, claim.name, claim.value, claim.distribution, claim.location]


def _problem(claim: Claim) -> Problem:
    try:
        registry.load_claim(claim)
    except PluginError as error:
        return str(error), "".join(format_exception(error.__cause__)).rstrip() if error.__cause__ else ""
    return "", ""
