"""Read the signatures of kernels in LLVM IR text. The binary of the same module has the sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from devmod import Param
from devmod.backend import array_bytes, parse_dtype
from devmod_readers.c_numbers import bytes_type
from devmod_readers.reflection import ReflectedFunction
from devmod_readers.uses import users_of
from devmod_targets._text import split_arguments
from devmod_targets.authoring import CompileRequest

#: The size and the alignment of each argument in the binary, and the fixed block of threads.
BinaryKernel = tuple[Sequence[tuple[int, int]], tuple[int, int, int] | None]

_SYMBOL = r'@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[-\w$.]+))'
_GLOBAL = re.compile(_SYMBOL)
_DEFINE = re.compile(rf"^define\b[^@\n]*{_SYMBOL}\(", re.MULTILINE)
_DYNAMIC_SHARED = re.compile(
    rf"^{_SYMBOL} = external [^\n]*\baddrspace\(3\) global \[0 x ", re.MULTILINE
)
_TYPES = {
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "half": "float16",
    "bfloat": "bfloat16",
    "float": "float32",
    "double": "float64",
}
_VECTOR = re.compile(r"<(\d+) x (\w+)>")
_NAME = re.compile(r'%(?:"([^"]+)"|([A-Za-z_][\w.]*))\s*$')


def ir_kernels(
    request: CompileRequest, text: str, kernels: Mapping[str, BinaryKernel]
) -> dict[str, ReflectedFunction]:
    """Return the kernels of a binary by symbol, with the types that their definitions in the IR
    have.

    IR has no unsigned integers: an integer is signed unless the declared fmap has an unsigned one
    of its size. The element type of a pointer is unknown.
    """
    definitions = {_symbol(match): match for match in _DEFINE.finditer(text)}
    declared = {name: info.arg_types for name, info in request.declared.items()}
    results = {}
    for symbol, (places, block) in kernels.items():
        arguments: Sequence[str] = ()
        line = 1
        match = definitions.get(symbol)
        if match is not None:
            arguments = split_arguments(text, match.end()) or ()
            line += text.count("\n", 0, match.start())
        hints: Sequence[str] = declared.get(symbol, ())
        unknown = [""] * len(places)
        if len(arguments) != len(places):
            arguments = unknown
        if len(hints) != len(places):
            hints = unknown

        types = []
        params = []
        for argument, place, hint in zip(arguments, places, hints, strict=True):
            type_, param = _argument(argument, place, hint)
            types.append(type_)
            params.append(param)
        results[symbol] = ReflectedFunction(symbol, types, params, block, f"{request.name}:{line}")
    return results


def _symbol(match: re.Match[str]) -> str:
    return match["quoted"] or match["plain"]


def dynamic_shared_kernels(text: str) -> set[str]:
    """Return the functions of a module in LLVM IR text that use shared memory whose size the launch
    defines (``extern __shared__``).
    """
    variables = {_symbol(match) for match in _DYNAMIC_SHARED.finditer(text)}
    if not variables:
        return set()
    identifiers = {}
    for definition in _DEFINE.finditer(text):
        end = text.find("\n}", definition.end())
        if end < 0:
            end = len(text)
        body = _GLOBAL.finditer(text, definition.end(), end)
        identifiers[_symbol(definition)] = {_symbol(match) for match in body}
    return users_of(variables, identifiers)


def _argument(argument: str, place: tuple[int, int], declared: str) -> tuple[str, Param]:
    """Return the type for arg_types and the param of one argument; "" for an unknown type."""
    name = ""
    match = _NAME.search(argument)
    if match is not None:
        name = match[1] or match[2]
    size, align = place
    if argument.startswith("ptr") and "byval(" not in argument and "byref(" not in argument:
        return "handle", Param(name, "buffer", "", _access(argument.split()))
    if argument.startswith(("ptr", "{", "[", "%")):
        type_ = bytes_type(size)
        return type_, Param(name, "scalar", type_, align=max(align, 1))
    type_ = _TYPES.get(argument.partition(" ")[0], "")
    vector = _VECTOR.match(argument)
    if vector and vector[2] in _TYPES:
        type_ = f"{_TYPES[vector[2]]}x{vector[1]}"
    if _is_unsigned_of(declared, type_):
        type_ = declared
    return type_, Param(name, "scalar", type_)


def _is_unsigned_of(declared: str, type_: str) -> bool:
    """Return whether a type is the unsigned one of the size of another."""
    if not (type_.startswith("int") and declared.startswith("uint")):
        return False
    return array_bytes(parse_dtype(declared)) == array_bytes(parse_dtype(type_))


def _access(words: Sequence[str]) -> str:
    """Return the access of a pointer with some attributes."""
    if "readonly" in words:
        return "r"
    if "writeonly" in words:
        return "w"
    return "rw"
