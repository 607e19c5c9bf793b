"""The reader of ELF files: cubins, code objects, shared objects, and the files of a host.

- `ElfFile` has the header, the sections, the segments and the symbols of a file.
- `find_damage` checks that the sections and the segments are in the file, before a driver loads it.
- `dynamic_symbols` returns the addresses of symbols of a shared library.
- `symbol_bytes` returns the bytes of a symbol of a shared library.

core has a reader of the header alone, for the architecture of a payload.

An ELF file: its header, its sections, its segments and its symbols, in both classes and both byte
orders.

Files come from strangers. A table must be in the file before it is read, and its entries are read
one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from devmod.backend import detect_form
from devmod.errors import FormatError, count_text

__all__ = [
    "DYNAMIC_SYMBOLS",
    "LOADED",
    "NOTES",
    "NO_BITS",
    "ElfFile",
    "Segment",
    "dynamic_symbols",
    "find_damage",
    "symbol_bytes",
]


#: A section: the offset of its name, its type, its offset, its size, the fields `link` and `info`,
#: and the size of an entry.
Section = tuple[int, int, int, int, int, int, int]
#: A symbol: the offset of its name, the field `info`, the number of its section, its address and
#: its size.
Symbol = tuple[int, int, int, int, int]

#: The type of a section of notes.
NOTES = 7
#: The type of a section that takes no bytes of the file.
NO_BITS = 8
#: The type of a section of dynamic symbols.
DYNAMIC_SYMBOLS = 11
#: The type of segments that are loaded.
LOADED = 1

#: The maximum number of symbols. Large libraries have some hundred thousand.
_MAX_SYMBOLS = 1 << 22
#: The limit on the bytes of a name that is looked for.
_MAX_NAME = 1 << 16
_UNDEFINED = 0


class Segment(NamedTuple):
    """A segment: its type, its flags, its offset, its address and its size in the file."""

    kind: int
    flags: int
    offset: int
    address: int
    size: int


#: The layouts of a class: of the header, a section, a segment and a symbol. The header has the
#: machine, the offsets of both tables, the size and the number of their entries, and the number of
#: the section with the names.
_FORMATS = {
    1: ("18xH8xII6xHHHHH", "II8xIIII4xI", "III4xI4xI4x", "IIIBxH"),
    2: ("18xH12xQQ6xHHHHH", "II16xQQII8xQ", "IIQQ8xQ16x", "IBxHQQ"),
}
#: By the two bytes of the header for the class and the byte order.
_LAYOUTS: dict[bytes, list[Struct]] = {}
for _wide, _formats in _FORMATS.items():
    for _order, _mark in ((1, "<"), (2, ">")):
        _LAYOUTS[bytes((_wide, _order))] = [Struct(_mark + each) for each in _formats]


class ElfFile:
    """An ELF file. Its tables are read when they are requested.

    Parameters
    ----------
    code
        The file. The caller has checked its magic.

    Attributes
    ----------
    machine
        The number of the machine in the header.
    section_count
        The number of sections.
    symbol_bytes
        The size of a symbol.

    Raises
    ------
    ValueError
        The header is damaged. A method raises it for a table that is outside of the file.
    """

    def __init__(self, code: bytes | bytearray | memoryview) -> None:
        self._view = view = memoryview(code).cast("B")
        form = bytes(view[4:6])
        header, self._section, self._segment, self._symbol = _LAYOUTS.get(form, _LAYOUTS[b"\2\1"])
        if len(view) < header.size:
            raise ValueError(
                f"it has {count_text(len(view), 'byte')}; an ELF header has {header.size}"
            )
        if form not in _LAYOUTS:
            raise ValueError(
                f"its class is {form[0]} and its byte order {form[1]}; expected 1 or 2"
            )
        self._wide = form[0] == 2
        self.machine, segments, sections, *rest, self._names = header.unpack_from(view)
        segment_bytes, segment_count, section_bytes, self.section_count = rest
        self._segments = segments, segment_bytes, segment_count
        self._sections = sections, section_bytes, self.section_count
        self.symbol_bytes = self._symbol.size

    def sections(self) -> Iterator[Section]:
        """Iterate over the sections."""
        return self._section.iter_unpack(self._section_table())

    def section(self, number: int) -> Section:
        """Return the section of a number. Raise ValueError if there is none."""
        table = self._section_table()
        if number >= self.section_count:
            raise ValueError("its table of sections is outside of the file")
        fields: Section = self._section.unpack_from(table, self._section.size * number)
        return fields

    def names(self) -> memoryview:
        """Return the names of the sections, each of which ends with a zero byte."""
        if not self.section_count:
            return memoryview(b"")
        return self.contents(self._names)

    def contents(self, number: int) -> memoryview:
        """Return the bytes of a section.

        Raise ValueError if a part of them is outside of the file.
        """
        _, kind, offset, size, _, _, _ = self.section(number)
        if kind == NO_BITS:
            return memoryview(b"")
        if offset + size > len(self._view):
            raise ValueError(f"section {number} is outside of the file")
        return self._view[offset : offset + size]

    def segments(self) -> Iterator[Segment]:
        """Iterate over the segments."""
        found = self._segment.iter_unpack(self._table("segments", self._segment, *self._segments))
        if self._wide:
            return map(Segment._make, found)
        return (
            Segment(kind, flags, offset, address, size)
            for kind, offset, address, size, flags in found
        )

    def symbols(self, table: memoryview) -> Iterator[Symbol]:
        """Iterate over the symbols in the contents of a section. A part of a symbol at the end is
        ignored.
        """
        whole = len(table) // self.symbol_bytes * self.symbol_bytes
        found = self._symbol.iter_unpack(table[:whole])
        if self._wide:
            return found
        return (
            (name, info, section, address, size) for name, address, size, info, section in found
        )

    def _section_table(self) -> memoryview:
        return self._table("sections", self._section, *self._sections)

    def _table(self, title: str, layout: Struct, start: int, step: int, count: int) -> memoryview:
        if count and (step != layout.size or start + step * count > len(self._view)):
            raise ValueError(f"its table of {title} is outside of the file")
        return self._view[start : start + step * count]


def find_damage(code: bytes | memoryview) -> str:
    """Return what is wrong with the header, the sections and the segments of an ELF file; "" if all
    are in the file.

    A driver may crash on a truncated file, so a runtime calls this before the driver.

    Parameters
    ----------
    code
        The file. The caller has checked its magic.
    """
    size = len(code)
    try:
        file = ElfFile(code)
        for number, (_, kind, offset, length, _, _, _) in enumerate(file.sections()):
            if offset + length > size and kind != NO_BITS:
                return _outside("section", number, offset, length, size)
        for number, segment in enumerate(file.segments()):
            if segment.offset + segment.size > size:
                return _outside("segment", number, segment.offset, segment.size, size)
    except ValueError as problem:
        return str(problem)
    return ""


def _outside(title: str, number: int, offset: int, length: int, size: int) -> str:
    return f"{title} {number} has bytes {offset} to {offset + length}, and the file has {size}"


# -- Reading the bytes of a symbol from a shared library, without executing the library.


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
        raise FormatError(
            f"{path!r} is not an ELF shared library: it does not begin with the ELF magic bytes"
        )
    try:
        return _find(ElfFile(data), data, name)
    except ValueError as problem:
        raise FormatError(f"{path!r} is a damaged ELF file: {problem}") from None


def _find(elf: ElfFile, data: memoryview, name: str) -> memoryview | None:
    """Return the symbol's bytes, or None."""
    symbol = dynamic_symbols(elf, [name]).get(name)
    if symbol is None:
        return None
    address, size = symbol
    loaded = (segment for segment in elf.segments() if segment.kind == LOADED)
    segment = segment_of(loaded, address, size)
    if segment is not None:
        start = segment.offset + address - segment.address
        if start + size <= len(data):
            return data[start : start + size]
    raise ValueError(f"the symbol {name!r} is outside the loaded segments")


def segment_of(segments: Iterable[Segment], address: int, size: int) -> Segment | None:
    """Return the first segment that has the bytes at an address in the file; None without one."""
    for segment in segments:
        if segment.address <= address <= segment.address + segment.size - size:
            return segment
    return None


def dynamic_symbols(elf: ElfFile, symbols: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the address and the size of those of the symbols that the file defines.

    Raises
    ------
    ValueError
        The table of dynamic symbols is damaged, or there are several, which ELF does not allow.
    """
    tables = [
        number for number, section in enumerate(elf.sections()) if section[1] == DYNAMIC_SYMBOLS
    ]
    if len(tables) > 1:
        raise ValueError(f"it has {len(tables)} tables of dynamic symbols; expected at most 1")
    found: dict[str, tuple[int, int]] = {}
    names = {name.encode(): name for name in symbols}
    # The names of many symbols may end at one place, so no more of them is read than a name that is
    # looked for has.
    longest = min(max(map(len, names), default=0), _MAX_NAME)
    for number in tables:
        _, _, _, table_bytes, link, _, width = elf.section(number)
        if width != elf.symbol_bytes or table_bytes > _MAX_SYMBOLS * width:
            raise ValueError(f"a symbol table of {count_text(table_bytes, 'byte')}")
        strings = bytes(elf.contents(link))
        for start, _, section, address, size in elf.symbols(elf.contents(number)):
            end = strings.find(b"\0", start, start + longest + 1)
            if end < 0 or section == _UNDEFINED:
                continue
            name = names.get(strings[start:end])
            if name:
                found[name] = (address, size)
    return found
