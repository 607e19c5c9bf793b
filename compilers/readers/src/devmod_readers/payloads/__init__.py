"""What devmod reads of the payloads of core's kinds without a device, a module for each kind. A
kind's TargetSpec names its functions as `check` and as `dimensions`.

A check is called as ``check(fmt, data, functions)`` with one binary and the functions that it must
have. It raises an error for a binary that no device can use, and returns whether it can read the
format. A rule of dimensions is called as ``dimensions(fmt, data, name, info)`` with the binary of
one function. It returns the dimensions in which the function reads its place in the grid.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from devmod.errors import FormatError, list_names
from devmod_readers.spirv import read_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from devmod import FunctionInfo
    from devmod.backend import Binary

    Functions = Mapping[str, FunctionInfo]

_WORD = re.compile(r"[^\W\d]\w*")


def check_names(kind: str, fmt: str, names: Iterable[str], functions: Functions) -> None:
    """Raise FormatError unless `names`, the kernels of a binary, have those of `functions`."""
    known = dict.fromkeys(names)
    for name, info in functions.items():
        if info.name not in known:
            raise FormatError(
                f"the {kind} payload of format {fmt!r} has no kernel {info.name!r}, which its "
                f"fmap names; it has: {list_names(known)}. Compile it again",
                kind=kind,
                function=name,
            )


def check_source(kind: str, fmt: str, data: Binary, functions: Functions) -> bool:
    """Raise FormatError for a source in which the name of a function is no word.

    A source may also make a name of parts (``##``), and a compiler makes those of C++.
    """
    text = str(data, "utf-8")
    if "##" in text:
        return True
    words = set(_WORD.findall(text))
    for name, info in functions.items():
        if info.name not in words and not info.name.startswith("_Z"):
            raise FormatError(
                f"the {kind} source of format {fmt!r} does not have the word {info.name!r}, and "
                "its fmap names such a kernel. Compile it again",
                kind=kind,
                function=name,
            )
    return True


def spirv_names(subject: str, data: Binary, model: int) -> list[str]:
    """Return the entry points of a SPIR-V module with an execution model."""
    try:
        module = read_module(data)
    except FormatError as error:
        raise FormatError(f"the SPIR-V of the {subject} {error}") from None
    return [entry.name for entry in module.entries if entry.model == model]
