"""Which names a function uses, directly or through what it names: by words, so rather too many than too few."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\r?\n|[^\n])*)", re.MULTILINE)


class Names:
    """The names of a program, each with the words that its declarations and definitions hold."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._spans: dict[str, list[tuple[int, int]]] = {}
        self._words: dict[str, frozenset[str]] = {}
        self._used: dict[str, set[str]] = {}
        for found in _DEFINE.finditer(text):
            self.declare(found[1], found.start(2), found.end(2))

    def declare(self, name: str, start: int, end: int) -> None:
        """A declaration of a name, from its first to behind its last character."""
        self._spans.setdefault(name, []).append((start, end))

    def text(self, start: int, end: int) -> str:
        """A piece of the program."""
        return self._text[start:end]

    def end_of_statement(self, start: int) -> int:
        """Where the statement ends that goes on there."""
        end = self._text.find(";", start)
        return end if end >= 0 else len(self._text)

    def used_by(self, name: str) -> set[str]:
        """All names that are reached from one."""
        if name in self._used:
            return self._used[name]
        seen, pending = {name}, [name]
        while pending:
            for word in self._in(pending.pop()):
                if word not in seen and word in self._spans:
                    seen.add(word)
                    pending.append(word)
        self._used[name] = seen
        return seen

    def _in(self, name: str) -> frozenset[str]:
        if name not in self._words:
            self._words[name] = frozenset(word for start, end in self._spans.get(name, ()) for word in _WORD.findall(self._text[start:end]))
        return self._words[name]
