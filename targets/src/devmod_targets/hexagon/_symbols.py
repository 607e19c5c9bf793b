"""The functions that a shared object exports, in the order of their addresses."""

from __future__ import annotations

from devmod_targets._elf_tables import DYNAMIC_SYMBOLS, ElfTables

_FUNCTION, _LOCAL = 2, 0


def exported_functions(code: bytes) -> list[str]:
    """Return the names of the functions in the dynamic symbol table of an ELF file that ld.lld has written."""
    elf = ElfTables(code)
    results = []
    for number, (_, kind, _, _, link, _, _) in enumerate(elf.sections()):
        if kind != DYNAMIC_SYMBOLS:
            continue
        names = bytes(elf.contents(link))
        for start, info, section, address, _ in elf.symbols(elf.contents(number)):
            if info & 15 == _FUNCTION and info >> 4 != _LOCAL and section:
                results.append((address, names[start : names.index(b"\0", start)].decode("utf-8", "backslashreplace")))
    return [name for _, name in sorted(results)]
