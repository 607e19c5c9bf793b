"""Reading one symbol's bytes out of a shared library, with nothing of it executed."""

from __future__ import annotations

from devmod.errors import DevmodError, FormatError, ToolchainNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: How many symbols are looked through. Large libraries have some hundred thousand.
_MAX_SYMBOLS = 1 << 22


def symbol_bytes(path: str, name: str) -> memoryview | None:
    """The bytes of the object that a dynamic symbol stands for; None where the library has no such symbol.

    Raises
    ------
    ToolchainNotFoundError
        pyelftools is not installed.
    FormatError
        `path` is not an ELF file, or is damaged.
    OSError
        It cannot be read.
    """
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError:
        raise ToolchainNotFoundError(f"reading {path!r} takes pyelftools, which is not installed: pip install 'devmod-core[tvm]'") from None
    from devmod._formats.bundle import mapped

    data = mapped(path)
    if bytes(data[:4]) != b"\x7fELF":
        raise FormatError(f"{path!r} is not an ELF shared library: it does not begin with the ELF magic bytes")
    with open(path, "rb") as file:
        try:
            return _find(ELFFile(file), data, path, name)
        except DevmodError:
            raise
        except Exception as error:  # the reader has a dozen of its own, and Python's for what it did not foresee
            raise FormatError(f"{path!r} is a damaged ELF file: {type(error).__name__}: {error}") from error


def _find(elf: Any, data: memoryview, path: str, name: str) -> memoryview | None:
    if elf.num_sections() * max(elf["e_shentsize"], 1) > len(data):
        raise FormatError(f"{path!r} is a damaged ELF file: {elf.num_sections()} sections, which it has no room for")
    table = elf.get_section_by_name(".dynsym")
    if table is None or not hasattr(table, "iter_symbols"):
        return None
    if table["sh_size"] > len(data) or not table["sh_entsize"] or table.num_symbols() > _MAX_SYMBOLS:
        raise FormatError(f"{path!r} is a damaged ELF file: a symbol table of {table['sh_size']} bytes")
    symbol = next((each for each in table.iter_symbols() if each.name == name), None)
    if symbol is None or symbol["st_shndx"] == "SHN_UNDEF":
        return None
    address, size = symbol["st_value"], symbol["st_size"]
    for segment in elf.iter_segments("PT_LOAD"):
        inside = address - segment["p_vaddr"]
        if inside >= 0 and inside + size <= segment["p_filesz"]:
            offset = segment["p_offset"] + inside
            if offset + size > len(data):
                break
            return data[offset : offset + size]
    raise FormatError(f"{path!r} is a damaged ELF file: the symbol {name!r} lies outside what the file loads")
