"""Rows: one object for each thing that the contract asks of a backend, and how they are run without any test framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from devmod.errors import FormatError, NotRegisteredError, PluginError, said
from devmod.testing._case import Conformance

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
GROUP = "devmod.conformance"


class Skip(Exception):
    """A row that does not apply; the text says why."""


@dataclass(frozen=True)
class Row:
    """What the contract asks of a backend in one place.

    Attributes
    ----------
    id
        The contract's row, and a word where that row asks for several things: "R18", "R32-once".
    title
        What is asked, as a sentence.
    check
        Called with the backend's `Conformance`. It returns where the backend does what is asked, and raises `Skip` where the row
        does not apply; everything else that it raises is a failure.
    """

    id: str
    title: str
    check: Callable[[Conformance], None]

    @property
    def contract(self) -> str:
        """The contract's row, such as "R32"."""
        return self.id.partition("-")[0]

    def run(self, case: Conformance) -> Result:
        """Check a backend. Whatever it does wrong is the result's; nothing but an interrupt is raised."""
        try:
            self.check(case)
        except Skip as skip:
            return Result(self, SKIPPED, str(skip))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a backend may raise anything, SystemExit too
            return Result(self, FAILED, _said(error), error)
        return Result(self, PASSED)


@dataclass(frozen=True)
class Result:
    """How a row went.

    Attributes
    ----------
    row
        The Row.
    outcome
        "passed", "failed" or "skipped".
    reason
        Why it failed or was skipped; "" where it passed.
    error
        What was raised, where it failed.
    """

    row: Row
    outcome: str
    reason: str = ""
    error: BaseException | None = None


def rows() -> tuple[Row, ...]:
    """All rows, in the contract's order."""
    from devmod.testing._rows import ROWS

    return ROWS


def find(kind: str) -> Conformance:
    """The cases that the backend of a kind ships, the entry ``devmod.conformance.<kind>``.

    Raises
    ------
    NotRegisteredError
        The kind's backend is not installed, or ships no cases; the message says which.
    PluginError
        What it ships cannot be imported, or is no `Conformance` of that kind.
    """
    from devmod import _registry

    backend = _registry.registered("devmod.create").get(kind)
    if backend is not None and not _registry.installed(GROUP, kind):
        raise NotRegisteredError(
            f"{GROUP}.{kind} is not registered: the backend of {kind}, {backend.who}, ships no cases for the conformance kit. "
            "Its author adds them as that entry point, a subclass of devmod.testing.Conformance",
            kind=kind,
            key=f"{GROUP}.{kind}",
            distribution=backend.distribution,
        )
    found = _registry.lookup(GROUP, kind)
    claim = _registry.registered(GROUP).get(kind)
    who = claim.who if claim and claim.distribution else "what is registered in this process"
    try:
        case = found() if isinstance(found, type) else found
    except Exception as error:
        raise PluginError(
            f"{GROUP}.{kind} is broken: {who}: making its cases failed ({said(error)})",
            kind=kind,
            key=f"{GROUP}.{kind}",
            distribution=claim.distribution if claim else "",
        ) from error
    if isinstance(case, Conformance) and case.kind == kind:
        return case
    wrong = f"of kind {case.kind!r}" if isinstance(case, Conformance) else f"of type {type(case).__name__}"
    raise PluginError(
        f"{GROUP}.{kind} is broken: {who} gives an object {wrong}; it is a subclass of devmod.testing.Conformance with kind = {kind!r}",
        kind=kind,
        key=f"{GROUP}.{kind}",
        distribution=claim.distribution if claim else "",
    )


def run(kind: str | Conformance, only: Iterable[str] = ()) -> list[Result]:
    """Check a backend against every row.

    Parameters
    ----------
    kind
        The backend's kind, or its cases.
    only
        Ids of rows, or of the contract's rows ("R32" for all of that row); all rows where it is empty.

    Returns
    -------
    list of Result
        One for each row, in the contract's order.

    Raises
    ------
    NotRegisteredError, PluginError
        As `find`.
    FormatError
        A name in `only` is no row's.
    """
    wanted = chosen(only)
    case = kind if isinstance(kind, Conformance) else find(kind)
    return [row.run(case) for row in wanted]


def chosen(only: Iterable[str]) -> list[Row]:
    """The rows of these names, in the contract's order; FormatError for a name that is none."""
    wanted = set(only)
    unknown = wanted - {name for row in rows() for name in (row.id, row.contract)}
    if unknown:
        raise FormatError(f"the kit has no row {sorted(unknown)[0]!r}; its rows: {', '.join(row.id for row in rows())}")
    return [row for row in rows() if not wanted or row.id in wanted or row.contract in wanted]


def must(holds: object, wrong: str) -> None:
    """Fail, saying what is wrong, unless it holds. (An assert would be left out under ``python -O``, and every row would pass.)"""
    if not holds:
        raise AssertionError(wrong)


def _said(error: BaseException) -> str:
    """What went wrong, for people: a failed check's own words, and of anything else also the type."""
    text = str(error).strip()
    return text if isinstance(error, AssertionError) and text else f"{type(error).__name__}: {text}".rstrip(": ")
