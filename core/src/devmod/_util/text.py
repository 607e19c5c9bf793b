"""Text from files, compilers, drivers and plugins: escape what a terminal or a CI runner would
execute, and check names.

All characters that `str.isprintable` rejects are escaped, as in `repr`: control characters (C0,
C1), line and paragraph separators, bidirectional controls, lone surrogates. The escape is Python's:
``\\x1b``, ``\\u202e``.

A CI runner executes commands in the lines of a job's log: ``::name …::`` after blanks (GitHub), and
``##[name]``, ``##vso[name]`` and ``##teamcity[name]`` anywhere. The escapes ``\\x3a:`` and
``\\x23\\x23[`` replace their marks, in any environment: a container in a job does not have the
job's variables.
"""

from __future__ import annotations

#: The largest length of a message, and the length of its end when it is cut.
_MAX_LENGTH = 8000
_END = 1000
#: What begins a command of a CI runner within a line.
_COMMANDS = ("##[", "##vso[", "##teamcity[")

_FIRST = frozenset("abcdefghijklmnopqrstuvwxyz")
_REST = _FIRST | frozenset("0123456789_")
#: The most characters of a kind or a format.
MAX_NAME = 32


def shorten(text: str) -> str:
    """Return `text`, cut in the middle if it is too long for a message. A name in a file may have
    megabytes.
    """
    if len(text) <= _MAX_LENGTH:
        return text
    return f"{text[: _MAX_LENGTH - _END]}… ({len(text)} characters) …{text[-_END:]}"


def shorten_repeat(text: str, seen: set[str]) -> str:
    """Return "as above" for a text in `seen`; else the text, which is in `seen` from then on."""
    if text in seen:
        return "as above"
    seen.add(text)
    return text


def escape(text: str) -> str:
    """Return `text` with control characters and commands escaped, except newlines and tabs.
    ``\\r\\n`` becomes ``\\n``.
    """
    if text.isprintable():
        return _without_command(text)
    return "\n".join(map(_escaped_line, text.replace("\r\n", "\n").split("\n")))


def escape_line(text: str) -> str:
    """Return `text` on one line, with newlines and tabs escaped too."""
    if not text.isprintable():
        text = _escaped(text)
    return _without_command(text)


def _escaped_line(line: str) -> str:
    if not line.replace("\t", "").isprintable():
        line = "\t".join(map(_escaped, line.split("\t")))
    return _without_command(line)


def has_command(line: str) -> bool:
    """Return whether a line contains the mark ``##[``, or another one, of a command that a CI
    runner executes.
    """
    return "#" in line and any(each in _compared(line) for each in _COMMANDS)


def _without_command(line: str) -> str:
    if ":" in line and _compared(line).lstrip().startswith("::"):
        line = line.replace(":", r"\x3a", 1)
    if has_command(line):
        line = line.replace("#", r"\x23")
    return line


def _compared(line: str) -> str:
    """Return the characters that a runner compares: the comparison of .NET ignores some that are
    not ASCII, such as U+034F.
    """
    if line.isascii():
        return line
    return line.encode("ascii", "ignore").decode()


def _escaped(text: str) -> str:
    """Return `text` with the escapes of `repr`, which is fast. It also escapes backslashes and
    quotes, so these are left out.
    """
    pieces = []
    for each in text.split("\\"):
        pieces.append("'".join(repr(part)[1:-1] for part in each.split("'")))
    return "\\".join(pieces)


# -- names


def is_valid_name(name: object) -> bool:
    """Return whether `name`, of a kind or a format, is of the form ``[a-z][a-z0-9_]{0,31}``.
    Importing re takes longer than a look-up.
    """
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        return False
    return name[0] in _FIRST and _REST.issuperset(name)


def is_number(text: str, digits: int) -> bool:
    """Return whether a text is a decimal number of up to `digits` digits. `int` also takes signs,
    white space, underscores, and the digits of other scripts.
    """
    return text.isascii() and text.isdigit() and len(text) <= digits


def lower_case_hint(name: object) -> str:
    """Return the end of a message with an invalid name in lower case, if that is a valid one: ``.
    Did you mean 'opencl'?``.
    """
    if not isinstance(name, str) or not is_valid_name(name.lower()):
        return ""
    return f". Did you mean {name.lower()!r}?"


def duration_text(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
