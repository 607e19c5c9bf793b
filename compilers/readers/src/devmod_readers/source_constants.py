"""Constants of a source payload with a C preprocessor, which the receiver sets.

`devmod.compile` checks with the same code that the receiver can set them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from devmod.errors import ArgumentError, did_you_mean, list_names

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def specialize_source(
    kind: str, text: str, constants: Mapping[str, object], others: Iterable[str] = ()
) -> str:
    """Return the source with ``#define`` lines for the constants. They replace those with which the
    payload was compiled.

    Line numbers do not change.

    Parameters
    ----------
    kind
        The kind, for messages.
    text
        A source payload as `devmod.compile` writes it.
    constants
        Name to value: an int, a float (written as a ``float`` literal), a bool, or the text of the
        define.
    others
        Further constants of the function, for messages.

    Raises
    ------
    ArgumentError
        The source does not use a name or defines it unconditionally, or a value cannot be written
        in C.
    """
    lines, first_define, body_start = _split(text)
    body = _body(text)
    words = {*_NAME.findall(body), *source_constants(text)}
    for name in constants:
        if not _NAME.fullmatch(name) or name not in words:
            known = [*others, *source_constants(text)]
            text = f"has no constant {name!r} to specialize; it has: {list_names(known)}{did_you_mean(name, known)}"
            raise ArgumentError(f"the {kind} source {text}", kind=kind, argument=name)
        defined = re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b", body, re.MULTILINE)
        guarded = re.search(
            rf"^[ \t]*#[ \t]*(ifndef[ \t]+{name}\b|if\b.*\bdefined\b.*\b{name}\b)",
            body,
            re.MULTILINE,
        )
        if defined and not guarded:
            text = f"defines {name!r} unconditionally, so it cannot be specialized; write #ifndef {name} around its #define"
            raise ArgumentError(f"the {kind} source {text}", kind=kind, argument=name)
    old_defines = lines[first_define:body_start]
    for number, line in enumerate(old_defines):
        if _defined_name(line) in constants:
            old_defines[number] = ""
    new_defines = [
        f"#define {name} {source_literal(kind, name, value)}" for name, value in constants.items()
    ]
    return "\n".join(
        [
            *lines[:first_define],
            *new_defines,
            f"#line {first_define + 1}",
            *old_defines,
            *lines[body_start:],
        ]
    )


def source_constants(text: str) -> list[str]:
    """Return the names that a source payload was compiled with or tests in a condition.
    `specialize_source` accepts all of them.

    A macro that the source only uses is not included, since it looks like any other identifier.
    """
    lines, first_define, body_start = _split(text)
    conditions = re.findall(r"^[ \t]*#[ \t]*(?:el)?if(?:n?def)?\b(.*)", _body(text), re.MULTILINE)
    names = dict.fromkeys(_defined_name(line) for line in lines[first_define:body_start])
    names |= dict.fromkeys(_NAME.findall(" ".join(conditions)))
    names.pop("defined", None)
    # Names with two leading underscores are the compiler's, and names with cl_ are OpenCL's
    # extensions.
    return [name for name in names if not name.startswith(("__", "cl_"))]


def unused_constants(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that a source payload does not use."""
    words = set(_NAME.findall(_body(text)))
    return [name for name in names if name not in words]


def _body(text: str) -> str:
    """Return a source payload without comments, strings, and the defines with which it was
    compiled.
    """
    lines, _, start = _split(text)
    return _LITERAL.sub(" ", "\n".join(lines[start:]))


def _split(text: str) -> tuple[list[str], int, int]:
    """Return the lines of a source payload, and the begin and end of the defines with which it was
    compiled.
    """
    lines = text.split("\n")
    begin = 0
    if lines[0].startswith("//devmod:"):
        begin = 1
    end = begin
    while (
        end < len(lines)
        and lines[end].startswith("#define ")
        and not lines[end].rstrip().endswith("\\")
    ):
        end += 1
    return lines, begin, end


def _defined_name(line: str) -> str:
    match = _NAME.match(line, len("#define "))
    if match is None:
        return ""
    return match.group()


def source_literal(kind: str, name: str, value: object) -> str:
    """Return the text of a constant in C. Raise ArgumentError for a value that has none."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str):
        if value.isprintable() and "\\" not in value:
            return value
    elif hasattr(value, "__index__"):
        return str(value.__index__())
    elif hasattr(value, "__float__"):
        number = float(value)
        if math.isnan(number):
            return "NAN"
        if math.isinf(number):
            return "INFINITY" if number > 0 else "(-INFINITY)"
        return f"{number!r}f"
    raise ArgumentError(
        f"the constant {name!r} of the {kind} source cannot be {value!r}: expected an int, a float, a bool, or the text of a define",
        kind=kind,
        argument=name,
    )
