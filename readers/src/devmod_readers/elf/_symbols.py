"""Reading the bytes of a symbol from a shared library, without executing the library."""

from __future__ import annotations

from devmod.backend import detect_form
from devmod.errors import FormatError
from devmod_readers.elf._file import DYNAMIC_SYMBOLS, LOADED, ElfFile

#: The maximum number of symbols. Large libraries have some hundred thousand.
_MAX_SYMBOLS = 1 << 22
_UNDEFINED = 0


def symbol_bytes(path: str, data: memoryview, name: str) -> memoryview | None:
    """Return the bytes of a dynamic symbol's object; None if the library has no such symbol.

    Parameters
    ----------
    path, data
        The library, and the contents of the file.
    name
        The symbol.

    Raises
    ------
    FormatError
        `path` is not an ELF file, or is damaged.
    """
    if detect_form(data[:4]) != "elf":
        raise FormatError(f"{path!r} is not an ELF shared library: it does not begin with the ELF magic bytes")
    try:
        return _find(ElfFile(data), data, name)
    except ValueError as problem:
        raise FormatError(f"{path!r} is a damaged ELF file: {problem}") from None


def _find(elf: ElfFile, data: memoryview, name: str) -> memoryview | None:
    """Return the symbol's bytes, or None."""
    symbol = _symbol(elf, name)
    if symbol is None:
        return None
    address, size = symbol
    for segment in elf.segments():
        inside = address - segment.address
        if segment.kind == LOADED and inside >= 0 and inside + size <= segment.size:
            start = segment.offset + inside
            if start + size > len(data):
                break
            return data[start : start + size]
    raise ValueError(f"the symbol {name!r} is outside the loaded segments")


def _symbol(elf: ElfFile, name: str) -> tuple[int, int] | None:
    """Return the address and the size of a defined symbol, or None."""
    number = next((number for number, section in enumerate(elf.sections()) if section[1] == DYNAMIC_SYMBOLS), None)
    if number is None:
        return None
    _, _, _, table_bytes, link, _, width = elf.section(number)
    if width != elf.symbol_bytes or table_bytes > _MAX_SYMBOLS * width:
        raise ValueError(f"a symbol table of {table_bytes} bytes")
    # Names may be long and end at one place, so the name is searched once and the symbols are compared by the offsets of their names.
    names, expected, places, at = bytes(elf.contents(link)), name.encode() + b"\0", set(), -1
    while (at := names.find(expected, at + 1)) >= 0:
        places.add(at)
    for start, _, section, address, size in elf.symbols(elf.contents(number)):
        if start in places:
            return None if section == _UNDEFINED else (address, size)
    return None
