"""Metal's attributes in a form that libclang keeps: ``[[buffer(0)]]`` becomes an annotation of clang's with the same words.

clang drops attributes that it does not know. An annotation stands in its tree, as a string that macros have been expanded in. An explicit
instantiation (``template [[host_name("f")]] [[kernel]] void f<float>(…)``) does not stand there at all; a declared specialization
(``template <> …``) does. No line is added or taken away.
"""

from __future__ import annotations

import re
from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_TOKEN = re.compile(
    r"""//(?:\\\r?\n|[^\r\n])* | /\*.*?(?:\*/|\Z) | "(?:\\.|[^"\\\r\n])*" | '(?:\\.|[^'\\\r\n])*'
    | (?P<coherent>\bcoherent(?:\s*\([^()]*\))?)(?=\s+(?:device|constant|threadgroup|const|volatile)\b)
    | (?P<instance>\btemplate)(?=(?:\s|\\\r?\n)*\[\[) | (?P<open>\[\[)(?=\s*[A-Za-z_])""",
    re.DOTALL | re.VERBOSE,
)
_PIECE = re.compile(r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\r\n])*"|[()\[\],;{}]""", re.DOTALL)
#: No attribute has brackets that are nested deeper. So a list that does not end is left soon.
_DEEPEST = 32
_WIDE = re.compile(r"[^\x00-\x7f]")
_PARAMETER = re.compile(r"([A-Za-z_]\w*)[^\S\n]*\[[^\[\]\n]*\]((?:[^\S\n]*\[[^\[\]\n]*\])*)(?!\[)")
_WORD = re.compile(r"(?:\s|\\\r?\n)*([A-Za-z_]\w*)(?:\s|\\\r?\n)*(\((?P<inside>.*)\))?(?:\s|\\\r?\n)*", re.DOTALL)
#: C++'s own, which clang knows.
_PLAIN = frozenset(("noreturn", "nodiscard", "maybe_unused", "fallthrough", "deprecated", "likely", "unlikely", "no_unique_address"))


class Rewritten:
    """A program with its attributes rewritten.

    Attributes
    ----------
    text : str
        The program.
    """

    def __init__(self, source: str) -> None:
        # libclang counts bytes. Beyond ASCII there are comments and texts, whose letters do not matter here.
        source = _WIDE.sub("_", source)
        parts: list[str] = []
        #: Where a place in the text stems from: the starts of its unchanged stretches, and of those in the source.
        self._at: list[int] = []
        self._from: list[int] = []
        done = size = at = 0

        def put(new: str, start: int, end: int) -> None:
            nonlocal done, size
            for piece, origin in ((source[done:start], done), (new, start)):
                self._at.append(size)
                self._from.append(origin)
                parts.append(piece)
                size += len(piece)
            done = end

        while token := _TOKEN.search(source, at):
            at = token.end()
            if token["coherent"]:
                put("", token.start(), at)  # it says nothing of what an argument is
            elif token["instance"]:
                put("template <>", token.start(), at)
            elif token["open"]:
                listed, end = _list(source, at)
                if end:
                    put("".join(("[[", ",".join(map(_annotation, listed)), "]]")), token.start(), end)
                    at = end
        put("", len(source), len(source))
        self.text = "".join(parts)

    def decay(self, places: Iterable[int]) -> bool:
        """Write the parameters whose names stand there, ``name[2]``, as the pointers that they are, ``*name``; whether one was found.

        The text keeps its length.
        """
        changed = False
        for place in sorted(set(places), reverse=True):
            found = _PARAMETER.match(self.text, place)
            if found:
                name, rest = found[1], found[2]
                pointer = f"(*{name}){rest}" if rest else f"*{name}"
                new = pointer + " " * (len(found[0]) - len(pointer)) if len(pointer) <= len(found[0]) else pointer
                self.text = self.text[:place] + new + self.text[found.end() :]
                changed = True
        return changed

    def origin(self, offset: int) -> int:
        """Where in the source a place of the text stems from."""
        number = bisect_right(self._at, offset) - 1
        after = self._from[number + 1] if number + 1 < len(self._from) else offset
        return max(0, min(self._from[number] + offset - self._at[number], max(after, self._from[number])))


def _list(source: str, start: int) -> tuple[list[str], int]:
    """The attributes in a list that begins there, and where it ends; 0 where it does not."""
    begin, listed, closing = start, [], ""
    for piece in _PIECE.finditer(source, start):
        mark = piece.group()
        if mark in ("(", "["):
            closing += ")" if mark == "(" else "]"
            if len(closing) > _DEEPEST:
                break
        elif closing and mark == closing[-1]:
            closing = closing[:-1]
        elif mark in (")", ";", "{", "}") or (mark == "]" and closing):
            break
        elif not closing and mark in (",", "]"):
            listed.append(source[begin : piece.start()])
            begin = piece.end()
            if mark == "]":
                return (listed, piece.start() + 2) if source.startswith("]]", piece.start()) else ([], 0)
    return [], 0


def _annotation(attribute: str) -> str:
    found = _WORD.fullmatch(attribute)
    if not found or found[1] in _PLAIN:
        return attribute
    name, inside = found[1], found["inside"]
    if name == "host_name":
        return attribute[: found.start(1)] + f'clang::annotate("metal.host_name=" {inside})'
    return attribute[: found.start(1)] + f'__devmod_attribute("{name}"{"" if inside is None else ", " + inside})'
