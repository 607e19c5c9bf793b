"""The parameters of a kernel as its source has them: of CUDA C++, and of Python for numba."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devmod_simulators.ptx.reports import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devmod_simulators.ptx.module import Module

_TYPES = {
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "long long": "int64",
    "unsigned long long": "uint64",
    "long": "int64",
    "size_t": "uint64",
    "__half": "float16",
    "half": "float16",
    "bool": "bool",
}
#: Types in the names of numba's functions.
_LETTERS = {
    "b": "bool",
    "a": "int8",
    "h": "uint8",
    "s": "int16",
    "t": "uint16",
    "i": "int32",
    "j": "uint32",
    "x": "int64",
    "y": "uint64",
    "f": "float32",
    "d": "float64",
}
#: The parameters of an array of numba before that with its address, and those without its shape
#: and its strides.
_BEFORE_DATA, _WITHOUT_SHAPE = 4, 5


@dataclass(frozen=True)
class Parameter:
    """A parameter: its number in the source, its name ("" if it is unknown), its element type."""

    number: int
    name: str = ""
    kind: str = ""


def parameters_of(module: Module, kernel: str) -> list[Parameter]:
    """Return the parameters of a kernel, in the order of the PTX; none if they are not found."""
    arguments = numba_arguments(kernel)
    if arguments is not None:
        return numba_parameters(module, kernel, arguments)
    name = _names(kernel)[-1]
    for path in module.text.files.values():
        found = re.search(
            rf"__global__[^;{{}}]*?\b{re.escape(name)}\s*\(([^)]*)\)",
            "\n".join(lines_of(module, path)),
        )
        if found:
            return list(_declared(found[1]))
    return []


def _declared(text: str) -> Iterator[Parameter]:
    """Yield the parameters of a declaration in C++."""
    for number, each in enumerate(text.split(","), 1):
        plain = re.sub(r"\b(const|__restrict__|restrict|volatile)\b", " ", each)
        part = re.match(r"\s*(.*?)[\s*&]*(\w+)?\s*(?:\[.*)?$", plain)
        if part:
            kind = _TYPES.get(" ".join(part[1].split()), "")
            yield Parameter(number, part[2] or "", kind)


def _names(symbol: str) -> list[str]:
    """Return the names in a symbol: of the namespaces, and of the function."""
    return _split(symbol)[0] or [symbol]


def _split(symbol: str) -> tuple[list[str], str]:
    """Return the names in a symbol, and the types of the parameters behind them."""
    if not symbol.startswith("_Z"):
        return [], ""
    is_nested = symbol.startswith("_ZN")
    rest = symbol[3 if is_nested else 2 :]
    names = []
    while found := re.match(r"(B?)(\d+)", rest):
        end = found.end() + int(found[2])
        if not found[1]:
            names.append(rest[found.end() : end])
        elif not is_nested and not names:
            break
        rest = rest[end:]
        if not is_nested and not rest.startswith("B"):
            break
    return names, rest.removeprefix("E") if is_nested else rest


def numba_arguments(symbol: str) -> list[tuple[str, int]] | None:
    """Return the element type and the dimensions of each argument of a function of numba.

    Scalars have the dimensions -1. None: it is no function of numba, or has arguments of other
    kinds.
    """
    _, rest = _split(symbol)
    if "B2v" not in symbol:
        return None
    arguments = []
    while rest:
        array = re.match(r"5ArrayI([a-z])Li(\d+)E\w+?E(?=5ArrayI|[a-z]|$)", rest)
        if array and array[1] in _LETTERS:
            arguments.append((_LETTERS[array[1]], int(array[2])))
            rest = rest[array.end() :]
        elif rest[0] in _LETTERS:
            arguments.append((_LETTERS[rest[0]], -1))
            rest = rest[1:]
        else:
            return None
    return arguments


def numba_parameters(
    module: Module, symbol: str, arguments: list[tuple[str, int]]
) -> list[Parameter]:
    """Return the parameters of PTX of a function of numba: an array has several."""
    names = python_names(module, symbol)
    if len(names) != len(arguments):
        names = [""] * len(arguments)
    parameters = []
    for number, (name, (kind, dimensions)) in enumerate(zip(names, arguments, strict=True), 1):
        if dimensions < 0:
            parameters.append(Parameter(number, name, kind))
            continue
        parts = [Parameter(number)] * (_WITHOUT_SHAPE + 2 * dimensions)
        parts[_BEFORE_DATA] = Parameter(number, name, kind)
        parameters += parts
    return parameters


def python_names(module: Module, symbol: str) -> list[str]:
    """Return the names of the parameters of a function of Python; none if it is not found."""
    function = module.text.functions[symbol]
    places = [each.source for each in function.instructions if each.source[1]]
    if not places:
        return []
    file, line = places[0][:2]
    lines = lines_of(module, module.text.files.get(file, "?"))[:line]
    name = re.escape(_names(symbol)[-1])
    found = list(re.finditer(rf"\bdef {name}\(([^)]*)", "\n".join(lines)))
    if not found:  # its parameters have several lines
        return []
    parts = found[-1][1].split(",")
    return [re.split("[:=]", part)[0].strip() for part in parts if part.strip()]
