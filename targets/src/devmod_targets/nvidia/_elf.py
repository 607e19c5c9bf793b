"""The section headers of a 64-bit little-endian ELF file, as cubins are.

A section header has 64 bytes: name u32, type u32, flags u64, address u64, offset u64, size u64, link u32, info u32, alignment u64,
size of an entry u64. The file's header has the machine at 18, the offset of the section headers at 40 (u64), their size at 58 (u16),
their number at 60 (u16) and the number of the section of names at 62 (u16).
"""

from __future__ import annotations

from struct import Struct, unpack_from

from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from devmod.backend import Binary

CUDA = 190
_HEADER = 64
#: The offset of the name, the type, the offset, the size and the field `info` of a section.
_SECTION = Struct("<II16xQQ4xI16x")
_TYPE = Struct("<4xI56x")
_NO_DATA = 8
_OVERLAP = "its sections overlap"


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
        (table,) = unpack_from("<Q", view, 40)
        step, count, names = unpack_from("<HHH", view, 58)
        if count and (step != _SECTION.size or table + step * count > len(view) or names >= count):
            raise error("its table of sections is outside of the file")
        self._table = view[table : table + step * count]
        self._names = b""
        if count:
            _, kind, offset, size, _ = self._header(names)
            self._names = bytes(self._extent(offset, size)) if kind != _NO_DATA else b""
        #: The bytes that may still be read. Sections of a sound file do not overlap.
        self._room = 2 * len(view)

    def named(self, kind: int, prefix: str) -> list[tuple[str, int, int]]:
        """Return the sections of a type whose names begin with `prefix`: the rest of the name, the number, and the field `info` of each.

        Characters of a name that are not UTF-8 are escaped.
        """
        # This loop is the most of the time in which a module with many kernels is loaded, so it uses local names.
        names, find, room, start_of_name, found = self._names, self._names.find, self._room, prefix.encode(), []
        length = len(start_of_name)
        for number, (start, each, _, size, info) in enumerate(_SECTION.iter_unpack(self._table)):
            if each != kind:
                continue
            end = find(b"\0", start)
            if end < 0:
                raise error("the name of a section is outside of the table of names")
            room -= end - start
            if room < 0:
                raise error(_OVERLAP)
            if names.startswith(start_of_name, start, end):
                room -= size
                found.append((names[start + length : end].decode("utf-8", "backslashreplace"), number, info))
        self._room = room
        return found

    def of_type(self, kind: int) -> Iterator[memoryview]:
        """Yield the contents of each section of a type."""
        for number, (each,) in enumerate(_TYPE.iter_unpack(self._table)):
            if each == kind:
                self._room -= self._header(number)[3]
                if self._room < 0:
                    raise error(_OVERLAP)
                yield self.contents(number)

    def contents(self, number: int) -> memoryview:
        """Return the bytes of a section."""
        _, kind, offset, size, _ = self._header(number)
        return memoryview(b"") if kind == _NO_DATA else self._extent(offset, size)

    def _header(self, number: int) -> tuple[int, int, int, int, int]:
        return _SECTION.unpack_from(self._table, _SECTION.size * number)

    def _extent(self, offset: int, size: int) -> memoryview:
        if offset + size > len(self._data):
            raise error("a section is outside of the file")
        return self._data[offset : offset + size]


def error(problem: str) -> FormatError:
    """Return the error for an invalid cubin."""
    return FormatError(f"the cubin is invalid: {problem}", kind="cuda")
