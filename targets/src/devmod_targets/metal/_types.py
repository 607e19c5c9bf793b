"""The element types and sizes of Metal's types, as libclang reads them."""

from __future__ import annotations

import re

from devmod_targets.authoring.clang import element_type, lane_type, type_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

POINTER, REFERENCE, RECORD = 101, 103, 105
_ARRAYS = (112, 114)  # of fixed length, of unknown length
_ATOMIC = re.compile(r"^(?:const |volatile |__\w+ )*metal::_?atomic<(.+)>$")
PACKED = re.compile(r"^(?:const |volatile |__\w+ )*metal::__devmod_packed<[^<>]+, (\d)>$")


def metal_element_type(type_: Any) -> tuple[str, int]:
    """Return the same as `element_type`, with atomics and packed vectors."""
    if type_kind(type_) == RECORD:
        atomic, packed = _ATOMIC.match(type_.spelling), PACKED.match(type_.spelling)
        if atomic or packed:
            number, _ = element_type(type_.get_template_argument_type(0).get_canonical())
            return (f"{number}x{packed[1]}" if packed else number), 0
    return element_type(type_)


def open_ended_element(type_: Any) -> tuple[str, int] | None:
    """Return the element type of a struct that ends in an array of length one or unknown; None for any other struct.

    Compilers of other languages write a buffer's content so: ``struct { float x[1]; } &``.
    """
    fields = list(type_.get_fields())
    last = fields[-1].type.get_canonical() if fields else None
    if last is None or type_kind(last) not in _ARRAYS or (type_kind(last) == _ARRAYS[0] and last.element_count > 1):
        return None
    return element_type(lane_type(last)) if len(fields) == 1 else ("", 0)


def size_of(type_: Any) -> int:
    return int(type_.get_size())


def metal_spelling(text: str) -> str:
    return text.replace("__global_host ", "constant ").replace("__global ", "device ").replace("__local ", "threadgroup ")
