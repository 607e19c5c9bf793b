"""The payloads of CUDA: source, PTX, cubin and fatbin."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from devmod.errors import ToolchainNotFoundError
from devmod_readers.nvidia import fatbin_members, index_cubin, read_ptx
from devmod_readers.payloads import check_names, check_source
from devmod_readers.payloads._dimensions import CUDA_CPP, Language, text_dimensions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from devmod.backend import Binary
    from devmod_readers.payloads import Functions

_PTX = Language(r"\.entry\b", "%nctaid", frozenset({"%ctaid"}))


def check(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a payload."""
    if fmt == "cuda":
        return check_source("cuda", fmt, data, functions)
    try:
        names = _names(fmt, data)
    except ToolchainNotFoundError:  # what decompresses it is not installed here
        return False
    if names is None:
        return False
    check_names("cuda", fmt, names, functions)
    return True


def _names(fmt: str, data: Binary) -> Iterable[str] | None:
    """Return the kernels of a binary; None for one that only a driver reads."""
    if fmt == "ptx":
        return read_ptx(str(data, "utf-8"))
    if fmt == "cubin":
        return index_cubin(data)
    if fmt != "fatbin":
        return None
    names: list[str] = []
    for member in fatbin_members(data):
        if member.kind not in ("ptx", "cubin"):
            return None
        names += _names(member.kind, member.data) or ()
    return names


#: The dimensions in which a function reads its place.
dimensions = partial(text_dimensions, {"cuda": CUDA_CPP, "ptx": _PTX})
