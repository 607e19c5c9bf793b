"""The section headers of a 64-bit little-endian ELF file, as cubins are.

A section header has 64 bytes: name u32, type u32, flags u64, address u64, offset u64, size u64, link u32, info u32, alignment u64,
size of an entry u64. The file's header has the machine at 18, the offset of the section headers at 40 (u64), their size at 58 (u16),
their number at 60 (u16) and the number of the section of names at 62 (u16).
"""

from __future__ import annotations

from struct import iter_unpack, unpack_from

from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from devmod.backend import Binary

CUDA = 190
_HEADER, _SECTION = 64, 64
_NO_DATA = 8


class Sections:
    """The sections of a cubin. Contents and names are read when they are requested.

    Raises
    ------
    FormatError
        The bytes are not a 64-bit cubin, or its table of sections is invalid.
    """

    def __init__(self, data: Binary) -> None:
        self._data = view = memoryview(data).cast("B")
        if len(view) < _HEADER or bytes(view[:4]) != b"\x7fELF":
            raise error("its bytes do not begin with an ELF header")
        if view[4] != 2 or view[5] != 1:
            raise error("expected a 64-bit little-endian ELF file")
        (machine,) = unpack_from("<H", view, 18)
        if machine != CUDA:
            raise error(f"its machine is {machine}; expected {CUDA} (CUDA)")
        self.abi_version = view[8]
        (table,) = unpack_from("<Q", view, 40)
        step, count, names = unpack_from("<HHH", view, 58)
        if count and (step != _SECTION or table + step * count > len(view) or names >= count):
            raise error("its table of sections is outside of the file")
        #: The type, offset, size and info of each section, after the offset of its name.
        self._headers = [
            (name, kind, offset, size, info)
            for name, kind, _, _, offset, size, _, info, _, _ in iter_unpack("<IIQQQQIIQQ", view[table : table + step * count])
        ]
        self._names = b""
        if count:
            _, kind, offset, size, _ = self._headers[names]
            self._names = bytes(self._extent(offset, size)) if kind != _NO_DATA else b""
        #: The sum of the bytes that were read. Sections of a sound file do not overlap.
        self._read = 0

    def of_type(self, kind: int) -> Iterable[int]:
        """Return the numbers of the sections of a type."""
        return (number for number, header in enumerate(self._headers) if header[1] == kind)

    def name(self, number: int) -> str:
        """Return the name of a section; characters that are not UTF-8 are escaped."""
        start = self._headers[number][0]
        end = self._names.find(b"\0", start)
        if end < 0:
            raise error("the name of a section is outside of the table of names")
        self._count(end - start)
        return self._names[start:end].decode("utf-8", "backslashreplace")

    def info(self, number: int) -> int:
        """Return the field `info` of a section."""
        info: int = self._headers[number][4]
        return info

    def contents(self, number: int) -> memoryview:
        """Return the bytes of a section."""
        _, kind, offset, size, _ = self._headers[number]
        if kind == _NO_DATA:
            return memoryview(b"")
        self._count(size)
        return self._extent(offset, size)

    def _extent(self, offset: int, size: int) -> memoryview:
        if offset + size > len(self._data):
            raise error("a section is outside of the file")
        return self._data[offset : offset + size]

    def _count(self, size: int) -> None:
        self._read += size
        if self._read > 2 * len(self._data):
            raise error("its sections overlap")


def error(problem: str) -> FormatError:
    """Return the error for an invalid cubin."""
    return FormatError(f"the cubin is invalid: {problem}", kind="cuda")
