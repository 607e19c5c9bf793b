"""The check of 64-bit ELF files of devices, before a driver loads one: a driver may crash on a truncated file."""

from __future__ import annotations

from struct import Struct, calcsize

__all__ = ["find_damage"]

#: The type, the offset and the size of a section, and of a segment. The type of a segment is not used.
_SECTION, _SEGMENT = "<4xI16xQQ", "<I4xQ16xQ"
#: The type of a section that takes no bytes of the file (NOBITS).
_NO_BITS = 8


def find_damage(code: bytes | memoryview) -> str:
    """Return what is wrong with the header, the sections and the segments of a 64-bit little-endian ELF file; "" if all are in the file.

    Parameters
    ----------
    code
        The file. The caller has checked its magic.
    """
    view = memoryview(code)
    size = len(view)
    if size < 64:
        return f"it has {size} bytes; an ELF header has 64"

    def field(at: int, width: int) -> int:
        return int.from_bytes(view[at : at + width], "little")

    sections = ("section", _SECTION, field(40, 8), field(58, 2), field(60, 2), 64, _NO_BITS)
    segments = ("segment", _SEGMENT, field(32, 8), field(54, 2), field(56, 2), 56, -1)
    for title, layout, start, step, count, least, no_bits in (sections, segments):
        if count and (step < least or start + step * count > size):
            return f"its table of {title}s is outside of the file"
        entry = Struct(f"{layout}{step - calcsize(layout)}x") if count else None
        for number, (kind, offset, length) in enumerate(entry.iter_unpack(view[start : start + step * count]) if entry else ()):
            if offset + length > size and kind != no_bits:
                return f"{title} {number} has bytes {offset} to {offset + length}, and the file has {size}"
    return ""
