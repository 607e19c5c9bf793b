"""The signatures of functions in the debug information of an ELF file (DWARF 2 to 5).

The file comes from a stranger, so each offset is checked. Types that devmod has no name for are "".
"""

from __future__ import annotations

from struct import error as struct_error

from devmod import Param
from devmod.errors import FormatError
from devmod_readers.dwarf._entries import Entry, read_entries
from devmod_readers.elf import NO_BITS, ElfFile
from devmod_readers.reflection import MemberType, ReflectedFunction, describe_members, with_members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

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
