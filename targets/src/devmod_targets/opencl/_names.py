"""Read the built-in functions of OpenCL C that a module of clang for SPIR-V, in LLVM IR text, calls without a definition."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from devmod_targets._text import split_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

_DECLARE = re.compile(
    r'^declare [^@\n]*?(?P<result><\d+ x \w+>|target\("[\w.]+"\)|\w+)(?: addrspace\(\d\))? @(?P<symbol>[\w.$]+)\(', re.MULTILINE
)
_NAME = re.compile(r"_Z(\d{1,3})")
_SPACE = re.compile(r"U3AS(\d)")
_ATTRIBUTE = re.compile(r"U7_Atomic|[rVK]")
_VECTOR = re.compile(r"Dv(\d{1,2})_")
_SEQUENCE = re.compile(r"S([0-9A-Z]?)_")
_BASES = {
    "v": "void",
    "b": "bool",
    "c": "char",
    "a": "char",
    "h": "uchar",
    "s": "short",
    "t": "ushort",
    "i": "int",
    "j": "uint",
    "l": "long",
    "m": "ulong",
    "f": "float",
    "d": "double",
    "Dh": "half",
}
_LLVM = {"i1": "bool", "i8": "char", "i16": "short", "i32": "int", "i64": "long", "half": "half", "float": "float", "double": "double"}
_RESULT = re.compile(r"<(\d+) x (\w+)>")
#: The keywords of the address spaces of SPIR-V.
_SPACES = {0: "private", 1: "global", 2: "constant", 3: "local", 4: "generic"}


class Type(NamedTuple):
    """A type of a parameter or a result.

    Parameters
    ----------
    base
        OpenCL C's name of the number, or of another type, such as "ocl_image2d_ro".
    lanes
        The number of its elements; 1 for a number.
    space
        The keyword of the address space of a pointer to it; "" if it is no pointer.
    atomic
        Whether it is a pointer to an atomic object.
    """

    base: str
    lanes: int = 1
    space: str = ""
    atomic: bool = False

    @property
    def spelling(self) -> str:
        """The type in OpenCL C, without the pointer."""
        return self.base + (str(self.lanes) if self.lanes > 1 else "")


class Builtin(NamedTuple):
    """A built-in function: its name, the types of its parameters and its result, and its symbol."""

    name: str
    params: tuple[Type, ...]
    result: Type
    symbol: str


class UnknownName(Exception):
    """The symbol is not that of a built-in function."""


def read_builtins(text: str) -> list[Builtin]:
    """Return the functions that a module declares and does not define, without LLVM's own.

    A function without a mangled name, such as printf, has no parameters in the result.
    """
    results = []
    for match in _DECLARE.finditer(text):
        symbol = match["symbol"]
        if symbol.startswith("llvm."):
            continue
        name, params = _parse(symbol, len(split_arguments(text, match.end()) or ()))
        vector = _RESULT.fullmatch(match["result"])
        result = Type(_LLVM[vector[2]], int(vector[1])) if vector else Type(_LLVM.get(match["result"], match["result"]))
        results.append(Builtin(name, params, result, symbol))
    return results


def rename(text: str, builtins: Sequence[Builtin]) -> tuple[str, list[Builtin]]:
    """Return a module with other symbols of built-in functions, and the functions with these symbols.

    LLVM knows OpenCL's symbols: for SPIR-V it compiles a call by its symbol, also if the function has a definition.
    """
    renamed = [each._replace(symbol=each.symbol.replace("_Z", "devmod_", 1)) for each in builtins]
    symbols = {old.symbol: new.symbol for old, new in zip(builtins, renamed, strict=True)}
    return re.sub(r"@(_Z[\w.$]+)(?=\()", lambda match: f"@{symbols.get(match[1], match[1])}", text), renamed


def _parse(symbol: str, count: int) -> tuple[str, tuple[Type, ...]]:
    start = _NAME.match(symbol)
    if not start:
        return symbol, ()
    at = start.end() + int(start[1])
    name = symbol[start.end() : at]
    params: list[Type] = []
    seen: list[Type] = []
    try:
        while at < len(symbol):
            at, type_ = _parse_type(symbol, at, seen)
            params.append(type_)
    except UnknownName:
        return name, ()
    params = [] if params == [Type("void")] else params
    return name, tuple(params) if len(params) == count else ()


def _parse_type(symbol: str, at: int, seen: list[Type], depth: int = 0) -> tuple[int, Type]:
    """Return the end of a type and the type. `seen` has the candidates of substitutions, in order."""
    if depth > 8:
        raise UnknownName
    for length in (2, 1):
        base = _BASES.get(symbol[at : at + length])
        if base:
            return at + length, Type(base)
    substitution, vector = _SEQUENCE.match(symbol, at), _VECTOR.match(symbol, at)
    if substitution:
        index = int(substitution[1], 36) + 1 if substitution[1] else 0
        if index >= len(seen):
            raise UnknownName
        return substitution.end(), seen[index]
    if vector:
        at, element = _parse_type(symbol, vector.end(), seen, depth + 1)
        result = element._replace(lanes=int(vector[1]))
    elif symbol[at : at + 1] == "P":
        is_plain = symbol[at + 1 : at + 2] not in ("U", "V", "K")
        at, target = _parse_type(symbol, at + 1, seen, depth + 1)
        if is_plain:
            seen.append(target)  # the type in its address space, which has no mark
        result = target._replace(space=target.space or _SPACES[0])
    elif symbol[at : at + 1].isdigit():
        number = re.match(r"\d{1,3}", symbol[at:])
        assert number is not None
        start = at + len(number[0])
        at = start + int(number[0])
        result = Type(symbol[start:at])
    else:
        # The qualifiers of a pointer's target are one candidate with it.
        space, atomic, first = "", False, at
        while match := _SPACE.match(symbol, at) or _ATTRIBUTE.match(symbol, at):
            space = _SPACES.get(int(match[1]), "") if match.re is _SPACE else space
            at = match.end()
            if match[0] == "U7_Atomic":
                atomic = True
                break
        if at == first:
            raise UnknownName
        at, target = _parse_type(symbol, at, seen, depth + 1)
        if atomic:
            seen.append(target)
        result = target._replace(space=space or target.space, atomic=atomic or target.atomic)
    seen.append(result)
    return at, result
