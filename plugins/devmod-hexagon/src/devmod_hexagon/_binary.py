"""Read the headers of a shared object, before a runner loads it. The file may come from a stranger,
so each number is checked.
"""

from __future__ import annotations

import re
import struct

from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod.backend import Binary

_HEADER = struct.Struct("<16sHHIIIIIHHHHHH")
_SEGMENT = struct.Struct("<IIIIIIII")
_HEXAGON = 164
_SHARED = 3
_LOAD = 1
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
#: A symbol that TVM's libraries import, or define: pointers to functions of its runtime, and its
#: own functions.
_TVM_SYMBOL = re.compile(rb"\0(?:(?:__)?TVM(?:API|Backend|FFI|Func)|__tvm_)\w+\0")


def is_packed(info: FunctionInfo, code: Binary) -> bool:
    """Return whether a function takes TVM's packed arguments, by its symbol and by the symbols of
    its shared object.

    A library of TVM may import nothing, and have pointers that TVM sets. A function with an
    interface is called by that.
    """
    return info.name.startswith(_TVM_PREFIX) or (
        info.interface is None and _TVM_SYMBOL.search(code) is not None
    )


def read_extent(code: Binary) -> tuple[int, int]:
    """Return the bytes that the segments of a shared object take in memory, and their alignment.

    Raises
    ------
    FormatError
        The file is not a shared object for Hexagon, or its headers are damaged.
    """
    if len(code) < _HEADER.size:
        raise _invalid(f"{len(code)} bytes are less than an ELF header")
    ident, type_, machine, *fields = _HEADER.unpack_from(code)
    offset = fields[2]
    entry_size = fields[6]
    count = fields[7]
    if ident[:4] != b"\x7fELF":
        raise _invalid("it does not begin with the ELF magic")
    if ident[4:6] != b"\1\1" or machine != _HEXAGON:
        raise _invalid(
            f"it is for ELF machine {machine} with class {ident[4]}, expected machine {_HEXAGON} (Hexagon) with class 1"
        )
    if type_ != _SHARED:
        raise _invalid(
            f"it is of ELF type {type_}, expected {_SHARED}, a shared object: link it with ld.lld -shared"
        )
    if entry_size != _SEGMENT.size or offset + count * _SEGMENT.size > len(code):
        raise _invalid("its program headers end outside the file")
    span = alignment = 0
    for number in range(count):
        kind, start, address, _, in_file, in_memory, _, align = _SEGMENT.unpack_from(
            code, offset + number * _SEGMENT.size
        )
        if kind != _LOAD:
            continue
        if start + in_file > len(code) or in_file > in_memory:
            raise _invalid(f"segment {number} ends outside the file")
        span, alignment = max(span, address + in_memory), max(alignment, align)
    if not 0 < span <= MAX_SPAN:
        raise _invalid(f"its segments take {span} bytes, expected 1 to {MAX_SPAN}")
    if alignment & (alignment - 1) or alignment > _MAX_ALIGNMENT:
        raise _invalid(
            f"its segments are aligned to {alignment} bytes, expected a power of two up to {_MAX_ALIGNMENT}"
        )
    return span, alignment


def _invalid(reason: str) -> FormatError:
    return FormatError(
        f"the hexagon payload of format 'so' is damaged, or is not a shared object: {reason}",
        kind="hexagon",
    )
