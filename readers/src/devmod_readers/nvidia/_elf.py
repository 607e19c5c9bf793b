"""The sections of a cubin, which is a 64-bit little-endian ELF file."""

from __future__ import annotations

from devmod.errors import FormatError
from devmod_readers.elf import ElfFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from devmod.backend import Binary

CUDA = 190
_HEADER = 64
_OVERLAP = "its sections overlap"


class Sections:
    """The sections of a cubin. Contents and names are read when they are requested.

    Raises
    ------
    FormatError
        The bytes are not a 64-bit cubin, or its table of sections is invalid.
    """

    def __init__(self, data: Binary) -> None:
        view = memoryview(data).cast("B")
        if len(view) < _HEADER or bytes(view[:4]) != b"\x7fELF":
            raise error("its bytes do not begin with an ELF header")
        if bytes(view[4:6]) != b"\2\1":
            raise error("expected a 64-bit little-endian ELF file")
        self._file = ElfFile(view)
        if self._file.machine != CUDA:
            raise error(f"its machine is {self._file.machine}; expected {CUDA} (CUDA)")
        try:
            self._names = bytes(self._file.names())
        except ValueError as problem:
            raise error(str(problem)) from None
        #: The bytes that may still be read. Sections of a sound file do not overlap.
        self._room = 2 * len(view)

    def named(self, kind: int, prefix: str) -> list[tuple[str, int, int]]:
        """Return the sections of a type whose names begin with `prefix`: the rest of the name, the number, and the field `info` of each.

        Characters of a name that are not UTF-8 are escaped.
        """
        # This loop is the most of the time in which a module with many kernels is loaded, so it uses local names.
        names, find, room, start_of_name, found = self._names, self._names.find, self._room, prefix.encode(), []
        length = len(start_of_name)
        for number, (start, each, _, size, _, info, _) in enumerate(self._file.sections()):
            if each != kind:
                continue
            end = find(b"\0", start)
            if end < 0:
                raise error("the name of a section is outside of the table of names")
            room -= end - start
            if room < 0:
                raise error(_OVERLAP)
            if names.startswith(start_of_name, start, end):
                room -= size
                found.append((names[start + length : end].decode("utf-8", "backslashreplace"), number, info))
        self._room = room
        return found

    def of_type(self, kind: int) -> Iterator[memoryview]:
        """Yield the contents of each section of a type."""
        for number, (_, each, _, size, _, _, _) in enumerate(self._file.sections()):
            if each == kind:
                self._room -= size
                if self._room < 0:
                    raise error(_OVERLAP)
                yield self.contents(number)

    def contents(self, number: int) -> memoryview:
        """Return the bytes of a section."""
        try:
            return self._file.contents(number)
        except ValueError as problem:
            raise error(str(problem)) from None


def error(problem: str) -> FormatError:
    """Return the error for an invalid cubin."""
    return FormatError(f"the cubin is invalid: {problem}", kind="cuda")
