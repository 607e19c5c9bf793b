"""The names that each function of a Metal program uses, directly or indirectly. Any matching word
counts, so the result may be too large.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from devmod_readers.uses import transitive_parts

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\r?\n|[^\n])*)", re.MULTILINE)


class Names:
    """The names of a program, each with the words in its declarations and definitions."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._spans: dict[str, list[tuple[int, int]]] = {}
        for match in _DEFINE.finditer(text):
            self.declare(match[1], match.start(2), match.end(2))

    def declare(self, name: str, start: int, end: int) -> None:
        """Add a declaration of a name, from `start` up to and without `end`."""
        self._spans.setdefault(name, []).append((start, end))

    def end_of_statement(self, start: int) -> int:
        """Return the end of the statement that contains the position `start`."""
        end = self._text.find(";", start)
        if end < 0:
            return len(self._text)
        return end

    def used_parts(self, parts: Sequence[str]) -> dict[str, int]:
        """Return for each name the parts that it uses: bit n is set for the n-th of `parts`."""
        bits = dict.fromkeys(self._spans, 0)
        for number, name in enumerate(parts):
            bits[name] = 1 << number
        uses: dict[str, frozenset[str]] = {}
        for name, spans in self._spans.items():
            words: set[str] = set()
            for start, end in spans:
                words.update(_IDENTIFIER.findall(self._text[start:end]))
            uses[name] = frozenset(words)
        return transitive_parts(bits, uses)
