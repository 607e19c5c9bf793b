"""Rows: one object for each requirement of the contract. They run without a test framework."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from devmod_conformance._case import Conformance

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
#: The start of the reason of a skipped row that has nothing to check: the toolchain of every sample
#: is missing.
NO_SAMPLE = "no sample can be compiled on this machine: "


class Skip(Exception):
    """Raised by a row that does not apply; the text is the reason."""


@dataclass(frozen=True)
class Row:
    """One requirement of the contract.

    Attributes
    ----------
    id
        The row of the contract. A word follows if that row has several requirements: "R18",
        "R32-once".
    title
        The requirement, as a sentence.
    check
        The function that checks a backend's `Conformance`. It raises `Skip` if the requirement does
        not apply. Every other exception is a failure.
    """

    id: str
    title: str
    check: Callable[[Conformance], None]

    @property
    def contract(self) -> str:
        """The row of the contract, such as "R32"."""
        return self.id.partition("-")[0]

    def run(self, case: Conformance) -> Result:
        """Check a backend. Every exception becomes a result, except KeyboardInterrupt."""
        try:
            self.check(case)
        except Skip as skip:
            return Result(self, SKIPPED, str(skip))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a backend may raise anything, SystemExit too
            return Result(self, FAILED, _describe(error), error)
        return Result(self, PASSED)


@dataclass(frozen=True)
class Result:
    """The outcome of a row.

    Attributes
    ----------
    row
        The Row.
    outcome
        "passed", "failed" or "skipped".
    reason
        The reason of a failure or a skip, else "".
    error
        The exception of a failure, else None.
    """

    row: Row
    outcome: str
    reason: str = ""
    error: BaseException | None = None


def require(condition: object, failure: str) -> None:
    """Raise AssertionError with the text `failure` unless the condition holds. (``python -O``
    removes assert statements.)
    """
    if not condition:
        raise AssertionError(failure)


def _describe(error: BaseException) -> str:
    """Return the text of a failed check, or the type and text of any other exception."""
    text = str(error).strip()
    return (
        text
        if isinstance(error, AssertionError) and text
        else f"{type(error).__name__}: {text}".rstrip(": ")
    )
