"""Describe the members of C structs that libclang has laid out."""

from __future__ import annotations

from devmod_readers.reflection import MemberType, describe_members
from devmod_targets.authoring.clang import element_type, lane_type, type_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from devmod import Member
    from devmod_targets.authoring.clang import LocationSet

_RECORD, _FIXED_ARRAY = 105, 112
_UNION, _BASE, _FIELD = "UNION_DECL", "CXX_BASE_SPECIFIER", "FIELD_DECL"


def record_members(
    type_: Any,
    *,
    number_type: Callable[[Any], tuple[str, int]] = element_type,
    array_record: Callable[[Any], tuple[list[tuple[int, int]], Any] | None] = lambda _: None,
) -> tuple[Member, ...]:
    """Return the members of a struct for `devmod.Param`; () if they cannot be described.

    A union, a pointer and a struct with bit-fields are described as bytes. A matrix has one member without a name.

    Parameters
    ----------
    type_
        A canonical clang.cindex.Type.
    number_type
        Returns what `element_type` returns, for the types of one language.
    array_record
        Returns the dimensions and the element type of a record that is an array or a matrix in the language, or None.
    """

    def look_up(of: Any) -> MemberType:
        of = of.get_canonical()
        size, dims = of.get_size(), []
        while True:
            if type_kind(of) == _FIXED_ARRAY:
                inner = lane_type(of)
                record = [(of.element_count, inner.get_size())], inner
            elif type_kind(of) == _RECORD and array_record(of) is not None:
                record = array_record(of) or ([], of)
            else:
                break
            dims += record[0]
            of = record[1]
            size = of.get_size()
        dtype, align = number_type(of)
        if dtype and not align:
            return MemberType(size, dtype, dims=dims)
        return MemberType(size, fields=_fields(of) if type_kind(of) == _RECORD else None, dims=dims)

    if array_record(type_) is not None:
        return describe_members([("", 0, type_)], look_up)
    return describe_members(_fields(type_) or (), look_up)


def uses_location(type_: Any, locations: LocationSet) -> bool:
    """Return whether the declaration of a struct, or of a struct in it, has one of the locations: clang then has no layout of it."""
    if not locations:
        return False
    pending, visited = [type_], set()
    while pending:
        of = pending.pop().get_canonical()
        while type_kind(of) == _FIXED_ARRAY:
            of = lane_type(of)
        if type_kind(of) == _RECORD and of.spelling not in visited:
            visited.add(of.spelling)
            declaration = of.get_declaration()
            if locations.intersects(declaration.extent):
                return True
            # An invalid struct has declarations of fields, and get_fields returns none of them.
            pending += [each.type for each in declaration.get_children() if each.kind.name == _FIELD]
    return False


def _fields(type_: Any, start: int = 0) -> list[tuple[str, int, Any]] | None:
    """Return name, offset and type of a struct's members, with those of its anonymous structs; None if they cannot be described."""
    declaration = type_.get_declaration()
    if declaration.kind.name == _UNION or any(each.kind.name == _BASE for each in declaration.get_children()):
        return None
    fields: list[tuple[str, int, Any]] = []
    for field in type_.get_fields():
        bits = field.get_field_offsetof()
        if bits < 0 or bits % 8 or field.is_bitfield():
            return None
        offset, of = start + bits // 8, field.type.get_canonical()
        if type_kind(of) == _RECORD and not field.spelling.isidentifier():
            inner = _fields(of, offset)
            if inner is None:
                return None
            fields += inner
        else:
            fields.append((field.spelling, offset, of))
    return fields
