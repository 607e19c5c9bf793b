"""The functions that a shared object exports, in the order of their addresses, their signatures, and those that an object hides."""

from __future__ import annotations

from devmod.errors import FormatError
from devmod_readers.dwarf import read_functions
from devmod_readers.elf import DYNAMIC_SYMBOLS, ElfFile
from devmod_targets.authoring.instances import keys_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from devmod_readers.reflection import ReflectedFunction

_SYMBOLS, _FUNCTION, _LOCAL = 2, 2, 0
#: The place of the visibility in a symbol, its bits, and the values for hidden and for exported symbols that nothing replaces.
_OTHER, _VISIBILITY, _HIDDEN, _PROTECTED = 13, 3, (1, 2), 3


def exported_functions(code: bytes) -> list[str]:
    """Return the names of the functions in the dynamic symbol table of an ELF file that ld.lld has written."""
    elf = ElfFile(code)
    results = []
    for number, (_, kind, _, _, link, _, _) in enumerate(elf.sections()):
        if kind != DYNAMIC_SYMBOLS:
            continue
        names = bytes(elf.contents(link))
        for start, info, section, address, _ in elf.symbols(elf.contents(number)):
            if info & 15 == _FUNCTION and info >> 4 != _LOCAL and section:
                results.append((address, names[start : names.index(b"\0", start)].decode("utf-8", "backslashreplace")))
    return [name for _, name in sorted(results)]


def described_functions(code: bytes, symbols: Collection[str]) -> dict[str, ReflectedFunction]:
    """Return the functions with a signature in the debug information, by name for callers.

    Raises
    ------
    FormatError
        The debug information is damaged.
    """
    found = read_functions(code, symbols)
    keys = keys_of((symbol, name) for symbol, (name, _) in found.items())
    return {keys[symbol]: function for symbol, (_, function) in found.items() if function is not None}


def export_hidden(code: bytes, names: Collection[str]) -> bytes:
    """Return a relocatable object that exports its hidden functions: those of `names`, or all if there are no names.

    Raises
    ------
    FormatError
        The object is damaged.
    """
    result = bytearray(code)
    try:
        elf = ElfFile(result)
        for number, (_, kind, _, _, link, _, _) in enumerate(elf.sections()):
            if kind == _SYMBOLS:
                _export(elf, elf.contents(number), bytes(elf.contents(link)), names)
    except ValueError as error:
        raise FormatError(f"the object is damaged: {error}", kind="hexagon") from None
    return bytes(result)


def _export(elf: ElfFile, table: memoryview, strings: bytes, names: Collection[str]) -> None:
    for place, (start, info, section, _, _) in enumerate(elf.symbols(table)):
        other = elf.symbol_bytes * place + _OTHER
        if info & 15 == _FUNCTION and info >> 4 != _LOCAL and section and table[other] & _VISIBILITY in _HIDDEN:
            name = strings[start : strings.index(b"\0", start)].decode("utf-8", "backslashreplace")
            if not names or name in names:
                table[other] |= _PROTECTED
