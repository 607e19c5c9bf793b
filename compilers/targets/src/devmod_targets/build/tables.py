"""Values of a manifest's tables, with checks of their types. Mistakes are collected, so that one
message lists all of them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

from devmod.errors import did_you_mean, list_names, quote_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_targets.build.document import Document, KeyPath


class Table:
    """A table of a manifest. A read of an absent key returns the default; a read of a wrong type
    adds a mistake and returns the default.
    """

    def __init__(self, data: Mapping[str, Any], keys: KeyPath, document: Document) -> None:
        self.data = data
        self.keys = keys
        self.document = document
        self._known: list[str] = []

    def add(self, text: str, *keys: str | int) -> None:
        """Add a mistake at this table, or at a key in it."""
        self.document.add((*self.keys, *keys), text)

    def get(self, name: str) -> Any:
        """Return the value of a key, or None. The key counts as known."""
        self._known.append(name)
        return self.data.get(name)

    def typed(self, name: str, expected_type: type, expected: str) -> Any:
        """Return a value of a type; None if it is absent, and after a mistake."""
        value = self.get(name)
        if value is None or isinstance(value, expected_type):
            return value
        self.add(f"expected {expected}, got {describe(value)}", name)
        return None

    def string(self, name: str, default: str = "") -> str:
        """Return a string that is neither empty nor has control characters."""
        value = self.get(name)
        if value is None:
            return default
        return self.check_string(value, name) or default

    def strings(self, name: str, example: str) -> tuple[str, ...] | None:
        """Return an array of strings, "" in the place of a wrong one; None if it is absent or no
        array.
        """
        value = self.typed(name, list, f"an array of strings, such as {example}")
        if value is None:
            return None
        return tuple(self.check_string(each, name, index) for index, each in enumerate(value))

    def boolean(self, name: str) -> bool:
        """Return a boolean; False if it is absent."""
        return self.typed(name, bool, "true or false") is True

    def tables(self, name: str, what: str) -> list[tuple[str, Table]]:
        """Return the tables in a table, by name."""
        result = []
        for key, table in (self.typed(name, dict, f"a table of {what}") or {}).items():
            if isinstance(table, dict):
                result.append((key, self.table(table, name, key)))
            else:
                self.add(f"expected a table, got {describe(table)}", name, key)
        return result

    def table(self, data: Mapping[str, Any], *keys: str | int) -> Table:
        """Return a table in this one."""
        return Table(data, (*self.keys, *keys), self.document)

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
        hints = hints or {}
        for name in self.data:
            if name in self._known:
                continue
            hint = hints.get(name) or did_you_mean(name, self._known)
            if not hint:
                hint = f"; the keys here are {list_names(dict.fromkeys(self._known))}"
            self.add(f"unknown key{hint}", name)


def check_path(table: Table, value: str, *keys: str | int) -> str:
    """Return a relative path without ``.`` and needless ``..``; "" for an empty one, and after a
    mistake.
    """
    has_drive = value[1:2] == ":" and value[0].isascii() and value[0].isalpha()
    if has_drive or value.startswith(("/", "~")):
        table.add(
            f"expected a path relative to the manifest's folder, got {value!r}: other machines have other folders",
            *keys,
        )
    elif "\\" in value:
        table.add(
            f"expected slashes in a path, got {value!r}; write {value.replace(chr(92), '/')!r}",
            *keys,
        )
    elif value.startswith("$") or "${" in value:
        table.add(f"environment variables are not replaced, got {value!r}", *keys)
    elif value:
        return posixpath.normpath(value)
    return ""


def describe(value: object) -> str:
    """Return a value for a message, with TOML's name of its type."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return f"the string {quote_name(value)}"
    if isinstance(value, int):
        if abs(value) >= 10**30:
            return "an integer"
        return f"the integer {value}"
    if isinstance(value, float):
        return f"the float {value}"
    if isinstance(value, (datetime, date, time)):
        return f"the date or time {value}"
    if isinstance(value, list):
        return "an array"
    return "a table"
