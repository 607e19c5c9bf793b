"""The few fields of an ELF file that say what a code object is for. Nothing here raises, whatever the bytes are.

The header of a little-endian file, 64 bits (32 bits in brackets where it differs)::

    0  magic 7f 45 4c 46     4  class: 2 (1)    5  data: 1     7  OS ABI    8  ABI version
    18 machine, u16          40 (32) offset of the section headers, u64 (u32)
    48 (36) flags, u32       58 (46) size of one, 60 (48) number of them, 62 (50) number of the one that holds the names
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._payload import Binary

AMDGPU = 224
CUDA = 190
HEXAGON = 164

#: More sections than any code object here has; a file that claims more is not looked through.
_MOST_SECTIONS = 65536


class ElfHeader:
    """What the header says: `machine`, `flags`, `osabi`, `abi_version`."""

    __slots__ = ("_code", "_wide", "abi_version", "flags", "machine", "osabi")

    def __init__(self, code: Binary, wide: bool) -> None:
        self._code, self._wide = code, wide
        self.osabi, self.abi_version = code[7], code[8]
        self.machine = number(code, 18, 2)
        self.flags = number(code, 48 if wide else 36, 4)

    def section(self, name: bytes) -> bytes:
        """The contents of the first section of that name; empty where there is none, or the file is not sound."""
        code, wide = self._code, self._wide
        table = number(code, 40, 8) if wide else number(code, 32, 4)
        each, count, names = (number(code, (58 if wide else 46) + 2 * step, 2) for step in range(3))
        if each < (64 if wide else 40) or count > _MOST_SECTIONS or names >= count or table + each * count > len(code):
            return b""

        def place(index: int) -> tuple[int, int]:
            at = table + each * index
            return (number(code, at + 24, 8), number(code, at + 32, 8)) if wide else (number(code, at + 16, 4), number(code, at + 20, 4))

        start, size = place(names)
        if start + size > len(code):
            return b""
        wanted = name + b"\0"
        for index in range(count):
            at = start + number(code, table + each * index, 4)
            if at + len(wanted) <= start + size and bytes(code[at : at + len(wanted)]) == wanted:
                first, length = place(index)
                return bytes(code[first : first + length]) if first + length <= len(code) else b""
        return b""


def elf_header(code: Binary) -> ElfHeader | None:
    """The header of a little-endian ELF file; None where `code` is none."""
    if len(code) < 52 or bytes(code[:4]) != b"\x7fELF" or code[5] != 1 or code[4] not in (1, 2):
        return None
    wide = code[4] == 2
    return ElfHeader(code, wide) if len(code) >= (64 if wide else 52) else None


def number(code: Binary, at: int, size: int) -> int:
    """The little-endian number of `size` bytes at `at`; what lies outside counts as nothing."""
    return int.from_bytes(code[at : at + size], "little")
