"""The names that each function of a program uses, directly or indirectly. Any matching word counts, so the result may be too large."""

from __future__ import annotations

import re

from devmod_readers.closure import closure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
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

    def text(self, start: int, end: int) -> str:
        """Return a part of the program's text."""
        return self._text[start:end]

    def end_of_statement(self, start: int) -> int:
        """Return the end of the statement that contains the position `start`."""
        end = self._text.find(";", start)
        return end if end >= 0 else len(self._text)

    def used_parts(self, parts: Sequence[str]) -> dict[str, int]:
        """Return for each name the parts that it uses: bit n is set for the n-th of `parts`."""
        bits = dict.fromkeys(self._spans, 0) | {name: 1 << number for number, name in enumerate(parts)}
        return closure(bits, {name: self._words_in(name) for name in self._spans})

    def _words_in(self, name: str) -> frozenset[str]:
        return frozenset(word for start, end in self._spans[name] for word in _WORD.findall(self._text[start:end]))
