"""The lines of a WGSL text, and of the user's files that a preprocessor made it of."""

from __future__ import annotations

#: The characters that end a line of WGSL.
LINE_BREAKS = "\n\v\f\r\u0085\u2028\u2029"


def line_marker(number: int, name: str) -> str:
    """Return the comment that gives the next line of a text the number and the name of the user's file, for messages."""
    printable = "".join(character if character.isprintable() and character != '"' else "?" for character in name)
    return f'//#line {number} "{printable}"\n'
