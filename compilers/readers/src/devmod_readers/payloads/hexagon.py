"""The payloads of Hexagon: shared objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devmod.errors import FormatError
from devmod_readers.elf import ElfFile, dynamic_symbols, find_damage
from devmod_readers.payloads import check_names

if TYPE_CHECKING:
    from devmod.backend import Binary
    from devmod_readers.payloads import Functions


def check(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a payload."""
    problem = find_damage(data)
    if problem:
        raise FormatError(f"the hexagon payload of format {fmt!r} is damaged: {problem}")
    wanted = [info.name for info in functions.values()]
    check_names("hexagon", fmt, dynamic_symbols(ElfFile(data), wanted), functions)
    return True
