"""The fields of an ELF header that describe a code object. Nothing here raises, whatever the bytes
are.

The header of a 64-bit file (of a 32-bit file in brackets where it differs)::

    0  magic 7f 45 4c 46     4  class: 2 (1)         5  data: 1 little-endian, 2 big-endian
    7  OS ABI                8  ABI version
    18 machine, u16          48 (36) flags, u32      40 offset of the section headers, u64
    58 size of a section header, 60 number of them, 62 number of the section of names, u16

`elf_header` takes little-endian files alone.
"""

from __future__ import annotations

ELF_MAGIC = b"\x7fELF"
#: The size of the header of each class.
_SIZES = {1: 52, 2: 64}

#: The symbol of a library that TVM exported, whose object has the device modules.
TVM_LIBRARY = "__tvm_ffi__library_bin"

HEXAGON = 164
CUDA = 190
AMDGPU = 224


class ElfHeader:
    """The fields `machine`, `flags`, `osabi` and `abi_version` of a header."""

    def __init__(self, code: bytes | memoryview, wide: bool) -> None:
        self._code = code
        self._wide = wide
        self.osabi = code[7]
        self.abi_version = code[8]
        self.machine = read_uint(code, 18, 2)
        self.flags = read_uint(code, 48 if wide else 36, 4)

    def section(self, name: bytes) -> bytes:
        """Return the contents of the first section of that name; b"" if there is none, or the file
        is 32-bit or damaged.
        """
        code = self._code
        table = read_uint(code, 40, 8)
        step = read_uint(code, 58, 2)
        count = read_uint(code, 60, 2)
        names = read_uint(code, 62, 2)
        if not self._wide or step < 64 or names >= count or table + step * count > len(code):
            return b""

        def extent(index: int) -> tuple[int, int]:
            """Return the offset and the size of a section."""
            at = table + step * index
            return read_uint(code, at + 24, 8), read_uint(code, at + 32, 8)

        start, size = extent(names)
        if start + size > len(code):
            return b""
        expected = name + b"\0"
        for index in range(count):
            at = start + read_uint(code, table + step * index, 4)
            end = at + len(expected)
            if end <= start + size and bytes(code[at:end]) == expected:
                first, length = extent(index)
                if first + length > len(code):
                    return b""
                return bytes(code[first : first + length])
        return b""


def elf_header(code: bytes | memoryview) -> ElfHeader | None:
    """Return the header of a little-endian ELF file; None for other bytes."""
    if bytes(code[:4]) != ELF_MAGIC or len(code) < min(_SIZES.values()) or code[5] != 1:
        return None
    if code[4] not in _SIZES or len(code) < _SIZES[code[4]]:
        return None
    return ElfHeader(code, code[4] == 2)


def read_uint(code: bytes | memoryview, at: int, size: int) -> int:
    """Return the little-endian number of `size` bytes at `at`.

    Bytes beyond the end count as zero.
    """
    return int.from_bytes(code[at : at + size], "little")
