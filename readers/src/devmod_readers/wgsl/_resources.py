"""The bound variables of a WGSL module as arguments: their element types, their members and their sizes."""

from __future__ import annotations

from devmod import Param
from devmod_readers.reflection import BlockMember, MemberType, Resource, describe_members
from devmod_readers.wgsl._type import ARRAY, IMAGE, MATRIX, SAMPLER, SCALAR, STRUCT, VECTOR, Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod_readers.wgsl._syntax import Declaration

_LARGEST_STRUCT = 0xFFFF


def read_resource(declared: Declaration, of: Type, at: tuple[int, int]) -> Resource:
    """Return the resource of a bound variable of the type `of`."""
    name = declared.name
    if of.kind == IMAGE:
        return Resource(at, name, "image", access=of.access)
    if of.kind == SAMPLER:
        return Resource(at, name, "sampler")
    if declared.words[0] == "uniform":
        parts = [(member.name, part, offset) for member, part, offset in of.members] if of.kind == STRUCT else [(name, of, 0)]
        if of.kind != STRUCT and not _number_type(of):
            parts = [("", of, 0)]
        fields = [(label, offset, part) for label, part, offset in parts]
        described = () if all(_number_type(part) for _, part, _ in parts) else describe_members(fields, _member_type)
        members = [
            BlockMember(label, _number_type(part), offset, part.size, part.align, described[number : number + 1])
            for number, (label, part, offset) in enumerate(parts)
        ]
        return Resource(at, name, "uniform", size=of.size, align=of.align, members=members)
    access = "rw" if declared.words[1:] == ["read_write"] else "r"
    element, align = _element(of)
    structs = describe_members(_fields(of.innermost), _member_type) if align else ()
    return Resource(at, name, "buffer", element, access, size=of.declared_size, align=align, structs=structs)


def _member_type(of: Type) -> MemberType:
    dims = []
    while of.kind in (ARRAY, MATRIX) and of.element is not None:
        dims.append((of.count or 0, of.element.stride))
        of = of.element
    return MemberType(of.size, _number_type(of), fields=_fields(of) if of.kind == STRUCT else None, dims=dims)


def _fields(of: Type) -> list[tuple[str, int, Type]]:
    return [(member.name, offset, part) for member, part, offset in of.members]


def _number_type(of: Type) -> str:
    """Return the type of a scalar or vector; "" for any other type."""
    if of.kind not in (SCALAR, VECTOR):
        return ""
    return of.dtype if of.lanes == 1 else f"{of.dtype}x{of.lanes}"


def _element(of: Type) -> tuple[str, int]:
    """Return the element type of a buffer of this type, and the alignment of a struct, else 0."""
    of = of.innermost
    if of.runtime_sized:
        return of.dtype, 0
    if of.kind == STRUCT:
        return (f"uint8x{of.stride}", of.align) if 1 < of.stride <= _LARGEST_STRUCT else ("", 0)
    return of.dtype if of.lanes == 1 else f"{of.dtype}x{of.lanes}", 0


def with_min_size(param: Param, min_sizes: Mapping[tuple[int, int], int]) -> Param:
    """Add the minimum binding size to a buffer's param, if it exceeds the default of four bytes."""
    size = min_sizes.get(param.at, 0) if param.kind == "buffer" and isinstance(param.at, tuple) else 0
    if size <= 4:
        return param
    return param.replace(extra={**param.extra, "least": size})
