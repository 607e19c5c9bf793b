"""The words of WGSL: tokens with their places, comments left out, template lists found.

``<`` and ``>`` are brackets of a template list or operators; which, WGSL settles for the whole text before anything is parsed ("Template
list discovery"). So every symbol is a token of one character, and what belongs to a template list is marked.
"""

from __future__ import annotations

import re

from devmod.errors import CompileError

#: A source of more bytes is refused: what it describes would be no shader.
MOST_TEXT = 4 << 20
#: How deep comments, brackets and expressions may stand in each other. WGSL's own limit for braces is 127.
MOST_DEPTH = 127

_BLANK = " \t\n\v\f\r\u0085\u200e\u200f\u2028\u2029"
_BREAKS = "\n\v\f\r\u0085\u2028\u2029"
_SKIP = re.compile(rf"[{_BLANK}]+|//[^{_BREAKS}]*")
_WORD = re.compile(rf"[^\W\d](?:\w|[^\x00-\x7f{_BLANK}])*")
_NUMBER = re.compile(
    r"0[xX](?:[0-9a-fA-F]*\.[0-9a-fA-F]+|[0-9a-fA-F]+\.[0-9a-fA-F]*)(?:[pP][+-]?\d+[fh]?)?"
    r"|0[xX][0-9a-fA-F]+[pP][+-]?\d+[fh]?"
    r"|0[xX][0-9a-fA-F]+[iu]?"
    r"|(?:\d*\.\d+|\d+\.\d*)(?:[eE][+-]?\d+)?(?:lf|[fh])?"
    r"|\d+[eE][+-]?\d+(?:lf|[fh])?"
    r"|\d+(?:li|lu|lf|[iufh])?"
)
_COMMENT = re.compile(r"/\*|\*/")
_SYMBOLS = frozenset("()[]{}<>,;:.@=!&|^~+-*/%")

WORD, NUMBER, SYMBOL, END = "word", "number", "symbol", "end"


class Token:
    """A token.

    Attributes
    ----------
    kind : str
        WORD, NUMBER, SYMBOL or END.
    text : str
        As in the source; "" at the end.
    at : int
        Where it begins in the text.
    template : bool
        Whether it is the ``<`` or the ``>`` of a template list.
    """

    __slots__ = ("at", "kind", "template", "text")

    def __init__(self, kind: str, text: str, at: int) -> None:
        self.kind, self.text, self.at = kind, text, at
        self.template = False


class Source:
    """A WGSL text with its name, for places in messages."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name

    def line(self, at: int) -> int:
        """The line of a place, from 1."""
        # Windows' line ends count once.
        return sum(1 for _ in re.finditer(rf"\r\n|[{_BREAKS}]", self.text[:at])) + 1

    def where(self, at: int) -> str:
        """A place in a message, as in ``blur.wgsl:12``."""
        return f"{self.name}:{self.line(at)}"

    def column(self, at: int) -> int:
        """The column of a place, from 1."""
        return at - max(self.text.rfind(mark, 0, at) for mark in _BREAKS)

    def wrong(self, at: int, text: str) -> CompileError:
        """The CompileError of a mistake; its log is the place, the text and the line of the source, as compilers print them."""
        column = self.column(at)
        start = at - column + 1
        shown = re.split(rf"[{_BREAKS}]", self.text[start : start + 500], maxsplit=1)[0].replace("\t", " ")
        log = f"{self.where(at)}:{column}: error: {text}\n  {shown}\n  {' ' * (column - 1)}^"
        return CompileError(f"the WGSL source is refused at {self.where(at)}:{column}: {text}", kind="webgpu", log=log)


def tokens(source: Source) -> list[Token]:
    """The tokens of a source; the last is END.

    Raises
    ------
    CompileError
        A comment does not end, or a character has no place in WGSL.
    """
    text = source.text
    if len(text) > MOST_TEXT:
        raise CompileError(f"the WGSL source {source.name} has {len(text)} characters; the most is {MOST_TEXT}", kind="webgpu")
    found: list[Token] = []
    at, end = 0, len(text)
    while at < end:
        skipped = _SKIP.match(text, at)
        if skipped:
            at = skipped.end()
            continue
        if text.startswith("/*", at):
            at = _comment(source, at)
            continue
        match = _WORD.match(text, at)
        if match and match.group().isidentifier():
            found.append(Token(WORD, match.group(), at))
        elif match := _NUMBER.match(text, at):
            behind = _WORD.match(text, match.end())
            if behind:
                raise source.wrong(at, f"{match.group() + behind.group()!r} is neither a number nor a name")
            found.append(Token(NUMBER, match.group(), at))
        elif text[at] in _SYMBOLS:
            found.append(Token(SYMBOL, text[at], at))
            at += 1
            continue
        else:
            raise source.wrong(at, f"the character {text[at]!r} has no meaning in WGSL{_hint(text[at])}")
        at = match.end()
    found.append(Token(END, "", end))
    _mark_templates(found)
    return found


def _hint(character: str) -> str:
    if character == "#":
        return ", which has no preprocessor; use const and override, and Function.specialize"
    return ""


def _comment(source: Source, start: int) -> int:
    """The end of a block comment; they stand in each other."""
    depth, at = 0, start
    while True:
        mark = _COMMENT.search(source.text, at)
        if mark is None:
            raise source.wrong(start, "the comment that begins here does not end")
        at = mark.end()
        depth += 1 if mark.group() == "/*" else -1
        if not depth:
            return at


def _mark_templates(found: list[Token]) -> None:
    """Mark the brackets of template lists, by the rules of the specification."""
    candidates: list[tuple[Token, int]] = []
    depth = 0
    at = 0
    while at < len(found) - 1:
        token, following = found[at], found[at + 1]
        joined = following.at == token.at + len(token.text)
        pair = token.text + following.text if joined else token.text
        if token.kind == WORD:
            if following.text == "<":
                at += 1
                third = found[at + 1]
                # "<<" and "<=" are operators.
                if third.at != following.at + 1 or third.text not in ("<", "="):
                    candidates.append((following, depth))
                else:
                    at += 1
        elif token.text == ">":
            if candidates and candidates[-1][1] == depth:
                candidates.pop()[0].template = token.template = True
            elif pair == ">=":
                at += 1
        elif token.text in ("(", "["):
            depth += 1
        elif token.text in (")", "]"):
            while candidates and candidates[-1][1] >= depth:
                candidates.pop()
            depth = max(0, depth - 1)
        elif pair in ("!=", "=="):
            at += 1
        elif token.text in ("=", ";", "{", ":"):
            depth = 0
            candidates.clear()
        elif pair in ("&&", "||"):
            while candidates and candidates[-1][1] >= depth:
                candidates.pop()
            at += 1
        at += 1
