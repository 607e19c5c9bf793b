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
#: The source with a declaration of each kernel, which the compiler of another language writes:
#: "=2 float32 *y" is the argument 2.
KERNELS = "devmod kernels"
#: The parameters of an array of numba before that with its address, and those without its shape
#: and its strides.
_BEFORE_DATA = 4
_WITHOUT_SHAPE = 5


@dataclass(frozen=True)
class Parameter:
    """A parameter: its number in the source, its name ("" if it is unknown), its element type."""

    number: int
    name: str = ""
    kind: str = ""


def parameters_of(module: Module, kernel: str) -> list[Parameter]:
    """Return the parameters of a kernel, in the order of the PTX; none if they are not found."""
    name, types = split_symbol(kernel)
    if "B2v" in kernel:
        return numba_parameters(types, python_names(module, kernel, name))
    for path in (KERNELS, *module.text.files.values()):
        found = re.search(
            rf"__global__[^;{{}}]*?\b{re.escape(name)}\s*\(([^)]*)\)",
            "\n".join(lines_of(module, path)),
        )
        if found:
            return list(_declared(found[1]))
    return []


def _declared(text: str) -> Iterator[Parameter]:
    """Yield the parameters of a declaration in C++, or of one that a compiler has written."""
    for number, each in enumerate(text.split(","), 1):
        plain = re.sub(r"\b(const|__restrict__|restrict|volatile)\b", " ", each)
        own = re.match(r"\s*=(\d+) ", plain)
        if own:
            number = int(own[1])
            plain = plain[own.end() :]
        part = re.match(r"\s*(.*?)[\s*&]*(\w+)?\s*(?:\[.*)?$", plain)
        if part:
            words = " ".join(part[1].split())
            kind = words if words in _TYPES.values() else _TYPES.get(words, "")
            yield Parameter(number, part[2] or "", kind)


def split_symbol(symbol: str) -> tuple[str, str]:
    """Return the name of the function in a symbol of C++ or numba, and the types behind it."""
    begin = re.match("_ZN?", symbol)
    if begin is None:
        return symbol, ""
    names = []
    rest = symbol[begin.end() :]
    while found := re.match(r"B?(\d+)", rest):
        end = found.end() + int(found[1])
        if rest[0] != "B":  # a tag, of which numba has some
            names.append(rest[found.end() : end])
        rest = rest[end:]
    if not names:
        return symbol, ""
    return names[-1] if begin[0] == "_ZN" else names[0], rest[1:]


def numba_parameters(types: str, names: list[str]) -> list[Parameter]:
    """Return the parameters of PTX of a function of numba: an array has several."""
    parameters: list[Parameter] = []
    number = 0
    while types:
        found = re.match(r"[a-z]|5ArrayI[a-z]Li(\d+)E\w+?E(?=5ArrayI|[a-z]|$)", types)
        if found is None:  # a type of another kind
            return []
        name = names[number] if number < len(names) else ""
        number += 1
        types = types[found.end() :]
        if found[1] is None:
            parameters.append(Parameter(number, name))
            continue
        parts = [Parameter(number)] * (_WITHOUT_SHAPE + 2 * int(found[1]))
        parts[_BEFORE_DATA] = Parameter(number, name)
        parameters += parts
    return parameters


def python_names(module: Module, symbol: str, name: str) -> list[str]:
    """Return the names of the parameters of a function of Python; none if it is not found."""
    function = module.text.functions[symbol]
    file, line = next((each.source[:2] for each in function.instructions if each.source[1]), (0, 0))
    lines = lines_of(module, module.text.files.get(file, "?"))[:line]
    found = re.findall(rf"\bdef {re.escape(name)}\(([^)]*)", "\n".join(lines))
    if not found:
        return []
    return [re.split("[:=]", part)[0].strip() for part in found[-1].split(",")]
