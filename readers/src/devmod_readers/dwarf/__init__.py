"""The reader of debug information (DWARF 2 to 5). `read_functions` returns the signatures of the functions of an ELF file."""

from __future__ import annotations

from devmod_readers.dwarf._functions import read_functions as read_functions

__all__ = ["read_functions"]
