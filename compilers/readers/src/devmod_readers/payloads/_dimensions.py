"""The dimensions of the grid in which a kernel reads its place, from its source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod import FunctionInfo
    from devmod.backend import Binary

#: A read of one axis of a vector.
_MEMBER = r"([%\w]+)\s*\.\s*[xyz]*([yz])\b"
#: The dimensions of a kernel that reads an axis, by its name in a source.
_AXES = {"1": 2, "y": 2, "2": 3, "z": 3}


class Language(NamedTuple):
    """How a language writes what a kernel reads of the grid, as regular expressions.

    Attributes
    ----------
    kernel
        What begins a kernel.
    size
        The size of the grid.
    places
        The vectors with the place of a block or a thread.
    parameter
        The declaration of a parameter with such a place, whose group has its name.
    call
        A call that returns the place, whose group has the axis.
    """

    kernel: str
    size: str
    places: frozenset[str] = frozenset()
    parameter: str = ""
    call: str = ""


#: CUDA C++ and HIP.
CUDA_CPP = Language(r"\b__global__\b", "gridDim", frozenset({"blockIdx"}))


def text_dimensions(
    languages: Mapping[str, Language], fmt: str, data: Binary, name: str, info: FunctionInfo
) -> int:
    """Return the dimensions that the kernel reads, or 1: also if it reads the size of the grid, as
    a kernel for any launch does, or has conditions. Only the formats of `languages` are read.
    """
    language = languages.get(fmt)
    if language is None:
        return 1
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", str(data, errors="replace"), flags=re.DOTALL)
    name_in_source = name.partition("<")[0].rpartition("::")[2]
    names = f"{re.escape(info.name)}|{re.escape(name_in_source)}"
    kernel = re.search(rf"\b(?:{names})\s*\((.*?)(?:{language.kernel}|\Z)", text, re.DOTALL)
    if kernel is None or re.search(rf"{language.size}|\n\s*#\s*if", kernel[1]):
        return 1
    places = language.places
    if language.parameter:
        places |= {*re.findall(language.parameter, text)}
    axes: list[str] = []
    if language.call:
        axes += re.findall(language.call, kernel[1])
    for place, axis in re.findall(_MEMBER, kernel[1]):
        if place in places:
            axes.append(axis)
    return max(map(_AXES.__getitem__, axes), default=1)
