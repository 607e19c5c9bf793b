"""The kernel descriptors of a code object: 64 bytes each, with the place of the kernel's first instruction.

Source: LLVM's "User Guide for AMDGPU Backend", kernel descriptor. The dynamic symbol ``<name>.kd`` has the address.
"""

from __future__ import annotations

from struct import Struct

from devmod.errors import FormatError, quote_name
from devmod_targets.elf import find_damage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from devmod.backend import Binary

#: The type, the offset, the size, the link and the step of a section; a symbol; the fields of a segment.
_SECTION = Struct("<4xI16xQQI12xQ")
_SYMBOL = Struct("<IBBHQQ")
_SEGMENT = Struct("<IIQQQQQQ")
_DYNAMIC_SYMBOLS = 11
_LOAD, _EXECUTABLE = 1, 1
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
    (table, step, count) = (int.from_bytes(code[start:end], "little") for start, end in ((32, 40), (54, 56), (56, 58)))
    segments = [_SEGMENT.unpack_from(code, table + step * number) for number in range(count)]
    loaded = [segment for segment in segments if segment[0] == _LOAD]
    addresses = dict(_dynamic_symbols(code, {symbol.encode() for symbol in symbols}))
    for symbol in symbols:
        label = f"the kernel {quote_name(symbol.removesuffix('.kd'))}"
        address = addresses.get(symbol.encode())
        if address is None:
            return f"{label} has no descriptor"
        place = next(
            (start + address - at for _, _, start, at, _, size, _, _ in loaded if at <= address <= at + size - _DESCRIPTOR_BYTES), -1
        )
        if place < 0:
            return f"the descriptor of {label} is outside of the file"
        entry = address + int.from_bytes(code[place + 16 : place + 24], "little", signed=True)
        if entry % _ENTRY_ALIGNMENT or not any(
            flags & _EXECUTABLE and at <= entry < at + size for _, flags, _, at, _, size, _, _ in loaded
        ):
            return f"the code of {label} is outside of the file"
    return ""


def _dynamic_symbols(code: memoryview, names: set[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the symbols of `names` in the file's table of dynamic symbols, with their addresses."""
    table, step, count = (int.from_bytes(code[start:end], "little") for start, end in ((40, 48), (58, 60), (60, 62)))
    sections = [_SECTION.unpack_from(code, table + step * number) for number in range(count)]
    longest = max(map(len, names), default=0)
    for kind, offset, size, link, width in sections:
        if kind != _DYNAMIC_SYMBOLS or width != _SYMBOL.size or link >= len(sections):
            continue
        strings = bytes(code[sections[link][1] : sections[link][1] + sections[link][2]])
        for at in range(offset, offset + size - width + 1, width):
            name, _, _, section, address, _ = _SYMBOL.unpack_from(code, at)
            text, end, _ = strings[name : name + longest + 1].partition(b"\0")
            if section and end and text in names:
                yield text, address
