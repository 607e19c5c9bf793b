"""Read the built-in functions of OpenCL C that a module of clang for SPIR-V, in LLVM IR text, calls
without a definition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from devmod_targets._text import split_arguments
from devmod_targets.authoring._mangled import Parser, TypeNode, UnsupportedName

_DECLARE = re.compile(
    r'^declare [^@\n]*?(?P<result><\d+ x \w+>|target\("[\w.]+"\)|\w+)(?: addrspace\(\d\))? @(?P<symbol>[\w.$]+)\(',
    re.MULTILINE,
)
_NAME = re.compile(r"_Z(\d{1,3})")
#: The qualifiers of a pointer's target, which are one candidate with it.
_QUALIFIERS = re.compile(r"(?:U3AS\d|[rVK])*(?:U7_Atomic)?")
_LANES = re.compile(r"\d{1,2}")
#: The types whose names in OpenCL C differ from those in C++.
_BASES = {"signed char": "char"} | {
    f"unsigned {each}": f"u{each}" for each in ("char", "short", "int", "long")
}
_LLVM = {
    "i1": "bool",
    "i8": "char",
    "i16": "short",
    "i32": "int",
    "i64": "long",
    "half": "half",
    "float": "float",
    "double": "double",
}
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
        if self.lanes == 1:
            return self.base
        return f"{self.base}{self.lanes}"


Types = tuple[Type, ...]


class Builtin(NamedTuple):
    """A built-in function: its name, the types of its parameters and its result, and its symbol."""

    name: str
    params: Types
    result: Type
    symbol: str


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
        result = Type(_LLVM.get(match["result"], match["result"]))
        vector = _RESULT.fullmatch(match["result"])
        if vector:
            result = Type(_LLVM[vector[2]], int(vector[1]))
        results.append(Builtin(name, params, result, symbol))
    return results


def rename(text: str, builtins: Sequence[Builtin]) -> tuple[str, list[Builtin]]:
    """Return a module with other symbols of built-in functions, and the functions with these
    symbols.

    LLVM knows OpenCL's symbols: for SPIR-V it compiles a call by its symbol, also if the function
    has a definition.
    """
    renamed = [each._replace(symbol=each.symbol.replace("_Z", "devmod_", 1)) for each in builtins]
    symbols = {old.symbol: new.symbol for old, new in zip(builtins, renamed, strict=True)}
    text = re.sub(r"@(_Z[\w.$]+)(?=\()", lambda match: f"@{symbols.get(match[1], match[1])}", text)
    return text, renamed


def _parse(symbol: str, count: int) -> tuple[str, Types]:
    start = _NAME.match(symbol)
    if not start:
        return symbol, ()
    at = start.end() + int(start[1])
    params: Types = ()
    with suppress(UnsupportedName):
        params = _Parser(symbol, at).types()
    if len(params) != count:
        params = ()
    return symbol[start.end() : at], params


class _Parser(Parser):
    """Parses the types of a function of OpenCL C."""

    def types(self) -> Types:
        """Return the types from here to the end of the symbol."""
        nodes = self._params(end="")
        if self.at < len(self.text):
            raise UnsupportedName
        return tuple(map(_type_of, nodes))

    def _type_inside(self) -> TypeNode:
        if self.take("Dh"):
            return TypeNode("builtin", "half")
        if self.take("Dv"):
            lanes = self._match(_LANES)
            self._expect("_")
            return self._candidate(TypeNode("vector", lanes, self._type()))
        if self.take("P"):
            is_plain = not any(map(self._peek, "UVK"))
            target = self._type()
            if is_plain:
                self._add(target)  # the type in its address space, which has no mark
            return self._candidate(TypeNode("pointer", target=target))
        if qualifiers := self._match(_QUALIFIERS):
            target = self._type()
            if qualifiers.endswith("c"):  # an atomic type
                self._add(target)
            return self._candidate(TypeNode("qualified", qualifiers, target))
        return super()._type_inside()


def _type_of(node: TypeNode) -> Type:
    if node.target is None:
        return Type(_BASES.get(node.text, node.text))
    target = _type_of(node.target)
    if node.kind == "vector":
        return target._replace(lanes=int(node.text))
    if node.kind == "pointer":
        return target._replace(space=target.space or _SPACES[0])
    space = target.space
    spaces = re.findall(r"AS(\d)", node.text)
    if spaces:
        space = _SPACES.get(int(spaces[-1])) or space
    return target._replace(space=space, atomic="Atomic" in node.text or target.atomic)
