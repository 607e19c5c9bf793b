"""Finds the cases that a backend ships, and runs the rows on them, in this process or in another
one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from devmod import plugins
from devmod.errors import FormatError, NotRegisteredError, PluginError, describe_error, did_you_mean
from devmod.plugins import lookup
from devmod.worker import Worker, answer_writer, can_start_python
from devmod_conformance._case import Conformance
from devmod_conformance._row import FAILED, Result, Row

GROUP = "devmod.conformance"

#: A row may start this many processes one after the other (R38), and each has the time
#: `Conformance.timeout`.
_PROCESSES = 3
#: The seconds in which the process must end after its last row. Row R8 checks what it does at exit.
_EXIT_TIMEOUT = 10

#: The least timeout of cases whose every place is interrupted, in seconds.
_ALL_PLACES_TIMEOUT = 4 * 3600.0


def rows() -> tuple[Row, ...]:
    """Return all rows, in the order of the contract."""
    from devmod_conformance._rows._all import ROWS

    return ROWS


def find(kind: str) -> Conformance:
    """Return the cases that the backend of a kind ships as the entry ``devmod.conformance.<kind>``.

    Raises
    ------
    NotRegisteredError
        The backend is not installed, or ships no cases.
    PluginError
        The entry cannot be imported, or is not a `Conformance` of that kind.
    """
    backend = plugins.registered("devmod.create").get(kind)
    if backend is not None and not plugins.is_claimed(GROUP, kind):
        raise NotRegisteredError(
            f"{GROUP}.{kind} is not registered: the {kind} backend, {backend.provider}, ships no cases for the conformance kit. "
            "Its author adds a subclass of devmod_conformance.Conformance as that entry point",
            kind=kind,
            key=f"{GROUP}.{kind}",
            distribution=backend.distribution,
        )
    entry = lookup(GROUP, kind)
    try:
        case = entry() if isinstance(entry, type) else entry
    except Exception as error:
        raise _broken(kind, f"creating its cases failed ({describe_error(error)})") from error
    if isinstance(case, Conformance) and case.kind == kind:
        return case
    actual = (
        f"one with kind = {case.kind!r}" if isinstance(case, Conformance) else type(case).__name__
    )
    raise _broken(
        kind,
        f"expected a subclass of devmod_conformance.Conformance with kind = {kind!r}, got {actual}",
    )


def _broken(kind: str, problem: str) -> PluginError:
    """Return the error for invalid cases of a kind."""
    claim = plugins.registered(GROUP).get(kind)
    provider = (
        claim.provider
        if claim and claim.distribution
        else "the object that is registered in this process"
    )
    text = f"{GROUP}.{kind} is broken: {provider}: {problem}"
    return PluginError(
        text, kind=kind, key=f"{GROUP}.{kind}", distribution=claim.distribution if claim else ""
    )


def run(kind: str | Conformance, only: Iterable[str] = ()) -> list[Result]:
    """Check a backend against the rows.

    Parameters
    ----------
    kind
        The backend's kind, or its cases.
    only
        Ids of rows, or rows of the contract ("R32" selects R32-once and the others); empty selects
        all rows.

    Returns
    -------
    list of Result
        One for each row, in the order of the contract.

    Raises
    ------
    NotRegisteredError, PluginError
        As `find`.
    FormatError
        A name in `only` is not a row.
    """
    selected = select_rows(only)
    case = kind if isinstance(kind, Conformance) else find(kind)
    return [row.run(case) for row in selected]


def select_rows(only: Iterable[str]) -> list[Row]:
    """Return the rows with these names, in the order of the contract. Raise FormatError for an
    unknown name.
    """
    names = set(only)
    unknown = names - {name for row in rows() for name in (row.id, row.contract)}
    if unknown:
        name, ids = sorted(unknown)[0], [row.id for row in rows()]
        suggestion = did_you_mean(name, ids) or "."
        raise FormatError(
            f"the conformance kit has no row {name!r}{suggestion} Its rows: {', '.join(ids)}"
        )
    return [row for row in rows() if not names or row.id in names or row.contract in names]


# -- Runs rows in another process. If the backend ends that process or hangs, only the current row
# fails.


def _find(kind: str, all_places: bool) -> Conformance:
    """Return the cases of a kind, changed so that R61 interrupts every place if `all_places`."""
    case = find(kind)
    if all_places:
        case.interrupt_places = 0
        case.timeout = max(case.timeout, _ALL_PLACES_TIMEOUT)
    return case


def run_isolated(kind: str, only: Iterable[str] = (), *, all_places: bool = False) -> list[Result]:
    """Run the rows as `run` does, in another process. What the backend prints goes to standard
    error.

    With `all_places`, R61 interrupts every place, and each row has hours.

    A frozen program cannot start another process, and a backend registered in this process is not
    in the other one. Then this is `run`.
    """
    selected = select_rows(only)
    claim = plugins.registered(GROUP).get(kind)
    if claim is None or not claim.distribution or not can_start_python():
        return run(_find(kind, all_places), only)
    results: list[Result] = []
    while len(results) < len(selected):
        results += _run_until_exit(kind, selected[len(results) :], all_places)
    return results


def _run_until_exit(kind: str, selected: Sequence[Row], all_places: bool) -> list[Result]:
    """Return the results of the rows up to the first one that ends the process or hangs in it,
    included.
    """
    request = {"kind": kind, "rows": [row.id for row in selected], "all_places": all_places}
    with Worker(__name__, request) as process:
        start = process.answer(_PROCESSES * Conformance.timeout)
        if start is None:
            raise _broken(kind, f"a process that imports its cases {process.end}")
        if "error" in start:
            find(kind)  # it raises the same error in this process, with the cause
            raise PluginError(start["error"], kind=kind, key=f"{GROUP}.{kind}")
        results: list[Result] = []
        for row in selected:
            answer = process.answer(_PROCESSES * start["timeout"])
            if answer is None:
                return [
                    *results,
                    Result(row, FAILED, f"the process that checks this row {process.end}"),
                ]
            results.append(Result(row, answer["outcome"], answer["reason"]))
        process.wait(_EXIT_TIMEOUT)
    return results


def main(request: dict[str, Any]) -> None:
    """Run rows in the new process. Send the timeout of the cases, or an error, and then the result
    of each row.
    """
    send = answer_writer()
    try:
        case = _find(request["kind"], request["all_places"])
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
