"""The names and the lines of a WGSL text, and of the user's files that a preprocessor made it
of.
"""

from __future__ import annotations

import re

#: The characters that end a line of WGSL.
LINE_BREAKS = "\n\v\f\r\u0085\u2028\u2029"
BLANKS = f" \t\u200e\u200f{LINE_BREAKS}"
#: The pattern of a name. A combining character may follow its first one.
NAME = rf"[^\W\d](?:\w|[^\x00-\x7f{BLANKS}])*"
_COMMENT = re.compile(r"/\*|\*/")


def end_of_comment(text: str, at: int) -> int:
    """Return the end of the block comment at a position; 0 if it has none. Block comments nest."""
    depth = 0
    for mark in _COMMENT.finditer(text, at):
        if mark[0] == "/*":
            depth += 1
        else:
            depth -= 1
        if not depth:
            return mark.end()
    return 0


def line_marker(number: int, name: str) -> str:
    """Return the comment that gives the next line of a text the number and the name of the user's
    file, for messages.
    """
    printable = ""
    for character in name:
        if not character.isprintable() or character == '"':
            character = "?"
        printable += character
    return f'//#line {number} "{printable}"\n'
