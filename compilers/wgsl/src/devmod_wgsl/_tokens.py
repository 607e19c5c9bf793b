"""The tokens of a WGSL text, without comments and with template lists marked.

``<`` and ``>`` are operators or the brackets of a template list. WGSL decides that for the whole
text before parsing ("Template list discovery"). So each symbol is a token of one character, and the
brackets of template lists are marked.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cached_property

from devmod.errors import CompileError
from devmod_wgsl._lines import BLANKS, LINE_BREAKS, NAME, end_of_comment
from devmod_wgsl._scalars import FLOAT_SUFFIXES, INTEGER_SUFFIXES, UNSUPPORTED

#: The limit on the characters of a source.
MAX_TEXT = 4 << 20
#: The limit on nested statements and expressions. WGSL's own limit for braces is 127.
MAX_DEPTH = 127

_SKIP = re.compile(rf"[{BLANKS}]+|//[^{LINE_BREAKS}]*")
_WORD = re.compile(NAME)
_FLOAT = f"[{FLOAT_SUFFIXES}]"
_INTEGER = f"[{INTEGER_SUFFIXES}]"
_LONG = "|".join(UNSUPPORTED.values())
_NUMBER = re.compile(
    rf"0[xX](?:[0-9a-fA-F]*\.[0-9a-fA-F]+|[0-9a-fA-F]+\.[0-9a-fA-F]*)(?:[pP][+-]?\d+{_FLOAT}?)?"
    rf"|0[xX][0-9a-fA-F]+[pP][+-]?\d+{_FLOAT}?"
    rf"|0[xX][0-9a-fA-F]+{_INTEGER}?"
    rf"|(?:\d*\.\d+|\d+\.\d*)(?:[eE][+-]?\d+)?(?:{UNSUPPORTED['f64']}|{_FLOAT})?"
    rf"|\d+[eE][+-]?\d+(?:{UNSUPPORTED['f64']}|{_FLOAT})?"
    rf"|\d+(?:{_LONG}|{_INTEGER}|{_FLOAT})?"
)
#: A line of `line_marker`.
_MARKER = re.compile(
    rf'(?<![^{LINE_BREAKS}])//#line (\d{{1,9}}) "([^"{LINE_BREAKS}]*)"(?=[{LINE_BREAKS}])'
)
_DIRECTIVE_HINT = "; a directive is the first of its line, and a macro is written as NAME, not as #NAME or #{NAME}"
_SYMBOLS = frozenset("()[]{}<>,;:.@=!&|^~+-*/%")

WORD = "word"
NUMBER = "number"
SYMBOL = "symbol"
END = "end"


class Token:
    """A token.

    Attributes
    ----------
    kind : str
        WORD, NUMBER, SYMBOL or END.
    text : str
        Its text in the source; "" at the end.
    at : int
        Its position in the text.
    template : bool
        True for the ``<`` and the ``>`` of a template list.
    """

    __slots__ = ("at", "kind", "template", "text")

    def __init__(self, kind: str, text: str, at: int) -> None:
        self.kind = kind
        self.text = text
        self.at = at
        self.template = False


class Source:
    """A WGSL text with its name, for messages."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name

    @cached_property
    def _line_ends(self) -> list[int]:
        # The line end of Windows is one line end.
        return [match.end() for match in re.finditer(rf"\r\n|[{LINE_BREAKS}]", self.text)]

    @cached_property
    def _markers(self) -> list[tuple[int, int, str]]:
        """The lines behind the markers, each with the user's line and file."""
        markers = []
        if "//#line " in self.text:
            for match in _MARKER.finditer(self.text):
                markers.append((self._line(match.start()) + 1, int(match[1]), match[2]))
        return markers

    def _line(self, at: int) -> int:
        """Return the line of a position in the text, from 1."""
        return bisect_right(self._line_ends, at) + 1

    def location(self, at: int) -> str:
        """Return the location of a position for messages, such as ``blur.wgsl:12``."""
        return self.location_of_line(self._line(at))

    def location_of_line(self, line: int) -> str:
        """Return the location of a line of the text in the user's files, by the last marker before
        it.
        """
        number = bisect_left(self._markers, (line + 1,))
        if not number:
            return f"{self.name}:{line}"
        start, first, name = self._markers[number - 1]
        return f"{name}:{first + line - start}"

    def column(self, at: int) -> int:
        """Return the column of a position, from 1."""
        return at - max(self.text.rfind(mark, 0, at) for mark in LINE_BREAKS)

    def error(self, at: int, text: str) -> CompileError:
        """Return the CompileError for a position. Its log contains the location, the text and the
        source line.
        """
        column = self.column(at)
        start = at - column + 1
        line, *_ = re.split(rf"[{LINE_BREAKS}]", self.text[start : start + 500], maxsplit=1)
        shown = line.replace("\t", " ")
        log = f"{self.location(at)}:{column}: error: {text}\n  {shown}\n  {' ' * (column - 1)}^"
        return CompileError(
            f"the WGSL source is refused at {self.location(at)}:{column}: {text}",
            kind="webgpu",
            log=log,
        )


def tokens(source: Source) -> list[Token]:
    """Return the tokens of a source; the last is END.

    Raises
    ------
    CompileError
        The source is too long, a comment does not end, or a character is not valid in WGSL.
    """
    text = source.text
    if len(text) > MAX_TEXT:
        raise CompileError(
            f"the WGSL source {source.name} has {len(text)} characters; the most is {MAX_TEXT}",
            kind="webgpu",
        )
    found_tokens: list[Token] = []
    at = 0
    end = len(text)
    while at < end:
        skipped = _SKIP.match(text, at)
        if skipped:
            at = skipped.end()
            continue
        if text.startswith("/*", at):
            end_of_this = end_of_comment(text, at)
            if not end_of_this:
                raise source.error(at, "this comment has no end; expected '*/'")
            at = end_of_this
            continue
        match = _WORD.match(text, at)
        if match and match.group().isidentifier():
            found_tokens.append(Token(WORD, match.group(), at))
        elif match := _NUMBER.match(text, at):
            next_word = _WORD.match(text, match.end())
            if next_word:
                raise source.error(
                    at,
                    f"{match.group() + next_word.group()!r} is neither a valid number nor a valid name",
                )
            found_tokens.append(Token(NUMBER, match.group(), at))
        elif text[at] in _SYMBOLS:
            found_tokens.append(Token(SYMBOL, text[at], at))
            at += 1
            continue
        else:
            hint = _DIRECTIVE_HINT if text[at] == "#" else ""
            raise source.error(at, f"the character {text[at]!r} is not valid in WGSL{hint}")
        at = match.end()
    found_tokens.append(Token(END, "", end))
    _mark_templates(found_tokens)
    return found_tokens


def _mark_templates(found_tokens: list[Token]) -> None:
    """Mark the brackets of template lists by the algorithm of the specification."""
    #: The "<" that may begin a list, each with the depth of the brackets around it.
    candidates: list[tuple[Token, int]] = []
    depth = 0
    at = 0
    while at < len(found_tokens) - 1:
        token = found_tokens[at]
        following = found_tokens[at + 1]
        pair = token.text
        if following.at == token.at + len(token.text):
            pair += following.text
        if token.kind == WORD:
            if following.text == "<":
                at += 1
                third = found_tokens[at + 1]
                # "<<" and "<=" are operators.
                if third.at != following.at + 1 or third.text not in ("<", "="):
                    candidates.append((following, depth))
                else:
                    at += 1
        elif token.text == ">":
            if candidates and candidates[-1][1] == depth:
                first, _ = candidates.pop()
                first.template = token.template = True
            elif pair == ">=":
                at += 1
        elif token.text in ("(", "["):
            depth += 1
        elif token.text in (")", "]"):
            _remove_inner(candidates, depth)
            depth = max(0, depth - 1)
        elif pair in ("!=", "=="):
            at += 1
        elif token.text in ("=", ";", "{", ":"):
            depth = 0
            candidates.clear()
        elif pair in ("&&", "||"):
            _remove_inner(candidates, depth)
            at += 1
        at += 1


def _remove_inner(candidates: list[tuple[Token, int]], depth: int) -> None:
    """Remove the candidates in brackets of at least a depth."""
    while candidates and candidates[-1][1] >= depth:
        candidates.pop()
