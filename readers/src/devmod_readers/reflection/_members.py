"""Describe the members of a struct, for the interface of a function (`devmod.Param.members`)."""

from __future__ import annotations

from devmod import Member, Param
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeVar

    _Type = TypeVar("_Type")
    #: The name, the offset in bytes and the type of a member.
    Field = tuple[str, int, _Type]

#: The limits on the members of one struct, with those of nested structs. They bound the interface of a small source. Files allow deeper
#: values than this.
_MAX_MEMBERS = 1024
_MAX_DEPTH = 8


class MemberType:
    """The type of a member, as a reader finds it.

    Parameters
    ----------
    size
        The bytes of one element.
    dtype
        The type of a number or a vector; "" for any other type.
    fields
        The members of a struct; None for any other type. A type with neither is described as bytes.
    dims
        The length and the stride of each dimension of an array, the outer first. A matrix is an array of its columns.
    """

    __slots__ = ("dims", "dtype", "fields", "size")

    def __init__(
        self, size: int, dtype: str = "", *, fields: Iterable[Field[Any]] | None = None, dims: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.size, self.dtype, self.fields, self.dims = size, dtype, fields, tuple(dims)


class _TooLarge(Exception):
    """The struct exceeds a limit."""


def describe_members(fields: Iterable[Field[_Type]], look_up: Callable[[_Type], MemberType]) -> tuple[Member, ...]:
    """Return the members of a struct; () if they exceed a limit.

    Parameters
    ----------
    fields
        The members, with their types in the reader's own form.
    look_up
        Returns a type's description. Types may refer to each other any number of times.
    """
    count = 0

    def describe(field: Field[_Type], depth: int) -> Member:
        nonlocal count
        count += 1
        if depth >= _MAX_DEPTH or count > _MAX_MEMBERS:
            raise _TooLarge
        name, offset, of = field
        type_ = look_up(of)
        dtype, dims = type_.dtype, type_.dims
        if type_.fields is not None:
            members = [describe(each, depth + 1) for each in type_.fields]
            if members:
                shape, strides = [length for length, _ in dims], [stride for _, stride in dims]
                return Member(name, "", offset, members, type_.size, shape, strides)
        if not dtype:
            dtype, dims = "uint8", (*dims, (type_.size, 1))
        return Member(name, dtype, offset, (), 0, [length for length, _ in dims], [stride for _, stride in dims])

    try:
        return tuple(describe(each, 0) for each in fields)
    except _TooLarge:
        return ()


def with_members(param: Param, members: Sequence[Member]) -> Param:
    """Return a struct's param with its members. Members without a valid layout are omitted: the caller passes bytes.

    The elements of a buffer that are no structs, but matrices, have no members.
    """
    if param.kind == "buffer" and len(members) == 1 and not members[0].name:
        return param
    try:
        return param.replace(members=members)
    except FormatError:
        return param


def value_members(members: Sequence[Member]) -> tuple[Member, ...]:
    """Return the members of an argument that is itself one member, or no known one.

    These are the members of a struct; for an array or a matrix, it is the member without its name.
    """
    if not members:
        return ()
    (member,) = members
    return member.members if member.members and not member.shape else (member.replace(name="", offset=0),)
