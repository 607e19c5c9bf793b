"""Read values of a manifest's tables and check their types. Mistakes are collected, so that one message lists all of them."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from math import isfinite
from typing import Any

from devmod.errors import did_you_mean, list_names, quote_name
from devmod_targets.build.document import MAX_PROBLEMS, ManifestError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from devmod_targets.build.document import Document, Problem
    from devmod_targets.build.toml_lines import KeyPath


class Problems:
    """The mistakes in a document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._problems: dict[Problem, None] = {}

    def add(self, keys: KeyPath, text: str) -> None:
        """Add a mistake at a key. Raise ManifestError if there are too many to look for more."""
        self._problems.setdefault(self._document.problem(keys, text))
        if len(self._problems) >= MAX_PROBLEMS:
            raise ManifestError(self._document.path, [*self._problems])

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._problems)

    def __len__(self) -> int:
        return len(self._problems)


class Table:
    """A table of a manifest. A read of an absent key returns the default; a read of a wrong type adds a mistake and returns the default."""

    def __init__(self, data: Mapping[str, Any], keys: KeyPath, problems: Problems) -> None:
        self.data = data
        self.keys = keys
        self.problems = problems
        self._known: list[str] = []

    def add(self, text: str, *keys: str | int) -> None:
        """Add a mistake at this table, or at a key in it."""
        self.problems.add((*self.keys, *keys), text)

    def get(self, name: str) -> Any:
        """Return the value of a key, or None. The key counts as known."""
        self._known.append(name)
        return self.data.get(name)

    def string(self, name: str, default: str = "") -> str:
        """Return a string that is neither empty nor has control characters."""
        value = self.get(name)
        return default if value is None else self.check_string(value, name) or default

    def strings(self, name: str, example: str = "") -> tuple[str, ...] | None:
        """Return an array of strings, "" in the place of a wrong one; None if it is absent or no array."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            self.add(f"expected an array of strings{f', such as {example}' if example else ''}, got {describe(value)}", name)
            return None
        return tuple(self.check_string(each, name, index) for index, each in enumerate(value))

    def boolean(self, name: str) -> bool:
        """Return a boolean; False if it is absent."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            self.add(f"expected true or false, got {describe(value)}", name)
        return value is True

    def tables(self, name: str, what: str) -> list[tuple[str, Table]]:
        """Return the tables in a table, by name."""
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, dict):
            self.add(f"expected a table of {what}, got {describe(value)}", name)
            return []
        result = []
        for key, table in value.items():
            if isinstance(table, dict):
                result.append((key, self.table(table, name, key)))
            else:
                self.add(f"expected a table, got {describe(table)}", name, key)
        return result

    def table(self, data: Mapping[str, Any], *keys: str | int) -> Table:
        """Return a table in this one."""
        return Table(data, (*self.keys, *keys), self.problems)

    def check_string(self, value: object, *keys: str | int) -> str:
        """Return a string; "" after a mistake."""
        if not isinstance(value, str):
            self.add(f"expected a string, got {describe(value)}", *keys)
        elif not value.strip():
            self.add("the string is empty", *keys)
        elif not value.isprintable():
            self.add(f"the string has a line break or a control character: {value!r}", *keys)
        else:
            return value
        return ""

    def check_keys(self, hints: Mapping[str, str] | None = None) -> None:
        """Add a mistake for each key that was not read. `hints` has a sentence for some."""
        for name in self.data:
            if name not in self._known:
                hint = (hints or {}).get(name) or did_you_mean(name, self._known)
                self.add(f"unknown key{hint or f'; the keys here are {list_names(dict.fromkeys(self._known))}'}", name)


_DRIVE = re.compile(r"[A-Za-z]:")


def check_path(table: Table, value: str, *keys: str | int) -> str:
    """Return a relative path without ``.`` and needless ``..``; "" for an empty one, and after a mistake."""
    import posixpath

    if value.startswith(("/", "~")) or _DRIVE.match(value):
        table.add(f"expected a path relative to the manifest's folder, got {value!r}: other machines have other folders", *keys)
    elif "\\" in value:
        table.add(f"expected slashes in a path, got {value!r}; write {value.replace(chr(92), '/')!r}", *keys)
    elif value.startswith("$") or "${" in value:
        table.add(f"environment variables are not replaced, got {value!r}", *keys)
    elif value:
        return posixpath.normpath(value)
    return ""


def check_finite(table: Table, value: float, *keys: str | int) -> bool:
    """Return whether a number is finite; add a mistake if it is not."""
    if isinstance(value, float) and not isfinite(value):
        table.add(f"expected a finite number, got {value}", *keys)
        return False
    return True


def describe(value: object) -> str:
    """Return a value for a message, with TOML's name of its type."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return f"the string {quote_name(value)}"
    if isinstance(value, int):
        return f"the integer {value}" if abs(value) < 10**30 else "an integer"
    if isinstance(value, float):
        return f"the float {value}"
    if isinstance(value, (datetime, date, time)):
        return f"the date or time {value}"
    if isinstance(value, list):
        return "an array"
    return "a table"
