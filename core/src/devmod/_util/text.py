"""Text from files, compilers, drivers and plugins: escape its control characters, which a terminal would execute, and check names.

All characters that `str.isprintable` rejects are escaped, as in `repr`: control characters (C0, C1), line and paragraph
separators, bidirectional controls, lone surrogates. The escape is Python's: ``\\x1b``, ``\\u202e``.
"""

from __future__ import annotations

#: The largest length of a message, and the length of its end when it is cut.
_MAX_LENGTH, _END = 8000, 1000


def shorten(text: str) -> str:
    """Return `text`, cut in the middle if it is too long for a message. A name in a file may have megabytes."""
    if len(text) <= _MAX_LENGTH:
        return text
    return f"{text[: _MAX_LENGTH - _END]}… ({len(text)} characters) …{text[-_END:]}"


def escape(text: str) -> str:
    """Return `text` with control characters escaped, except newlines and tabs. ``\\r\\n`` becomes ``\\n``."""
    if text.isprintable():
        return text
    return "\n".join(map(_escaped_line, text.replace("\r\n", "\n").split("\n")))


def escape_line(text: str) -> str:
    """Return `text` on one line, with newlines and tabs escaped too."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _escape(char) for char in text)


def _escaped_line(line: str) -> str:
    if line.replace("\t", "").isprintable():
        return line
    return "".join(char if char == "\t" or char.isprintable() else _escape(char) for char in line)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


# -- names

_FIRST = frozenset("abcdefghijklmnopqrstuvwxyz")
_REST = _FIRST | frozenset("0123456789_")


def is_valid_name(name: object) -> bool:
    """Return whether `name`, of a kind or a format, is of the form ``[a-z][a-z0-9_]{0,31}``. Importing re takes longer than a look-up."""
    return isinstance(name, str) and 0 < len(name) <= 32 and name[0] in _FIRST and _REST.issuperset(name)
