"""The payloads of Metal: MSL and metallibs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from devmod_readers.metallib import read_metallib
from devmod_readers.payloads import check_names, check_source
from devmod_readers.payloads._dimensions import Language, text_dimensions

if TYPE_CHECKING:
    from devmod.backend import Binary
    from devmod_readers.payloads import Functions

_MSL = Language(
    r"\bkernel\b",
    "threads_per_grid|threadgroups_per_grid",
    parameter=r"(\w+)\s*\[\[\s*thread(?:group)?_position_in_grid",
)


def check(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a payload."""
    if fmt == "metal":
        return check_source("metal", fmt, data, functions)
    check_names("metal", fmt, read_metallib(bytes(data)), functions)
    return True


#: The dimensions in which a function reads its place.
dimensions = partial(text_dimensions, {"metal": _MSL})
