"""The check of 64-bit ELF files of devices, before a driver loads one: a driver may crash on a truncated file."""

from __future__ import annotations

from struct import Struct

__all__ = ["find_damage"]

#: The type, the offset and the size of a section, and the offset and the size of a segment.
_SECTION, _SEGMENT = Struct("<4xI16xQQ"), Struct("<8xQ16xQ")
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

    tables = (("section", field(40, 8), field(58, 2), field(60, 2), 64), ("segment", field(32, 8), field(54, 2), field(56, 2), 56))
    for title, start, step, count, least in tables:
        if count and (step < least or start + step * count > size):
            return f"its table of {title}s is outside of the file"
        for number in range(count):
            if title == "section":
                kind, offset, length = _SECTION.unpack_from(view, start + step * number)
                offset, length = (0, 0) if kind == _NO_BITS else (offset, length)
            else:
                offset, length = _SEGMENT.unpack_from(view, start + step * number)
            if offset + length > size:
                return f"{title} {number} has bytes {offset} to {offset + length}, and the file has {size}"
    return ""
