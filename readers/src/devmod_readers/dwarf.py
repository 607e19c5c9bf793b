"""The reader of debug information (DWARF 2 to 5). `read_functions` returns the signatures of the functions of an ELF file.

The signatures of functions in the debug information of an ELF file (DWARF 2 to 5).

The file comes from a stranger, so each offset is checked. Types that devmod has no name for are "".
"""

from __future__ import annotations

from struct import error as struct_error

from devmod import Param
from devmod.errors import FormatError
from devmod_readers.elf import NO_BITS, ElfFile
from devmod_readers.reflection import MemberType, ReflectedFunction, describe_members, with_members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    #: The tag, whether there are children, and the attributes (number, form, constant) by the number of an abbreviation.
    _Abbreviations = dict[int, tuple[int, bool, list[tuple[int, int, int]]]]

__all__ = ["read_functions"]


_ARRAY, _CLASS, _ENUM, _PARAMETER, _MEMBER, _POINTER, _REFERENCE = 0x01, 0x02, 0x04, 0x05, 0x0D, 0x0F, 0x10
_STRUCT, _TYPEDEF, _INHERITANCE, _SUBRANGE, _BASE, _CONST, _FUNCTION = 0x13, 0x16, 0x1C, 0x21, 0x24, 0x26, 0x2E
_VOLATILE, _RESTRICT, _RVALUE, _ATOMIC = 0x35, 0x37, 0x42, 0x47
_QUALIFIERS = (_TYPEDEF, _CONST, _VOLATILE, _RESTRICT, _ATOMIC)
#: The encoding and the bytes of a base type to its name.
_FLOATS = {2: "float16", 4: "float32", 8: "float64"}
_SIGNED, _UNSIGNED = (5, 6, 0x0D), (7, 8, 0x10)
_LARGEST_STRUCT, _MAX_DEPTH = 65535, 64


def read_functions(code: bytes, symbols: Collection[str]) -> dict[str, tuple[str, ReflectedFunction | None]]:
    """Return the qualified name and the signature of each function that the debug information describes, by symbol.

    The signature is None if devmod has no type for an argument or for the result: calls could not pass them.

    Parameters
    ----------
    code
        A linked ELF file, 32-bit or 64-bit, little-endian.
    symbols
        The functions of the file. Others are ignored.

    Raises
    ------
    FormatError
        The debug information is damaged.
    """
    try:
        entries = read_entries(_sections(code))
    except (IndexError, KeyError, ValueError, struct_error, RecursionError) as error:
        raise FormatError(f"the debug information is damaged: {type(error).__name__}: {error}") from None
    functions: dict[str, Entry] = {}
    for entry in entries:
        symbol = entry.text("linkage_name") or entry.text("name")
        if entry.tag == _FUNCTION and symbol in symbols and "declaration" not in entry.fields:
            functions.setdefault(symbol, entry)
    return {symbol: (entry.qualified_name(), _function(symbol, entry)) for symbol, entry in functions.items()}


def _function(symbol: str, entry: Entry) -> ReflectedFunction | None:
    types, params = [], []
    for each in entry.origin().children if not entry.children else entry.children:
        if each.tag == _PARAMETER:
            type_, param = _param(each)
            types.append(type_)
            params.append(param)
    result = _plain(entry.type())
    dtype = _number(result) if result is not None else ""
    if not all(types) or (result is not None and (not dtype or "x" in dtype)):
        return None
    line = entry.number("decl_line")
    return ReflectedFunction(symbol, types, params, location=f"line {line}" if line else symbol, extra={"result": dtype} if dtype else {})


def _param(entry: Entry) -> tuple[str, Param]:
    name, type_ = entry.text("name"), _plain(entry.type())
    if type_ is None:
        return "", Param(name, "scalar")
    if type_.tag in (_POINTER, _REFERENCE, _RVALUE):
        target, is_const = type_.type(), False
        for _ in range(_MAX_DEPTH):
            if target is None or target.tag not in (*_QUALIFIERS, _ARRAY) or (target.tag == _ARRAY and "GNU_vector" in target.fields):
                break
            is_const |= target.tag == _CONST
            target = target.type()
        element, align = _value(target) if target is not None else ("", 0)
        return "handle", _with_fields(Param(name, "buffer", element, "r" if is_const else "rw", align=align), target)
    element, align = _value(type_)
    return element, _with_fields(Param(name, "scalar", element, align=align), type_)


def _with_fields(param: Param, type_: Entry | None) -> Param:
    """Return the param of a struct, which has an alignment, with its members. Return other params unchanged."""
    return with_members(param, describe_members(_fields(type_) or (), _describe)) if param.align and type_ is not None else param


def _plain(entry: Entry | None) -> Entry | None:
    """Return a type without its typedefs and qualifiers; None for void."""
    for _ in range(_MAX_DEPTH):
        if entry is None or entry.tag not in _QUALIFIERS:
            return entry
        entry = entry.type()
    return None


def _number(type_: Entry) -> str:
    """Return the name of a number or a vector of numbers; "" for any other type."""
    size, encoding = type_.number("byte_size"), type_.number("encoding")
    if type_.tag == _ENUM:
        underlying = _plain(type_.type())
        return (
            _number(underlying) if underlying is not None and underlying.tag == _BASE else f"uint{8 * size}" if size in (1, 2, 4, 8) else ""
        )
    if type_.tag == _ARRAY and "GNU_vector" in type_.fields:
        element, counts = _plain(type_.type()), _counts(type_)
        dtype = _number(element) if element is not None and element.tag == _BASE else ""
        return f"{dtype}x{counts[0]}" if dtype and len(counts) == 1 and 1 < counts[0] <= 1024 else ""
    if type_.tag != _BASE:
        return ""
    if encoding == 2:
        return "bool" if size == 1 else ""
    if encoding == 4:
        return "bfloat16" if type_.text("name") == "__bf16" else _FLOATS.get(size, "")
    prefix = "int" if encoding in _SIGNED else "uint" if encoding in _UNSIGNED else ""
    return f"{prefix}{8 * size}" if prefix and size in (1, 2, 4, 8) else ""


def _value(type_: Entry) -> tuple[str, int]:
    """Return the type of a value, and the alignment of a struct; 0 for any other type, and "" for an unknown one."""
    dtype = _number(type_)
    size = type_.number("byte_size")
    if dtype or type_.tag not in (_STRUCT, _CLASS) or not 0 < size <= _LARGEST_STRUCT:
        return dtype, 0
    return (f"uint8x{size}" if size > 1 else "uint8"), _align(type_)


def _align(type_: Entry | None, depth: int = 0) -> int:
    """Return the alignment of a type. DWARF has none, so it follows from the members; 1 for a packed struct."""
    type_ = _plain(type_)
    if type_ is None or depth > _MAX_DEPTH:
        return 1
    if not type_.align:
        type_.align = 1  # for a type that contains itself
        type_.align = _find_align(type_, depth)
    return type_.align


def _find_align(type_: Entry, depth: int) -> int:
    explicit, size = type_.number("alignment"), type_.number("byte_size")
    if explicit or type_.tag == _ARRAY:
        return min(explicit, 4096) if explicit else _align(type_.type(), depth + 1)
    if type_.tag not in (_STRUCT, _CLASS):
        return size if size in (1, 2, 4, 8) else 4
    members = [each for each in type_.children if each.tag in (_MEMBER, _INHERITANCE)]
    aligns = [max(_align(each.type(), depth + 1), each.number("alignment")) for each in members]
    fits = all(each.number("data_member_location") % align == 0 for each, align in zip(members, aligns, strict=True))
    largest = max(aligns, default=1)
    return largest if fits and size % largest == 0 else 1


def _fields(type_: Entry) -> list[tuple[str, int, Entry | None]] | None:
    """Return name, offset and type of the members of a struct; None if they cannot be described: bit-fields and base classes."""
    fields = []
    for each in type_.children:
        if each.tag == _MEMBER and "external" in each.fields:
            continue  # a static member
        if each.tag == _INHERITANCE or "bit_size" in each.fields:
            return None
        if each.tag == _MEMBER:
            if "data_member_location" not in each.fields:
                return None
            fields.append((each.text("name"), each.number("data_member_location"), each.type()))
    return fields if all(name for name, _, _ in fields) else None


def _describe(entry: Entry | None) -> MemberType:
    type_ = _plain(entry)
    counts: list[int] = []
    while type_ is not None and type_.tag == _ARRAY and "GNU_vector" not in type_.fields and len(counts) < _MAX_DEPTH:
        counts += _counts(type_)
        type_ = _plain(type_.type())
    if type_ is None or type_.tag == _ARRAY:
        return MemberType(0)
    dtype = _number(type_)
    size = type_.number("byte_size")
    dims: list[tuple[int, int]] = []
    stride = size
    for count in reversed(counts):
        dims.insert(0, (count, stride))
        stride *= count
    return MemberType(size, dtype, fields=None if dtype or type_.tag not in (_STRUCT, _CLASS) else _fields(type_), dims=dims)


def _counts(type_: Entry) -> list[int]:
    counts = []
    for each in type_.children:
        if each.tag == _SUBRANGE:
            counts.append(each.number("count") or (each.number("upper_bound") + 1 if "upper_bound" in each.fields else 0))
    return counts


def _sections(code: bytes) -> dict[str, memoryview]:
    """Return the debug sections of a little-endian ELF file."""
    if code[:4] != b"\x7fELF" or code[5:6] != b"\x01":
        raise ValueError("the file is not a little-endian ELF file")
    elf = ElfFile(code)
    names = elf.names()
    results = {}
    for number, (start, kind, *_) in enumerate(elf.sections()):
        name = bytes(names[start : start + 64]).partition(b"\0")[0].decode("ascii", "replace")
        if name.startswith(".debug_") and kind != NO_BITS:
            results[name] = elf.contents(number)
    return results


# -- The entries of debug information, as a tree. Source: the DWARF Debugging Information Format, versions 2 to 5.


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
_MAX_ENTRIES, _MAX_NESTED, _MAX_TEXT = 1 << 18, 256, 4096


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
            if len(self._entries) > _MAX_ENTRIES or len(parents) > _MAX_NESTED:
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
