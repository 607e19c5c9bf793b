"""The element types and sizes of Metal's types, as libclang reads them."""

from __future__ import annotations

import re
from typing import Any

from devmod import Member
from devmod_targets.authoring.c_functions import record_members
from devmod_targets.authoring.clang import (
    ARRAYS,
    FIXED_ARRAY,
    RECORD,
    element_type,
    lane_type,
    type_kind,
)

_ATOMIC = re.compile(r"^(?:const |volatile |__\w+ )*metal::_?atomic<(.+)>$")
_ARRAY_RECORD = re.compile(r"^(?:const |volatile |__\w+ )*metal::(?:matrix|array)<")
_PACKED = re.compile(r"^(?:const |volatile |__\w+ )*metal::__devmod_packed<[^<>]+, (\d)>$")
_Members = tuple[Member, ...]


def metal_element_type(type_: Any) -> tuple[str, int]:
    """Return the same as `element_type`, with atomics and packed vectors."""
    if type_kind(type_) == RECORD:
        packed = _PACKED.match(type_.spelling)
        if packed or _ATOMIC.match(type_.spelling):
            number, _ = element_type(type_.get_template_argument_type(0).get_canonical())
            if packed:
                return f"{number}x{packed[1]}", 0
            return number, 0
    return element_type(type_)


def buffer_element(target: Any, is_reference: bool) -> tuple[str, int, int, _Members]:
    """Return the element type of a buffer, the alignment of a struct, the bytes that the kernel
    requires, and the members of a struct.

    A pointer may refer to any number of elements. A reference refers to one object, whose size the
    kernel requires.
    """
    size = 0
    if is_reference:
        size = max(size_of(target), 0)
    if size and type_kind(target) == RECORD:
        open_ended = _open_ended_element(target)
        if open_ended is not None:
            return open_ended
    while type_kind(target) == FIXED_ARRAY:
        target = lane_type(target)
    if _PACKED.match(target.spelling):
        # Packed vectors have no padding, so the elements are scalars.
        target = target.get_template_argument_type(0).get_canonical()
    element, align = metal_element_type(target)
    members: _Members = ()
    if align:
        members = struct_members(target)
    return element, align, size, members


def _open_ended_element(type_: Any) -> tuple[str, int, int, _Members] | None:
    """Return the element type of a struct that ends in an array of length one or unknown; None for
    any other struct.

    Compilers of other languages write a buffer's content so: ``struct { float x[1]; } &``.
    """
    fields = list(type_.get_fields())
    if not fields:
        return None
    last = fields[-1].type.get_canonical()
    if type_kind(last) not in ARRAYS:
        return None
    if type_kind(last) == FIXED_ARRAY and last.element_count > 1:
        return None
    if len(fields) != 1:
        return "", 0, 0, ()
    lane = lane_type(last)
    element, align = element_type(lane)
    members: _Members = ()
    if align:
        members = struct_members(lane)
    return element, align, 0, members


def struct_members(type_: Any) -> _Members:
    """Return the members of a struct; a matrix has one member without a name, the array of its
    columns.
    """
    return record_members(type_, number_type=metal_element_type, array_record=_array_record)


def _array_record(type_: Any) -> tuple[list[tuple[int, int]], Any] | None:
    """Return the dimension and the element type of ``metal::matrix`` and ``metal::array``, each of
    which has one member, an array.
    """
    if not _ARRAY_RECORD.match(type_.spelling):
        return None
    fields = [field.type.get_canonical() for field in type_.get_fields()]
    if len(fields) != 1 or type_kind(fields[0]) != FIXED_ARRAY:
        return None
    element = lane_type(fields[0])
    return [(fields[0].element_count, size_of(element))], element


def size_of(type_: Any) -> int:
    return int(type_.get_size())


def metal_spelling(text: str) -> str:
    return (
        text.replace("__global_host ", "constant ")
        .replace("__global ", "device ")
        .replace("__local ", "threadgroup ")
    )
