"""Reading the bytes of a symbol from a shared library, without executing the library."""

from __future__ import annotations

from struct import Struct

from devmod.backend import detect_form, open_regular
from devmod.errors import DevmodError, FormatError, ToolchainNotFoundError, not_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal

#: The maximum number of symbols. Large libraries have some hundred thousand.
_MAX_SYMBOLS = 1 << 22
_SHT_DYNSYM, _PT_LOAD, _SHN_UNDEF = 11, 1, 0


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
    ToolchainNotFoundError
        pyelftools is not installed.
    FormatError
        `path` is not an ELF file, or is damaged.
    OSError
        The file cannot be read.
    """
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError:
        text = not_installed("pyelftools", "pip install 'devmod-core[tvm]'")
        raise ToolchainNotFoundError(f"{path!r} cannot be read: {text}") from None
    if detect_form(data[:4]) != "elf":
        raise FormatError(f"{path!r} is not an ELF shared library: it does not begin with the ELF magic bytes")
    with open_regular(path) as file:
        try:
            return _find(ELFFile(file), data, path, name)
        except DevmodError:
            raise
        except Exception as error:  # pyelftools raises many classes of its own and of Python
            raise FormatError(f"{path!r} is a damaged ELF file: {type(error).__name__}: {error}") from error


def _find(elf: Any, data: memoryview, path: str, name: str) -> memoryview | None:
    """Return the symbol's bytes. pyelftools reads the headers. It reads each name to its end, so this module compares the names."""
    table = _dynamic_symbols(elf, data, path)
    if table is None:
        return None
    symbol = _symbol(elf, data, path, table, name)
    if symbol is None:
        return None
    address, size = symbol
    for segment in _loaded_segments(elf, data, path):
        inside = address - segment["p_vaddr"]
        if inside >= 0 and inside + size <= segment["p_filesz"]:
            offset = segment["p_offset"] + inside
            if offset + size > len(data):
                break
            return data[offset : offset + size]
    raise FormatError(f"{path!r} is a damaged ELF file: the symbol {name!r} is outside the loaded segments")


def _dynamic_symbols(elf: Any, data: memoryview, path: str) -> Any:
    """Return the section of dynamic symbols, or None."""
    count, size = elf.num_sections(), elf["e_shentsize"]
    if count * max(size, 40) > len(data):
        raise FormatError(f"{path!r} is a damaged ELF file: {count} sections do not fit into the file")
    types = _read_column(elf, data, elf["e_shoff"] + 4, size, count)
    number = next((number for number, each in enumerate(types) if each == _SHT_DYNSYM), None)
    return None if number is None else elf.get_section(number)


def _symbol(elf: Any, data: memoryview, path: str, table: Any, name: str) -> tuple[int, int] | None:
    """Return the address and the size of a defined symbol, or None."""
    order = "<" if elf.little_endian else ">"
    form = Struct(order + ("IBBHQQ" if elf.elfclass == 64 else "IIIBBH"))
    if table["sh_offset"] + table["sh_size"] > len(data) or table["sh_entsize"] != form.size or table["sh_size"] > _MAX_SYMBOLS * form.size:
        raise FormatError(f"{path!r} is a damaged ELF file: a symbol table of {table['sh_size']} bytes")
    strings = elf.get_section(table["sh_link"])
    names = bytes(data[strings["sh_offset"] : strings["sh_offset"] + strings["sh_size"]])
    expected, places, at = name.encode() + b"\0", set(), -1
    while (at := names.find(expected, at + 1)) >= 0:
        places.add(at)
    whole = table["sh_size"] // form.size * form.size
    for fields in form.iter_unpack(data[table["sh_offset"] : table["sh_offset"] + whole]):
        if fields[0] in places:
            _, _, _, section, address, size = fields if elf.elfclass == 64 else (0, 0, 0, fields[5], fields[1], fields[2])
            return None if section == _SHN_UNDEF else (address, size)
    return None


def _loaded_segments(elf: Any, data: memoryview, path: str) -> Iterator[Any]:
    """Yield the loaded segments."""
    count, size = elf.num_segments(), elf["e_phentsize"]
    if count * max(size, 32) > len(data):
        raise FormatError(f"{path!r} is a damaged ELF file: {count} segments do not fit into the file")
    for number, each in enumerate(_read_column(elf, data, elf["e_phoff"], size, count)):
        if each == _PT_LOAD:
            yield elf.get_segment(number)


def _read_column(elf: Any, data: memoryview, start: int, step: int, count: int) -> Iterator[int]:
    """Yield the 32-bit number at the same place of each header in a table."""
    order: Literal["little", "big"] = "little" if elf.little_endian else "big"
    return (int.from_bytes(data[at : at + 4], order) for at in range(start, start + step * count, step or 1))
