"""A change of one place of a source, made by a rule."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

#: The rules and what each changes.
RULES = {
    "comparison": "`<` becomes `<=`, `==` becomes `!=`, `in` becomes `not in`, and back",
    "arithmetic": "`+` becomes `-`, `*` becomes `//`, `<<` becomes `>>`, `&` becomes `|`, and back",
    "logic": "`and` becomes `or`, and back; `not` is dropped",
    "number": "a number grows or shrinks by one",
    "index": "an index grows or shrinks by one; a bound of a slice is dropped",
    "sign": "a minus before a value is dropped",
    "guard": "a condition that only leaves a function or a turn of a loop becomes false",
    "branch": "another condition is negated",
    "swap": "the first two arguments of a call change places",
    "boolean": "true becomes false, and back",
    "default": "a named argument of a call is dropped, so that its default applies",
    "call": "a call whose result nothing uses is dropped",
    "choice": "`min` becomes `max`, `any` becomes `all`, `startswith` becomes `endswith`, and back",
}

_PAIRS = [
    ("<", "<="),
    (">", ">="),
    ("==", "!="),
    ("===", "!=="),
    ("in", "not in"),
    ("is", "is not"),
    ("+", "-"),
    ("<<", ">>"),
    ("&", "|"),
    ("and", "or"),
    ("&&", "||"),
    ("True", "False"),
    ("true", "false"),
    ("min", "max"),
    ("any", "all"),
    ("some", "every"),
    ("startswith", "endswith"),
    ("startsWith", "endsWith"),
    ("partition", "rpartition"),
]
#: What an operator or a name becomes.
OTHER = {
    **dict(_PAIRS),
    **{second: first for first, second in _PAIRS},
    "//": "*",
    "/": "*",
    "%": "//",
    "**": "*",
    "^": "&",
    "*": "//",
}


class Mutant(NamedTuple):
    """A change of a source.

    Attributes
    ----------
    path
        The source, from the root of the repository.
    line
        The number of the line on which the changed text starts.
    source
        This line, without the spaces around it.
    rule
        The name of the rule.
    start, end
        The changed text, as offsets in the source.
    old, new
        The changed text, and the one that replaces it.
    span
        The first and the last line of its statement: not each line of several is an event for a
        tracer.
    is_late
        Whether a function executes the statement, and not an import.
    """

    path: Path
    line: int
    source: str
    rule: str
    start: int
    end: int
    old: str
    new: str
    span: tuple[int, int]
    is_late: bool

    def apply(self, text: str) -> str:
        """Return the source with the change."""
        return text[: self.start] + self.new + text[self.end :]

    def __str__(self) -> str:
        return f"{self.path.as_posix()}:{self.line} {self.rule}: {self.old!r} becomes {self.new!r}"


class Recorder:
    """Collects the mutants of one source.

    Attributes
    ----------
    span, is_late
        Those of the current statement; None is the line alone.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        self.lines = text.split("\n")
        self.mutants: list[Mutant] = []
        self.span: tuple[int, int] | None = None
        self.is_late = True

    def add(self, rule: str, start: int, end: int, new: str) -> None:
        """Record one change."""
        old = self.text[start:end]
        if old == new:
            return
        line = self.text.count("\n", 0, start) + 1
        source = self.lines[line - 1].strip()
        span = self.span or (line, line)
        place = (self.path, line, source, rule, start, end)
        self.mutants.append(Mutant(*place, old, new, span, self.is_late))
