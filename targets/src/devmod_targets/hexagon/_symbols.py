"""The functions that a shared object exports, in the order of their addresses."""

from __future__ import annotations

import struct

_SYMBOL = struct.Struct("<IIIBBH")
_DYNSYM, _FUNCTION, _LOCAL = 11, 2, 0


def exported_functions(code: bytes) -> list[str]:
    """Return the names of the functions in the dynamic symbol table of a 32-bit ELF file that ld.lld has written."""
    (table,) = struct.unpack_from("<I", code, 32)
    size, count = struct.unpack_from("<HH", code, 46)
    sections = [struct.unpack_from("<10I", code, table + size * number) for number in range(count)]
    results = []
    for section in sections:
        if section[1] != _DYNSYM:
            continue
        start, nbytes, names = section[4], section[5], sections[section[6]][4]
        for offset in range(start, start + nbytes, _SYMBOL.size):
            name, address, _, info, _, place = _SYMBOL.unpack_from(code, offset)
            if info & 15 == _FUNCTION and info >> 4 != _LOCAL and place:
                end = code.index(b"\0", names + name)
                results.append((address, code[names + name : end].decode("utf-8", "backslashreplace")))
    return [name for _, name in sorted(results)]
