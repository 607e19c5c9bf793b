"""The sections of a host's ELF file (an object, a library or a program) in which compilers put device code."""

from __future__ import annotations

from struct import unpack_from

from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: NVIDIA's fatbins, of a whole program and of objects to link; HIP's bundles; LLVM's OffloadBinaries.
DEVICE_SECTIONS = (b".nv_fatbin", b"__nv_relfatbin", b".hip_fatbin", b".llvm.offloading")
_SECTION, _NO_DATA = 64, 8


def device_sections(view: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Yield the names and the contents of the sections with device code.

    A file header has the offset of the section headers at 40 (u64), and at 58 their size, their number and the number of the section of
    names (u16 each). A section header has 64 bytes: name u32, type u32, flags u64, address u64, offset u64, size u64, ….

    Raises
    ------
    FormatError
        The file is not a 64-bit little-endian ELF file, or is damaged.
    """
    if len(view) < 64 or view[4] != 2 or view[5] != 1:
        raise FormatError("the host's file is not supported: expected a 64-bit little-endian ELF file")
    (table,) = unpack_from("<Q", view, 40)
    step, count, names = unpack_from("<HHH", view, 58)
    if count and (step != _SECTION or table + step * count > len(view) or names >= count):
        raise FormatError("the host's ELF file is damaged: its table of sections is outside of the file")

    def contents(number: int) -> tuple[int, int, memoryview]:
        """Return the offset of the name, the type and the contents of a section."""
        name, kind = unpack_from("<II", view, table + step * number)
        offset, size = unpack_from("<QQ", view, table + step * number + 24)
        if kind != _NO_DATA and offset + size > len(view):
            raise FormatError(f"the host's ELF file is damaged: section {number} is outside of the file")
        return name, kind, view[offset : offset + size]

    strings = contents(names)[2] if count else memoryview(b"")
    longest = max(map(len, DEVICE_SECTIONS)) + 1
    total = 0
    for number in range(count):
        name, kind, data = contents(number)
        text = bytes(strings[name : name + longest]).partition(b"\0")[0]
        if text in DEVICE_SECTIONS and kind != _NO_DATA:
            total += len(data)
            if total > len(view):
                raise FormatError("the host's ELF file is damaged: its sections overlap")
            yield text.decode(), data
