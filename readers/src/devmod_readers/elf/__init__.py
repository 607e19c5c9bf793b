"""The reader of ELF files: cubins, code objects, shared objects, and the files of a host.

- `ElfFile` has the header, the sections, the segments and the symbols of a file.
- `find_damage` checks that the sections and the segments are in the file, before a driver loads it.
- `symbol_bytes` returns the bytes of a symbol of a shared library.

core has a reader of the header alone, for the architecture of a payload.
"""

from __future__ import annotations

from devmod_readers.elf._file import DYNAMIC_SYMBOLS as DYNAMIC_SYMBOLS
from devmod_readers.elf._file import LOADED as LOADED
from devmod_readers.elf._file import NO_BITS as NO_BITS
from devmod_readers.elf._file import NOTES as NOTES
from devmod_readers.elf._file import ElfFile as ElfFile
from devmod_readers.elf._file import Segment as Segment
from devmod_readers.elf._file import find_damage as find_damage
from devmod_readers.elf._symbols import symbol_bytes as symbol_bytes

__all__ = ["DYNAMIC_SYMBOLS", "LOADED", "NOTES", "NO_BITS", "ElfFile", "Segment", "find_damage", "symbol_bytes"]
