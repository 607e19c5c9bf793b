"""The kernel descriptors of a code object: 64 bytes each, with the place of the kernel's first instruction.

Source: LLVM's "User Guide for AMDGPU Backend", kernel descriptor. The dynamic symbol ``<name>.kd`` has the address.
"""

from __future__ import annotations

from devmod.errors import FormatError, quote_name
from devmod_readers.elf import DYNAMIC_SYMBOLS, LOADED, ElfFile, find_damage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from devmod.backend import Binary
    from devmod_readers.elf import Segment

#: The flag of a segment that has code.
_EXECUTABLE = 1
#: The limits on the tables of dynamic symbols, of which ELF allows one, and on the loaded segments, of which a code object has about six.
_MAX_TABLES, _MAX_LOADED = 1, 64
#: The limit on the bytes of a symbol's name: the names of many symbols may end at one place.
_MAX_NAME = 1 << 16
_DESCRIPTOR_BYTES = 64
#: Instructions are aligned to 256 bytes.
_ENTRY_ALIGNMENT = 256


def check_code_object(code: Binary, symbols: Iterable[str]) -> None:
    """Check that the sections and segments of a code object are in the file, and that kernels have a descriptor and code.

    Parameters
    ----------
    code
        The code object.
    symbols
        The symbols of the descriptors: `CodeObjectKernel.symbol`.

    Raises
    ------
    FormatError
        The file is truncated or damaged.
    """
    problem = find_damage(code) or _find_damage(memoryview(code).cast("B"), list(symbols))
    if problem:
        raise FormatError(f"the rocm payload of format 'hsaco' is truncated or damaged: {problem}", kind="rocm")


def _find_damage(code: memoryview, symbols: list[str]) -> str:
    elf = ElfFile(code)
    loaded = [segment for segment in elf.segments() if segment.kind == LOADED]
    if len(loaded) > _MAX_LOADED:
        return f"it has {len(loaded)} loaded segments; expected at most {_MAX_LOADED}"
    tables = [
        (number, link)
        for number, (_, kind, _, _, link, _, width) in enumerate(elf.sections())
        if kind == DYNAMIC_SYMBOLS and width == elf.symbol_bytes and link < elf.section_count
    ]
    if len(tables) > _MAX_TABLES:
        return f"it has {len(tables)} tables of dynamic symbols; expected at most {_MAX_TABLES}"
    addresses = dict(_dynamic_symbols(elf, tables, {symbol.encode() for symbol in symbols}))
    for symbol in symbols:
        label = f"the kernel {quote_name(symbol.removesuffix('.kd'))}"
        address = addresses.get(symbol.encode())
        if address is None:
            return f"{label} has no descriptor"
        place = next((each.offset + address - each.address for each in loaded if _contains(each, address, _DESCRIPTOR_BYTES)), -1)
        if place < 0:
            return f"the descriptor of {label} is outside of the file"
        entry = address + int.from_bytes(code[place + 16 : place + 24], "little", signed=True)
        if entry % _ENTRY_ALIGNMENT or not any(each.flags & _EXECUTABLE and _contains(each, entry, 1) for each in loaded):
            return f"the code of {label} is outside of the file"
    return ""


def _contains(segment: Segment, address: int, size: int) -> bool:
    """Return whether the bytes at an address are in the file's part of a segment."""
    return segment.address <= address <= segment.address + segment.size - size


def _dynamic_symbols(elf: ElfFile, tables: Iterable[tuple[int, int]], names: set[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the symbols of `names` in the tables, with their addresses. A table is a section and the section of its names."""
    lengths = {len(name) for name in names}
    longest = min(max(lengths, default=0), _MAX_NAME)
    for table, link in tables:
        strings = bytes(elf.contents(link))
        for start, _, section, address, _ in elf.symbols(elf.contents(table)):
            end = strings.find(b"\0", start, start + longest + 1)
            if section and end - start in lengths and strings[start:end] in names:
                yield strings[start:end], address
