"""Rewrite Metal's attributes as clang annotations: ``[[buffer(0)]]`` becomes an annotation with the
same words.

clang drops unknown attributes. Its syntax tree contains annotations as strings with expanded
macros. The tree does not contain explicit instantiations (``template [[host_name("f")]]
[[kernel]] void f<float>(…)``), but it contains declared specializations (``template <> …``). The
number of lines does not change.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

_TOKEN = re.compile(
    r"""//(?:\\\r?\n|[^\r\n])* | /\*.*?(?:\*/|\Z) | "(?:\\.|[^"\\\r\n])*" | '(?:\\.|[^'\\\r\n])*'
    | (?P<coherent>\bcoherent(?:\s*\([^()]*\))?)(?=\s+(?:device|constant|threadgroup|const|volatile)\b)
    | (?P<instance>\btemplate)(?=(?:\s|\\\r?\n)*\[\[) | (?P<open>\[\[)(?=\s*[A-Za-z_])""",
    re.DOTALL | re.VERBOSE,
)
_PIECE = re.compile(r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\r\n])*"|[()\[\],;{}]""", re.DOTALL)
_CLOSING = {"(": ")", "[": "]"}
#: The limit on nested brackets in an attribute. It bounds the search for the end of a list.
_MAX_DEPTH = 32
_WIDE = re.compile(r"[^\x00-\x7f]")
_PARAMETER = re.compile(r"([A-Za-z_]\w*)[^\S\n]*\[[^\[\]\n]*\]((?:[^\S\n]*\[[^\[\]\n]*\])*)(?!\[)")
_WORD = re.compile(
    r"(?:\s|\\\r?\n)*([A-Za-z_]\w*)(?:\s|\\\r?\n)*(\((?P<inside>.*)\))?(?:\s|\\\r?\n)*", re.DOTALL
)
#: The attributes of C++, which clang supports.
_CPP_WORDS = frozenset(
    (
        "noreturn",
        "nodiscard",
        "maybe_unused",
        "fallthrough",
        "deprecated",
        "likely",
        "unlikely",
        "no_unique_address",
    )
)


class Rewritten:
    """A program with its attributes rewritten.

    Attributes
    ----------
    text : str
        The program.
    """

    def __init__(self, source: str) -> None:
        # libclang counts bytes. Characters outside ASCII are in comments and strings only, whose
        # content does not matter.
        source = _WIDE.sub("_", source)
        parts = []
        #: The starts of unchanged pieces in the text, and their starts in the source.
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
                put("", token.start(), at)  # it does not change an argument's type
            elif token["instance"]:
                put("template <>", token.start(), at)
            elif token["open"]:
                items, end = _attribute_list(source, at)
                if end:
                    annotations = ",".join(map(_annotation, items))
                    put(f"[[{annotations}]]", token.start(), end)
                    at = end
        put("", len(source), len(source))
        self.text = "".join(parts)

    def rewrite_arrays(self, places: Iterable[int]) -> bool:
        """Rewrite array parameters at these positions, ``name[2]``, as pointers, ``*name``. Return
        whether one was rewritten.

        The length of the text does not change.
        """
        changed = False
        for place in sorted(set(places), reverse=True):
            match = _PARAMETER.match(self.text, place)
            if match:
                pointer = f"*{match[1]}"
                rest = match[2]
                if rest:
                    pointer = f"({pointer}){rest}"
                self.text = (
                    self.text[:place] + pointer.ljust(len(match[0])) + self.text[match.end() :]
                )
                changed = True
        return changed

    def origin(self, offset: int) -> int:
        """Return the position in the source of a position in the text."""
        number = bisect_right(self._at, offset) - 1
        begin = self._from[number]
        end = offset
        if number + 1 < len(self._from):
            end = self._from[number + 1]
        return max(0, min(begin + offset - self._at[number], max(end, begin)))


def _attribute_list(source: str, start: int) -> tuple[list[str], int]:
    """Return the attributes of the list at a position, and its end; the end is 0 if the list does
    not end.
    """
    begin = start
    items = []
    #: The brackets that close the open ones, the innermost last.
    closing = ""
    for piece in _PIECE.finditer(source, start):
        mark = piece.group()
        if mark in _CLOSING:
            closing += _CLOSING[mark]
            if len(closing) > _MAX_DEPTH:
                break
        elif closing and mark == closing[-1]:
            closing = closing[:-1]
        elif mark in (")", ";", "{", "}") or (mark == "]" and closing):
            break
        elif not closing and mark in (",", "]"):
            items.append(source[begin : piece.start()])
            begin = piece.end()
            if mark == "]":
                if not source.startswith("]]", piece.start()):
                    break
                return items, piece.start() + 2
    return [], 0


def _annotation(attribute: str) -> str:
    match = _WORD.fullmatch(attribute)
    if not match or match[1] in _CPP_WORDS:
        return attribute
    name = match[1]
    inside = match["inside"]
    before = attribute[: match.start(1)]
    if name == "host_name":
        return before + f'clang::annotate("metal.host_name=" {inside})'
    if inside is None:
        return before + f'__devmod_attribute("{name}")'
    return before + f'__devmod_attribute("{name}", {inside})'
