"""The check of ELF files of devices, before a driver loads one: a driver may crash on a truncated file."""

from __future__ import annotations

from devmod_targets._elf_tables import NO_BITS, ElfTables

__all__ = ["find_damage"]


def find_damage(code: bytes | memoryview) -> str:
    """Return what is wrong with the header, the sections and the segments of an ELF file; "" if all are in the file.

    Parameters
    ----------
    code
        The file. The caller has checked its magic.
    """
    size = len(code)
    try:
        tables = ElfTables(code)
        for number, (_, kind, offset, length, _, _, _) in enumerate(tables.sections()):
            if offset + length > size and kind != NO_BITS:
                return _outside("section", number, offset, length, size)
        for number, (_, _, offset, _, length) in enumerate(tables.segments()):
            if offset + length > size:
                return _outside("segment", number, offset, length, size)
    except ValueError as problem:
        return str(problem)
    return ""


def _outside(title: str, number: int, offset: int, length: int, size: int) -> str:
    return f"{title} {number} has bytes {offset} to {offset + length}, and the file has {size}"
