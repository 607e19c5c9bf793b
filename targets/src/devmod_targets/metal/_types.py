"""The element types and sizes of Metal's types, as libclang reads them."""

from __future__ import annotations

import re

from devmod_targets.authoring._clang_records import record_members
from devmod_targets.authoring.clang import element_type, lane_type, type_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod import Member

POINTER, REFERENCE, RECORD = 101, 103, 105
_ARRAYS = (112, 114)  # of fixed length, of unknown length
_ATOMIC = re.compile(r"^(?:const |volatile |__\w+ )*metal::_?atomic<(.+)>$")
_ARRAY_RECORD = re.compile(r"^(?:const |volatile |__\w+ )*metal::(?:matrix|array)<")
_PACKED = re.compile(r"^(?:const |volatile |__\w+ )*metal::__devmod_packed<[^<>]+, (\d)>$")


def metal_element_type(type_: Any) -> tuple[str, int]:
    """Return the same as `element_type`, with atomics and packed vectors."""
    if type_kind(type_) == RECORD:
        atomic, packed = _ATOMIC.match(type_.spelling), _PACKED.match(type_.spelling)
        if atomic or packed:
            number, _ = element_type(type_.get_template_argument_type(0).get_canonical())
            return (f"{number}x{packed[1]}" if packed else number), 0
    return element_type(type_)


def buffer_element(target: Any, is_reference: bool) -> tuple[str, int, int, tuple[Member, ...]]:
    """Return the element type of a buffer, the alignment of a struct, the bytes that the kernel requires, and the members of a struct.

    A pointer may refer to any number of elements. A reference refers to one object, whose size the kernel requires.
    """
    size = max(size_of(target), 0) if is_reference else 0
    if size and type_kind(target) == RECORD:
        open_ended = _open_ended_element(target)
        if open_ended is not None:
            return open_ended
    while type_kind(target) == _ARRAYS[0]:
        target = lane_type(target)
    if _PACKED.match(target.spelling):
        # Packed vectors have no padding, so the elements are scalars.
        target = target.get_template_argument_type(0).get_canonical()
    element, align = metal_element_type(target)
    return element, align, size, struct_members(target) if align else ()


def _open_ended_element(type_: Any) -> tuple[str, int, int, tuple[Member, ...]] | None:
    """Return the element type of a struct that ends in an array of length one or unknown; None for any other struct.

    Compilers of other languages write a buffer's content so: ``struct { float x[1]; } &``.
    """
    fields = list(type_.get_fields())
    last = fields[-1].type.get_canonical() if fields else None
    if last is None or type_kind(last) not in _ARRAYS or (type_kind(last) == _ARRAYS[0] and last.element_count > 1):
        return None
    if len(fields) != 1:
        return "", 0, 0, ()
    element, align = element_type(lane_type(last))
    return element, align, 0, struct_members(lane_type(last)) if align else ()


def struct_members(type_: Any) -> tuple[Member, ...]:
    """Return the members of a struct; a matrix has one member without a name, the array of its columns."""
    return record_members(type_, number_type=metal_element_type, array_record=_array_record)


def _array_record(type_: Any) -> tuple[list[tuple[int, int]], Any] | None:
    """Return the dimension and the element type of ``metal::matrix`` and ``metal::array``, each of which has one member, an array."""
    if not _ARRAY_RECORD.match(type_.spelling):
        return None
    fields = [field.type.get_canonical() for field in type_.get_fields()]
    if len(fields) != 1 or type_kind(fields[0]) != _ARRAYS[0]:
        return None
    element = lane_type(fields[0])
    return [(fields[0].element_count, size_of(element))], element


def size_of(type_: Any) -> int:
    return int(type_.get_size())


def metal_spelling(text: str) -> str:
    return text.replace("__global_host ", "constant ").replace("__global ", "device ").replace("__local ", "threadgroup ")
