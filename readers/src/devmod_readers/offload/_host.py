"""The sections of a host's ELF file (an object, a library or a program) in which compilers put device code."""

from __future__ import annotations

from devmod.errors import FormatError
from devmod_readers.elf import NO_BITS, ElfFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: NVIDIA's fatbins, of a whole program and of objects to link; HIP's bundles; LLVM's OffloadBinaries.
DEVICE_SECTIONS = (b".nv_fatbin", b"__nv_relfatbin", b".hip_fatbin", b".llvm.offloading")


def device_sections(view: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Yield the names and the contents of the sections with device code.

    Raises
    ------
    FormatError
        The file is not a 64-bit little-endian ELF file, or is damaged.
    """
    if len(view) < 64 or view[4] != 2 or view[5] != 1:
        raise FormatError("the host's file is not supported: expected a 64-bit little-endian ELF file")
    longest = max(map(len, DEVICE_SECTIONS)) + 1
    total = 0
    try:
        tables = ElfFile(view)
        names = tables.names()
        for number, (name, kind, *_) in enumerate(tables.sections()):
            data = tables.contents(number)
            text = bytes(names[name : name + longest]).partition(b"\0")[0]
            if text in DEVICE_SECTIONS and kind != NO_BITS:
                total += len(data)
                if total > len(view):
                    raise ValueError("its sections overlap")
                yield text.decode(), data
    except ValueError as problem:
        raise FormatError(f"the host's ELF file is damaged: {problem}") from None
