"""Importing plugins in a separate process to find broken ones: an import may end its process or hang."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from traceback import format_exception
from typing import Any

from devmod._plugins import registry
from devmod._plugins.claim import GROUPS, Claim
from devmod._plugins.messages import broken_entry
from devmod.errors import PluginError
from devmod.worker import Worker, answer_writer, can_start_python

#: The problem of an entry point and the traceback of its exception; both "" if it works.
Problem = tuple[str, str]


def import_problems(claims: Sequence[Claim], seconds: float) -> list[Problem]:
    """Import the objects of the claims, and return the problem of each.

    If an import ends its process or takes longer than `seconds`, the problem is reported for all entries of the same module. Another
    process imports the rest. A frozen program, which has no interpreter to start, imports them in this process.
    """
    if not can_start_python():
        return [_problem(claim) for claim in claims]
    found: list[Problem] = []
    failed_modules: dict[str, str] = {}
    while len(found) < len(claims):
        remaining = claims[len(found) :]
        module = _module_of(remaining[0])
        if module in failed_modules:
            found.append((str(broken_entry(remaining[0], failed_modules[module])), ""))
            continue
        with Worker(__name__, {"claims": [_identity(claim) for claim in remaining]}) as worker:
            for claim in remaining:
                module = _module_of(claim)
                answer = None if module in failed_modules else worker.answer(seconds)
                if answer is None:
                    if module not in failed_modules:
                        failed_modules[module] = f"importing {module} {_describe_end(worker, seconds)}"
                    break
                found.append((answer[0], answer[1]))
    return found


def _describe_end(worker: Worker, seconds: float) -> str:
    end = worker.end
    return f"takes longer than {seconds:g} s" if end == "does not end" else end.replace("ends with", "ends the process with", 1)


def main(request: dict[str, Any]) -> None:
    """Run in the new process: import the object of each claim, and answer with its problem."""
    answer = answer_writer()
    known = {tuple(_identity(claim)): claim for group in GROUPS for claim in registry.declared_claims(group)}
    try:
        for identity in request["claims"]:
            claim = known.get(tuple(identity))
            answer(_problem(claim) if claim is not None else ("", ""))  # a concurrent uninstall
    except KeyboardInterrupt:  # the first process receives it as well and ends the command
        sys.exit(130)


def _identity(claim: Claim) -> list[str]:
    return [claim.group, claim.name, claim.value, claim.distribution, claim.location]


def _module_of(claim: Claim) -> str:
    return claim.value.partition(":")[0].strip()


def _problem(claim: Claim) -> Problem:
    try:
        registry.load_claim(claim)
    except PluginError as error:
        return str(error), "".join(format_exception(error.__cause__)).rstrip() if error.__cause__ else ""
    return "", ""
