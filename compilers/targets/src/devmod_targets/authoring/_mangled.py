"""Parse the mangled names of kernels. The Itanium C++ ABI defines them ("Mangling"); this module
parses the parts that kernels have.

A mangled name contains the qualified name and the types of all parameters, as the real compiler
resolved them. It has no top-level const, no ``__restrict__`` of a parameter, and no sizes of
structs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

_Item = TypeVar("_Item")


#: The builtin types: C++'s name, and the type of devmod on a GPU ("" if it has none).
BUILTINS = {
    "v": ("void", ""),
    "w": ("wchar_t", "int32"),
    "b": ("bool", "bool"),
    "c": ("char", "int8"),
    "a": ("signed char", "int8"),
    "h": ("unsigned char", "uint8"),
    "s": ("short", "int16"),
    "t": ("unsigned short", "uint16"),
    "i": ("int", "int32"),
    "j": ("unsigned int", "uint32"),
    "l": ("long", "int64"),
    "m": ("unsigned long", "uint64"),
    "x": ("long long", "int64"),
    "y": ("unsigned long long", "uint64"),
    "n": ("__int128", ""),
    "o": ("unsigned __int128", ""),
    "f": ("float", "float32"),
    "d": ("double", "float64"),
    "e": ("long double", "float64"),
    "g": ("__float128", ""),
    "Ds": ("char16_t", "uint16"),
    "Di": ("char32_t", "uint32"),
    "Du": ("char8_t", "uint8"),
    "Dn": ("std::nullptr_t", ""),
    "DF16_": ("_Float16", "float16"),
    "DF16b": ("__bf16", "bfloat16"),
}
_STANDARD = {"St": "std", "Sa": "std::allocator", "Ss": "std::string"}
_POINTERS = {"P": "pointer", "R": "reference", "O": "reference"}
_BUILTIN = re.compile("|".join(BUILTINS))
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_SEQUENCE = re.compile(r"[0-9A-Z]{0,6}_", re.ASCII)
_LITERAL = re.compile(r"n?\d{0,20}", re.ASCII)
_LENGTH = re.compile(r"\d{0,9}", re.ASCII)
_QUALIFIERS = re.compile("[rVK]*")
#: The limit on the characters of a name. Longer names have unknown types.
_MAX_NAME = 1 << 16

#: The limit on the nesting of types, and on the characters of a spelling. Substitutions would
#: otherwise grow it beyond any bound.
MAX_DEPTH = 64
MAX_TEXT = 1 << 16


class MangledName(NamedTuple):
    """The qualified name and the types of the parameters of a function."""

    name: str
    params: tuple[TypeNode, ...]

    def signature(self) -> str:
        """Return the name with the types of the parameters, as in an overload set."""
        return f"{self.name}({', '.join(param.spelling() for param in self.params)})"


def parse_function(symbol: str) -> MangledName | None:
    """Return the parts of a function's mangled name; None if it is not one or has a part that
    kernels do not have.
    """
    if not symbol.startswith("_Z") or len(symbol) > _MAX_NAME:
        return None
    try:
        result = Parser(symbol, 2).function()
        result.signature()
    except (UnsupportedName, RecursionError):
        return None
    return result


def parse_signature(symbol: str) -> tuple[TypeNode, ...] | None:
    """Return the types of the parameters in ``variable<void (A, B)>``; None if the mangled name has
    another form.
    """
    match = re.match(r"_Z(\d{1,3})", symbol)
    if match is None or len(symbol) > _MAX_NAME:
        return None
    start = match.end() + int(match[1])
    if symbol[start : start + 1] != "I":
        return None
    try:
        parser = Parser(symbol, start + 1, substitutions=1)
        parser.take("P")
        return parser.function_params()
    except (UnsupportedName, RecursionError):
        return None


class Parser:
    """Parses one mangled name. A subclass may add types."""

    def __init__(self, text: str, at: int, substitutions: int = 0) -> None:
        self.text = text
        self.at = at
        self._depth = 0
        #: The substitution candidates: names of scopes and templates as text, types as nodes.
        self._candidates: list[str | TypeNode] = [""] * substitutions
        self._arguments: Sequence[TypeNode] = ()
        self._size = 0

    # -- characters

    def _peek(self, mark: str) -> bool:
        return self.text.startswith(mark, self.at)

    def take(self, mark: str) -> bool:
        if self._peek(mark):
            self.at += len(mark)
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self.take(mark):
            raise UnsupportedName

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise UnsupportedName
        self.at = match.end()
        return match[0]

    def _add(self, candidate: str | TypeNode) -> None:
        self._size += len(candidate) if isinstance(candidate, str) else 1
        if self._size > MAX_TEXT:
            raise UnsupportedName
        self._candidates.append(candidate)

    # -- functions

    def function(self) -> MangledName:
        name, arguments = self._name()
        if arguments is not None:
            self._arguments = arguments
            self._type()  # a template has its return type
        params = self._params(end="")
        # A suffix after a dot marks a clone of the function.
        if self.at < len(self.text) and self.text[self.at] != ".":
            raise UnsupportedName
        return MangledName(name, params)

    def function_params(self) -> tuple[TypeNode, ...]:
        """Return the parameters of a function type."""
        self._expect("F")
        self.take("Y")
        self._type()
        return self._params(end="E")

    def _params(self, end: str) -> tuple[TypeNode, ...]:
        params: list[TypeNode] = []
        while self.at < len(self.text) and self.text[self.at] != ".":
            if end and self._peek(end):
                break
            param = self._type()
            if param.kind == "pack":
                params += param.items
            else:
                params.append(param)
        if end:
            self._expect(end)
        if len(params) == 1 and params[0].kind == "builtin" and params[0].text == "void":
            return ()
        return tuple(params)

    # -- names

    def _name(self) -> tuple[str, Sequence[TypeNode] | None]:
        """Return a name, and its template arguments if it has some."""
        if self.take("N"):
            self._match(_QUALIFIERS)
            return self._nested()
        if self.take("Z"):  # what a function contains
            self._enter()
            outer = self._encoded()
            name = f"{outer.name}({self._spelled(outer.params)})::{self._unqualified()}"
            self._depth -= 1
        elif self.take("St"):
            name = "std::" + self._unqualified()
        elif self._peek("S"):
            candidate = self._substitution()
            if not isinstance(candidate, str):
                raise UnsupportedName
            name = candidate
            if not self._peek("I"):
                raise UnsupportedName
            text, arguments = self._template_arguments()
            return name + text, arguments
        else:
            name = self._unqualified()
        if self._peek("I"):
            self._add(name)
            text, arguments = self._template_arguments()
            return name + text, arguments
        return name, None

    def _nested(self) -> tuple[str, Sequence[TypeNode] | None]:
        name = ""
        arguments: Sequence[TypeNode] | None = None
        count = 0
        while not self.take("E"):
            count += 1
            if self._peek("I"):
                text, arguments = self._template_arguments()
                name += text
            elif self._peek("S"):
                if name:
                    raise UnsupportedName
                candidate = self._substitution()
                name = candidate if isinstance(candidate, str) else candidate.text
                continue
            else:
                part = self._unqualified()
                arguments = None
                name = f"{name}::{part}" if name and part else name or part
            if not self._peek("E"):
                self._add(name)
        if not count or not name:
            raise UnsupportedName
        return name, arguments

    def _unqualified(self) -> str:
        """Return an identifier; "" for an anonymous namespace, and for the one into which nvcc puts
        what is static.
        """
        if self.take("Ul"):
            return self._lambda()
        self.take("L")  # internal linkage
        length = int(self._match(_NUMBER))
        name = self.text[self.at : self.at + length]
        if not length or len(name) < length:
            raise UnsupportedName
        self.at += length
        while self.take("B"):  # ABI tags
            self.at += int(self._match(_NUMBER))
        if name.startswith(("_GLOBAL__N_", "_INTERNAL_")):
            return ""
        return name

    def _lambda(self) -> str:
        """Return the type of a lambda, as ``{lambda(int)#1}``."""
        types = self._spelled(self._params(end="E"))
        digits = self._match(_LENGTH)
        self._expect("_")
        number = int(digits) + 2 if digits else 1
        return f"{{lambda({types})#{number}}}"

    def _spelled(self, params: Iterable[TypeNode]) -> str:
        types = []
        for param in params:
            types.append(param.spelling())
            self._size += len(types[-1])
            if self._size > MAX_TEXT:
                raise UnsupportedName
        return ", ".join(types)

    def _template_arguments(self) -> tuple[str, list[TypeNode]]:
        self._enter()
        self._expect("I")
        arguments = self._template_argument_list()
        self._depth -= 1
        return f"<{', '.join(argument.spelling() for argument in arguments)}>", arguments

    def _template_argument_list(self) -> list[TypeNode]:
        arguments = []
        while not self.take("E"):
            arguments.append(self._template_argument())
        return arguments

    def _template_argument(self) -> TypeNode:
        if self.take("J"):
            return TypeNode("pack", items=self._template_argument_list())
        # An expression: the address of a function, or another argument of the same template.
        if self.take("X"):
            if self.take("T"):
                argument = self._numbered(self._arguments)
            else:
                self._expect("adL_Z")
                argument = TypeNode("builtin", f"&{self._encoded().name}")
            self._expect("E")
            return argument
        if self.take("L"):
            if self.take("_Z"):
                return TypeNode("builtin", self._encoded().name)
            type_ = self._type()
            value = self._match(_LITERAL).replace("n", "-")
            self._expect("E")
            if type_.text == "bool":
                value = "true" if value.removeprefix("-") == "1" else "false"
            elif type_.kind != "builtin":
                value = f"({type_.spelling()}){value}"
            return TypeNode("builtin", value)
        return self._type()

    def _encoded(self) -> MangledName:
        """Return a function or a variable, up to the end of its encoding in a template argument."""
        outer = self._arguments
        name, arguments = self._name()
        if arguments is not None and not self._peek("E"):
            self._arguments = arguments
            self._type()
        params = self._params(end="E")
        self._arguments = outer
        return MangledName(name, params)

    # -- types

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnsupportedName

    def _type(self) -> TypeNode:
        self._enter()
        result = self._type_inside()
        self._depth -= 1
        return result

    def _type_inside(self) -> TypeNode:
        builtin = _BUILTIN.match(self.text, self.at)
        if builtin is not None:
            self.at = builtin.end()
            return TypeNode("builtin", BUILTINS[builtin[0]][0])
        if self.take("Dp"):
            return self._type()  # a pack, whose items are expanded already
        if self._peek("S") and not self._peek("St"):
            candidate = self._substitution()
            if self._peek("I") and isinstance(candidate, str):
                return self._named(candidate + self._template_arguments()[0])
            if isinstance(candidate, TypeNode):
                return candidate
            return TypeNode("name", candidate)
        qualifiers = self._match(_QUALIFIERS)
        if qualifiers:
            type_ = self._type()
            if "K" in qualifiers:
                type_ = _over(type_, lambda of: of._replace(const=True))
            return self._candidate(type_)
        kind = _POINTERS.get(self.text[self.at : self.at + 1])
        if kind is not None:
            self.at += 1
            return self._candidate(_over(self._type(), lambda of: TypeNode(kind, target=of)))
        if self._peek("F"):
            self.function_params()
            return self._candidate(TypeNode("function"))
        if self.take("A"):
            length = self._match(_LENGTH)
            self._expect("_")
            return self._candidate(TypeNode("array", length, self._type()))
        if self.take("T"):
            return self._candidate(self._numbered(self._arguments))
        if self.take("C"):
            return self._candidate(TypeNode("builtin", f"_Complex {self._type().spelling()}"))
        return self._named(self._name()[0])

    def _named(self, name: str) -> TypeNode:
        return self._candidate(TypeNode("name", name))

    def _candidate(self, node: TypeNode) -> TypeNode:
        self._add(node)
        return node

    def _numbered(self, items: Sequence[_Item]) -> _Item:
        """Return the item whose number follows: ``_`` is the first, ``0_`` the second."""
        digits = self._match(_SEQUENCE)[:-1]
        index = int(digits, 36) + 1 if digits else 0
        if index >= len(items):
            raise UnsupportedName
        return items[index]

    def _substitution(self) -> str | TypeNode:
        for mark, name in _STANDARD.items():
            if self.take(mark):
                return name
        self._expect("S")
        return self._numbered(self._candidates)


def _over(node: TypeNode, change: Callable[[TypeNode], TypeNode]) -> TypeNode:
    """Apply a change to a type, or to each type of a pack."""
    if node.kind != "pack":
        return change(node)
    return TypeNode("pack", items=[change(item) for item in node.items])


# -- A type in a mangled name.


class UnsupportedName(Exception):
    """The name has a part that kernels do not have, or it is invalid."""


class TypeNode(NamedTuple):
    """A type in a mangled name.

    Parameters
    ----------
    kind
        "builtin", "name", "pointer", "reference", "array", "function", or "pack" for the types of a
        parameter pack.
    text
        The spelling of a builtin, or the qualified name of a class or enum.
    target
        The type behind a pointer or reference, or of an array's elements.
    const
        Whether the type is const.
    items
        The types of a pack.
    """

    kind: str
    text: str = ""
    target: TypeNode | None = None
    const: bool = False
    items: Sequence[TypeNode] = ()

    def spelling(self, depth: int = 0) -> str:
        """Return the type as in C++."""
        if depth > MAX_DEPTH:
            raise UnsupportedName
        const = "const " if self.const else ""
        if self.kind in ("pointer", "reference") and self.target is not None:
            text = self.target.spelling(depth + 1)
            text += "*" if self.kind == "pointer" else "&"
            if self.const:
                text += " const"
        elif self.kind == "array" and self.target is not None:
            text = f"{const}{self.target.spelling(depth + 1)}[{self.text}]"
        elif self.kind == "pack":
            text = ", ".join(item.spelling(depth + 1) for item in self.items)
        else:
            text = const + (self.text or "function")
        if len(text) > MAX_TEXT:
            raise UnsupportedName
        return text
