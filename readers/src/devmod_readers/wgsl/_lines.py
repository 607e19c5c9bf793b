"""The names and the lines of a WGSL text, and of the user's files that a preprocessor made it of."""

from __future__ import annotations

#: The characters that end a line of WGSL.
LINE_BREAKS = "\n\v\f\r\u0085\u2028\u2029"
BLANKS = f" \t\u200e\u200f{LINE_BREAKS}"
#: The pattern of a name. A combining character may follow its first one.
NAME = rf"[^\W\d](?:\w|[^\x00-\x7f{BLANKS}])*"


def line_marker(number: int, name: str) -> str:
    """Return the comment that gives the next line of a text the number and the name of the user's file, for messages."""
    printable = "".join(character if character.isprintable() and character != '"' else "?" for character in name)
    return f'//#line {number} "{printable}"\n'
