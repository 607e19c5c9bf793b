"""Read the signatures of kernels in LLVM IR text. The binary of the same module has the sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from devmod import Param
from devmod.backend import array_bytes, parse_dtype
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
    "half": "float16",
    "bfloat": "bfloat16",
    "float": "float32",
    "double": "float64",
} | {f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)}
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
    definitions = {match["quoted"] or match["plain"]: match for match in _DEFINE.finditer(text)}
    declared = {info.name: info.arg_types for info in (request.fmap or {}).values()}
    results = {}
    for symbol, (places, block) in kernels.items():
        match = definitions.get(symbol)
        arguments = (split_arguments(text, match.end()) or []) if match else []
        types, params = [], []
        for index, place in enumerate(places):
            argument = arguments[index] if len(arguments) == len(places) else ""
            hint = declared.get(symbol, ())
            type_, param = _argument(
                argument, place, hint[index] if len(hint) == len(places) else ""
            )
            types.append(type_)
            params.append(param)
        line = text.count("\n", 0, match.start()) + 1 if match else 1
        results[symbol] = ReflectedFunction(symbol, types, params, block, f"{request.name}:{line}")
    return results


def dynamic_shared_kernels(text: str) -> set[str]:
    """Return the functions of a module in LLVM IR text that use shared memory whose size the launch
    defines (``extern __shared__``).
    """
    variables = {match["quoted"] or match["plain"] for match in _DYNAMIC_SHARED.finditer(text)}
    if not variables:
        return set()
    identifiers = {}
    for definition in _DEFINE.finditer(text):
        end = text.find("\n}", definition.end())
        body = _GLOBAL.finditer(text, definition.end(), end if end >= 0 else len(text))
        identifiers[definition["quoted"] or definition["plain"]] = {
            match["quoted"] or match["plain"] for match in body
        }
    return users_of(variables, identifiers)


def _argument(argument: str, place: tuple[int, int], declared: str) -> tuple[str, Param]:
    """Return the type for arg_types and the param of one argument; "" for an unknown type."""
    match = _NAME.search(argument)
    name = (match[1] or match[2]) if match else ""
    size, align = place
    if argument.startswith("ptr") and "byval(" not in argument and "byref(" not in argument:
        words = argument.split()
        return "handle", Param(
            name,
            "buffer",
            "",
            "r" if "readonly" in words else "w" if "writeonly" in words else "rw",
        )
    if argument.startswith(("ptr", "{", "[", "%")):
        type_ = f"uint8x{size}" if size > 1 else "uint8"
        return type_, Param(name, "scalar", type_, align=max(align, 1))
    vector = _VECTOR.match(argument)
    word = argument.partition(" ")[0]
    type_ = (
        f"{_TYPES[vector[2]]}x{vector[1]}"
        if vector and vector[2] in _TYPES
        else _TYPES.get(word, "")
    )
    if (
        type_.startswith("int")
        and declared.startswith("uint")
        and array_bytes(parse_dtype(declared)) == array_bytes(parse_dtype(type_))
    ):
        type_ = declared
    return type_, Param(name, "scalar", type_)
