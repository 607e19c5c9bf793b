"""Runs rows in another process. If the backend ends that process or hangs, only the current row fails."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from devmod import plugins
from devmod.errors import PluginError
from devmod.worker import Worker, answer_writer, can_start_python
from devmod_conformance._case import Conformance
from devmod_conformance._row import FAILED, Result, Row
from devmod_conformance._run import GROUP, find, rows, run, select_rows

#: A row may start this many processes one after the other (R38), and each has the time `Conformance.timeout`.
_PROCESSES = 3
#: The seconds in which the process must end after its last row. Row R8 checks what it does at exit.
_EXIT_TIMEOUT = 10


def run_isolated(kind: str, only: Iterable[str] = ()) -> list[Result]:
    """Run the rows as `run` does, in another process. What the backend prints goes to standard error.

    A frozen program cannot start another process, and a backend registered in this process is not in the other one. Then this is
    `run`.
    """
    selected = select_rows(only)
    claim = plugins.registered(GROUP).get(kind)
    if claim is None or not claim.distribution or not can_start_python():
        return run(kind, only)
    results: list[Result] = []
    while len(results) < len(selected):
        results += _run_until_exit(kind, selected[len(results) :], claim.provider)
    return results


def _run_until_exit(kind: str, selected: Sequence[Row], provider: str) -> list[Result]:
    """Return the results of the rows up to the first one that ends the process or hangs in it, included."""
    with Worker(__name__, {"kind": kind, "rows": [row.id for row in selected]}) as process:
        start = process.answer(_PROCESSES * Conformance.timeout)
        if start is None:
            raise PluginError(
                f"{GROUP}.{kind} is broken: {provider}: a process that imports its cases {process.end}", kind=kind, key=f"{GROUP}.{kind}"
            )
        if "error" in start:
            find(kind)  # it raises the same error in this process, with the cause
            raise PluginError(start["error"], kind=kind, key=f"{GROUP}.{kind}")
        results: list[Result] = []
        for row in selected:
            answer = process.answer(_PROCESSES * start["timeout"])
            if answer is None:
                return [*results, Result(row, FAILED, f"the process that checks this row {process.end}")]
            results.append(Result(row, answer["outcome"], answer["reason"]))
        process.wait(_EXIT_TIMEOUT)
    return results


def main(request: dict[str, Any]) -> None:
    """Run rows in the new process. Send the timeout of the cases, or an error, and then the result of each row."""
    send = answer_writer()
    try:
        case = find(request["kind"])
    except Exception as error:  # noqa: BLE001 - the other process raises it
        send({"error": str(error)})
        return
    send({"timeout": case.timeout})
    by_id = {row.id: row for row in rows()}
    try:
        for name in request["rows"]:
            result = by_id[name].run(case)
            send({"outcome": result.outcome, "reason": result.reason})
    except KeyboardInterrupt:  # the parent gets it too, and reports it
        sys.exit(130)
