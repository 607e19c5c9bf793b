"""Read the headers of a shared object, before a runner loads it. The file may come from a stranger, so each number is checked."""

from __future__ import annotations

import re

from devmod.errors import FormatError
from devmod_readers.elf import LOADED, ElfFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod.backend import Binary

_HEXAGON, _SHARED = 164, 3
#: The largest module: its segments with the gaps between them.
MAX_SPAN = 1 << 28
_MAX_ALIGNMENT = 1 << 16
#: The error for a module whose functions take TVM's packed arguments.
PACKED = (
    "the hexagon module is one of TVM's packed calling convention, which devmod does not support. Load it with TVM, or export plain C "
    "functions"
)
#: The start of the symbol of a function that TVM compiled.
_TVM_PREFIX = "__tvm_ffi_"
#: A symbol that TVM's libraries import, or define: pointers to functions of its runtime, and its own functions.
_TVM_SYMBOL = re.compile(rb"\0(?:(?:__)?TVM(?:API|Backend|FFI|Func)|__tvm_)\w+\0")


def is_packed(info: FunctionInfo, code: Binary) -> bool:
    """Return whether a function takes TVM's packed arguments, by its symbol and by the symbols of its shared object.

    A library of TVM may import nothing, and have pointers that TVM sets. A function with an interface is called by that.
    """
    return info.name.startswith(_TVM_PREFIX) or (info.interface is None and _TVM_SYMBOL.search(code) is not None)


def read_extent(code: Binary) -> tuple[int, int]:
    """Return the bytes that the segments of a shared object take in memory, and their alignment.

    Raises
    ------
    FormatError
        The file is not a shared object for Hexagon, or its headers are damaged.
    """
    if bytes(code[:4]) != b"\x7fELF":
        raise _invalid("it does not begin with the ELF magic")
    try:
        elf = ElfFile(code)
        segments = list(elf.segments())
    except ValueError as problem:
        raise _invalid(str(problem)) from None
    if elf.form != b"\1\1" or elf.machine != _HEXAGON:
        raise _invalid(f"it is for ELF machine {elf.machine} with class {elf.form[0]}, expected machine {_HEXAGON} (Hexagon) with class 1")
    if elf.type != _SHARED:
        raise _invalid(f"it is of ELF type {elf.type}, expected {_SHARED}, a shared object: link it with ld.lld -shared")
    span = alignment = 0
    for number, segment in enumerate(segments):
        if segment.kind != LOADED:
            continue
        if segment.offset + segment.size > len(code) or segment.size > segment.memory_size:
            raise _invalid(f"segment {number} ends outside the file")
        span, alignment = max(span, segment.address + segment.memory_size), max(alignment, segment.alignment)
    if not 0 < span <= MAX_SPAN:
        raise _invalid(f"its segments take {span} bytes, expected 1 to {MAX_SPAN}")
    if alignment & (alignment - 1) or alignment > _MAX_ALIGNMENT:
        raise _invalid(f"its segments are aligned to {alignment} bytes, expected a power of two up to {_MAX_ALIGNMENT}")
    return span, alignment


def _invalid(reason: str) -> FormatError:
    return FormatError(f"the hexagon payload of format 'so' is damaged, or is not a shared object: {reason}", kind="hexagon")
