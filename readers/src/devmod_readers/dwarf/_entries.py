"""The entries of debug information, as a tree. Source: the DWARF Debugging Information Format, versions 2 to 5."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    #: The tag, whether there are children, and the attributes (number, form, constant) by the number of an abbreviation.
    _Abbreviations = dict[int, tuple[int, bool, list[tuple[int, int, int]]]]

#: The attributes that signatures need, by number.
_ATTRIBUTES = {
    0x03: "name",
    0x0B: "byte_size",
    0x0D: "bit_size",
    0x2F: "upper_bound",
    0x31: "abstract_origin",
    0x37: "count",
    0x38: "data_member_location",
    0x3B: "decl_line",
    0x3C: "declaration",
    0x3E: "encoding",
    0x3F: "external",
    0x47: "specification",
    0x49: "type",
    0x6E: "linkage_name",
    0x72: "str_offsets_base",
    0x88: "alignment",
    0x2007: "linkage_name",  # before version 4
    0x2107: "GNU_vector",
}
#: The bytes of the forms with a fixed size.
_SIZES = {0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x17: 4, 0x1C: 4, 0x1D: 4, 0x1E: 16, 0x20: 8}
_SIZES |= {0x24: 8, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4}
_PLUS_CONSTANT = 0x23
_ULEB = (0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23)
_LOCAL_REFERENCES = (0x11, 0x12, 0x13, 0x14, 0x15)
_STRING_INDEXES = (0x1A, 0x25, 0x26, 0x27, 0x28)
_POINTERS, _SCOPES = (0x0F, 0x10, 0x1F, 0x42), (0x02, 0x13, 0x39)
_MAX_ENTRIES, _MAX_DEPTH, _MAX_TEXT = 1 << 18, 256, 4096


class Entry:
    """An entry with the attributes that signatures need.

    Attributes
    ----------
    tag
        Its number, such as 0x2E for a function.
    fields
        The values of its attributes: int or str. A reference is the offset of the other entry.
    children
        The entries in it.
    align
        The alignment of a type, once a reader has found it; else 0.
    """

    __slots__ = ("_all", "_parent", "align", "children", "fields", "tag")

    def __init__(self, tag: int, fields: Mapping[str, int | str], entries: Mapping[int, Entry], parent: Entry | None) -> None:
        self.tag, self.fields, self._all, self._parent = tag, fields, entries, parent
        self.children: list[Entry] = []
        self.align = 0

    def origin(self) -> Entry:
        """Return the entry that has the common attributes of this one: its declaration or its abstract instance; else itself."""
        entry = self
        for _ in range(8):
            place = entry.fields.get("abstract_origin", entry.fields.get("specification"))
            other = self._all.get(place) if isinstance(place, int) else None
            if other is None:
                break
            entry = other
        return entry

    def text(self, name: str) -> str:
        """Return an attribute that is a string; "" if there is none."""
        value = self.fields.get(name, self.origin().fields.get(name))
        return value if isinstance(value, str) else ""

    def qualified_name(self) -> str:
        """Return its name with its namespaces, classes and structs. Anonymous ones are omitted."""
        names, scope = [self.text("name")], self.origin()._parent
        while scope is not None and scope.tag in _SCOPES:
            names.append(scope.text("name"))
            scope = scope._parent
        return "::".join(filter(None, reversed(names)))

    def number(self, name: str) -> int:
        """Return an attribute that is a number; 0 if there is none."""
        value = self.fields.get(name, self.origin().fields.get(name))
        return value if isinstance(value, int) else 0

    def type(self) -> Entry | None:
        """Return the entry of its type; None for void."""
        return self._all.get(self.number("type"))


def read_entries(sections: Mapping[str, memoryview]) -> list[Entry]:
    """Return all entries of the debug information.

    Parameters
    ----------
    sections
        The sections by name.

    Raises
    ------
    ValueError, IndexError
        It is damaged, or larger than the limits.
    """
    entries: dict[int, Entry] = {}
    tables: dict[int, _Abbreviations] = {}
    at, end = 0, len(sections.get(".debug_info", b""))
    while at < end:
        at = _Unit(sections, at, entries, tables).read()
    return list(entries.values())


class _Unit:
    """The reader of one unit."""

    def __init__(
        self, sections: Mapping[str, memoryview], start: int, entries: dict[int, Entry], tables: dict[int, _Abbreviations]
    ) -> None:
        self._sections, self._start, self._entries = sections, start, entries
        self._data = sections[".debug_info"]
        self.at = start
        length = self._uint(4)
        if length >= 0xFFFFFFF0:
            raise ValueError("a unit of 64-bit DWARF")
        self._end = self.at + length
        if self._end > len(self._data):
            raise ValueError("a unit ends outside its section")
        self._version = self._uint(2)
        if not 2 <= self._version <= 5:
            raise ValueError(f"version {self._version} of DWARF")
        kind = 1
        if self._version == 5:
            kind, self._address = self._uint(1), self._uint(1)
            table = self._uint(4)
        else:
            table = self._uint(4)
            self._address = self._uint(1)
        self.at += {4: 8, 5: 8, 2: 12, 6: 12}.get(kind, 0)
        self._base = 8  # the default base of the table of string offsets
        if table not in tables:
            tables[table] = _abbreviations(sections[".debug_abbrev"], table)
        self._abbreviations = tables[table]

    def read(self) -> int:
        """Add the entries of the unit. Return the place of the next one."""
        parents: list[Entry] = []
        while self.at < self._end:
            place = self.at
            number = self._uleb()
            if not number:
                if parents:
                    parents.pop()
                continue
            tag, has_children, attributes = self._abbreviations[number]
            fields: dict[str, int | str] = {}
            for attribute, form, constant in attributes:
                name = _ATTRIBUTES.get(attribute)
                value = self._value(form, constant, is_place=name == "data_member_location")
                if name == "str_offsets_base" and isinstance(value, int):
                    self._base = value
                elif name and value is not None:
                    fields[name] = value
            if tag in _POINTERS:
                fields.setdefault("byte_size", self._address)
            entry = Entry(tag, fields, self._entries, parents[-1] if parents else None)
            if parents:
                parents[-1].children.append(entry)
            self._entries[place] = entry
            if has_children:
                parents.append(entry)
            if len(self._entries) > _MAX_ENTRIES or len(parents) > _MAX_DEPTH:
                raise ValueError("more entries than the limit")
        return self._end

    def _value(self, form: int, constant: int, *, is_place: bool) -> int | str | None:
        """Read an attribute. Return its value; None for one that signatures do not need."""
        if form == 0x16:  # indirect
            form = self._uleb()
        if form in (0x19, 0x21):  # a flag, or a constant in the table of abbreviations
            return 1 if form == 0x19 else constant
        if form == 0x08:
            return self._string(self._data, None)
        if form in (0x0E, 0x1F):
            return self._string(self._sections[".debug_str" if form == 0x0E else ".debug_line_str"], self._uint(4))
        if form in _STRING_INDEXES:
            index = self._uleb() if form == 0x1A else self._uint(_SIZES[form])
            place = self._base + 4 * index
            table = self._sections[".debug_str_offsets"][place : place + 4]
            return self._string(self._sections[".debug_str"], int.from_bytes(table, "little"))
        if form in (0x03, 0x04, 0x09, 0x0A, 0x18):  # blocks and expressions
            length = self._uleb() if form in (0x09, 0x18) else self._uint({0x03: 2, 0x04: 4, 0x0A: 1}[form])
            start = self.at
            self._skip(length)
            if is_place and length > 1 and self._data[start] == _PLUS_CONSTANT:  # before version 3
                return _uleb(self._data, start + 1)[0]
            return None
        if form == 0x0D:
            return self._sleb()
        if form in _ULEB:
            value = self._uleb()
        elif form == 0x01 or (form == 0x10 and self._version == 2):
            value = self._uint(self._address)
        elif form == 0x10:
            value = self._uint(4)
        elif form in _SIZES:
            value = self._uint(_SIZES[form])
        else:
            raise ValueError(f"the unknown form {form:#x}")
        return value + self._start if form in _LOCAL_REFERENCES else value

    def _skip(self, size: int) -> None:
        if size > self._end - self.at:
            raise ValueError("an attribute ends outside its unit")
        self.at += size

    def _uint(self, size: int) -> int:
        data = self._data[self.at : self.at + size]
        if len(data) < size:
            raise ValueError("an attribute ends outside its section")
        self.at += size
        return int.from_bytes(data, "little")

    def _uleb(self) -> int:
        value, self.at = _uleb(self._data, self.at)
        return value

    def _sleb(self) -> int:
        start = self.at
        value = self._uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def _string(self, data: memoryview, at: int | None) -> str:
        start = self.at if at is None else at
        text, nul, _ = bytes(data[start : start + _MAX_TEXT]).partition(b"\0")
        if not nul:
            raise ValueError("a string without an end")
        if at is None:
            self.at += len(text) + 1
        return text.decode("utf-8", "backslashreplace")


def _abbreviations(data: memoryview, at: int) -> _Abbreviations:
    """Return the tag, whether there are children, and the attributes (number, form, constant) of each abbreviation."""
    results: _Abbreviations = {}
    while True:
        number, at = _uleb(data, at)
        if not number:
            return results
        tag, at = _uleb(data, at)
        has_children = bool(data[at])
        at += 1
        attributes = []
        while True:
            attribute, at = _uleb(data, at)
            form, at = _uleb(data, at)
            constant = 0
            if form == 0x21:
                constant, at = _uleb(data, at)
            if not attribute and not form:
                break
            attributes.append((attribute, form, constant))
        results[number] = tag, has_children, attributes


def _uleb(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
