"""Find the names of a kernel's parameters in the text, where libclang does not parse its declaration."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_BRACKET = re.compile(r"[()\[\]{}<>,;=]")
_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*\Z")
_PAIRS = {")": "(", "]": "[", "}": "{", ">": "<"}
#: The limits on the declarations of one name, and on the characters of one.
_MAX_DECLARATIONS, _MAX_LENGTH = 64, 1 << 14


def parameter_names(text: str, expression: str) -> list[str]:
    """Return the names of the parameters of a kernel; [] if the text has no declaration that this function parses.

    Parameters
    ----------
    text
        The program.
    expression
        The kernel's qualified name, with template arguments where there are any.
    """
    name = expression.partition("<")[0].rpartition("::")[2].strip(" &(")
    if not name.isidentifier():
        return []
    for number, match in enumerate(re.finditer(rf"\b__global__\b[^;{{}}]{{0,400}}?\b{name}\s*\(", text)):
        if number == _MAX_DECLARATIONS:
            break
        pieces = _pieces(_COMMENT.sub(" ", text[match.end() : match.end() + _MAX_LENGTH]))
        names = [found[1] for piece in pieces or () if (found := _NAME.search(piece.partition("=")[0].rstrip())) is not None]
        if pieces is not None and len(names) == len(pieces) == len({*names}):
            return names
    return []


def _pieces(text: str) -> list[str] | None:
    """Return the texts between the commas up to the parenthesis that closes; None if the brackets do not match."""
    pieces: list[str] = []
    depth: list[str] = []
    start = 0
    for mark in _BRACKET.finditer(text):
        bracket = mark[0]
        if bracket == "," and not depth:
            pieces.append(text[start : mark.start()])
            start = mark.end()
        elif bracket in "([{<":
            depth.append(bracket)
        elif bracket in _PAIRS:
            if not depth:
                return [*pieces, text[start : mark.start()]] if bracket == ")" and text[: mark.start()].strip() else None
            if depth.pop() != _PAIRS[bracket]:
                return None
        elif bracket == ";":
            return None
    return None
