"""Constants of a source payload set where it is received: `Function.specialize` for kinds that a C preprocessor reads."""

from __future__ import annotations

import math
import re

from devmod.errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def specialize_source(kind: str, text: str, constants: Mapping[str, object]) -> str:
    """The source with ``#define`` lines for the constants, which take the place of those that the payload was made with.

    Line numbers stay as they were.

    Parameters
    ----------
    kind
        The kind, for messages.
    text
        A source payload as `devmod.compile` writes it.
    constants
        Name to value: an int, a float (written as a ``float`` literal), a bool, or the text of the define.

    Raises
    ------
    ArgumentError
        The source does not use a name, defines it itself in any case, or a value has no form in C.
    """
    lines = text.split("\n")
    head = 1 if lines[0].startswith("//devmod:") else 0
    own = head
    while own < len(lines) and lines[own].startswith("#define ") and not lines[own].rstrip().endswith("\\"):
        own += 1
    body = _LITERAL.sub(" ", "\n".join(lines[own:]))
    words = set(_NAME.findall(body))
    for name in constants:
        if not _NAME.fullmatch(name) or name not in words:
            raise ArgumentError(f"the {kind} source has no constant {name!r} to specialize", kind=kind, argument=name)
        defined = re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b", body, re.MULTILINE)
        guarded = re.search(rf"^[ \t]*#[ \t]*(ifndef[ \t]+{name}\b|if\b.*\bdefined\b.*\b{name}\b)", body, re.MULTILINE)
        if defined and not guarded:
            raise ArgumentError(
                f"the {kind} source defines {name!r} itself in any case, so it cannot be specialized; "
                f"write #ifndef {name} round its #define",
                kind=kind,
                argument=name,
            )
    kept = ["" if _defined_by(line) in constants else line for line in lines[head:own]]
    made = [f"#define {name} {_literal(kind, name, value)}" for name, value in constants.items()]
    return "\n".join([*lines[:head], *made, f"#line {head + 1}", *kept, *lines[own:]])


def _defined_by(line: str) -> str:
    found = _NAME.match(line, len("#define "))
    return found.group() if found else ""


def _literal(kind: str, name: str, value: object) -> str:
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
        f"the constant {name!r} of the {kind} source cannot be {value!r}: it is an int, a float, a bool, or the text of a define",
        kind=kind,
        argument=name,
    )
