"""Finds the cases that a backend ships, and runs the rows on them."""

from __future__ import annotations

from collections.abc import Iterable

from devmod import plugins
from devmod.errors import FormatError, NotRegisteredError, PluginError, describe_error, did_you_mean
from devmod.plugins import lookup
from devmod_conformance._case import Conformance
from devmod_conformance._row import Result, Row
from devmod_conformance._rows import ROWS

GROUP = "devmod.conformance"


def rows() -> tuple[Row, ...]:
    """Return all rows, in the order of the contract."""
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
    claim = plugins.registered(GROUP).get(kind)
    provider = claim.provider if claim and claim.distribution else "the object that is registered in this process"
    try:
        case = entry() if isinstance(entry, type) else entry
    except Exception as error:
        raise PluginError(
            f"{GROUP}.{kind} is broken: {provider}: creating its cases failed ({describe_error(error)})",
            kind=kind,
            key=f"{GROUP}.{kind}",
            distribution=claim.distribution if claim else "",
        ) from error
    if isinstance(case, Conformance) and case.kind == kind:
        return case
    actual = f"one with kind = {case.kind!r}" if isinstance(case, Conformance) else type(case).__name__
    raise PluginError(
        f"{GROUP}.{kind} is broken: {provider}: expected a subclass of devmod_conformance.Conformance with kind = {kind!r}, got {actual}",
        kind=kind,
        key=f"{GROUP}.{kind}",
        distribution=claim.distribution if claim else "",
    )


def run(kind: str | Conformance, only: Iterable[str] = ()) -> list[Result]:
    """Check a backend against the rows.

    Parameters
    ----------
    kind
        The backend's kind, or its cases.
    only
        Ids of rows, or rows of the contract ("R32" selects R32-once and the others); empty selects all rows.

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
    """Return the rows with these names, in the order of the contract. Raise FormatError for an unknown name."""
    names = set(only)
    unknown = names - {name for row in rows() for name in (row.id, row.contract)}
    if unknown:
        name, ids = sorted(unknown)[0], [row.id for row in rows()]
        suggestion = did_you_mean(name, ids) or "."
        raise FormatError(f"the conformance kit has no row {name!r}{suggestion} Its rows: {', '.join(ids)}")
    return [row for row in rows() if not names or row.id in names or row.contract in names]
