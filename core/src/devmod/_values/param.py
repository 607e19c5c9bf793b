"""One parameter of a function, the members of its structs, and the size of local memory."""

from __future__ import annotations

from devmod._values.dtypes import parse_dtype
from devmod._values.fields import check_count, read_counts, read_list, read_map, read_place, type_name
from devmod._values.layout import MAX_DEPTH, check_members, param_dtype
from devmod._values.signature import member_text, parameter_text, short_repr
from devmod._values.value import Value
from devmod.errors import ArgumentError, FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, TypeGuard

    import numpy as np

    from devmod._values.fields import Place


class Local(Value):
    """An argument for memory that the threads of a block share: OpenCL's ``__local`` and Metal's threadgroup pointers.

    Parameters
    ----------
    nbytes
        The size in bytes, 1 or more.
    per_thread
        The bytes for each thread of a block, in place of `nbytes`. The size follows from the block of the call.

    Raises
    ------
    ArgumentError
        Neither or both are given, or the size is not an int of 1 or more.
    """

    __slots__ = ("nbytes", "per_thread")
    nbytes: int
    per_thread: int

    def __init__(self, nbytes: int | None = None, *, per_thread: int | None = None) -> None:
        if (nbytes is None) == (per_thread is None):
            value = "neither" if nbytes is None else "both"
            raise ArgumentError(f"Local: expected nbytes or per_thread, got {value}", argument="nbytes")
        if per_thread is None:
            self._set(nbytes=_size("nbytes", nbytes), per_thread=0)
        else:
            self._set(nbytes=0, per_thread=_size("per_thread", per_thread))

    def bytes_of(self, threads: int) -> int:
        """Return the size in bytes for a block of `threads` threads."""
        return self.nbytes or self.per_thread * threads

    def __repr__(self) -> str:
        return f"Local({self.nbytes})" if self.nbytes else f"Local(per_thread={self.per_thread})"


def _size(name: str, value: Any) -> int:
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        number = 0
    if not 1 <= number < 2**63:
        raise ArgumentError(f"Local({name}): expected an int of 1 or more, got {value!r}", argument=name)
    return number


PARAM_KINDS = ("buffer", "scalar", "uniform", "local", "image", "sampler")
ACCESSES = ("", "r", "w", "rw")


class Member(Value):
    """One member of a struct.

    Parameters
    ----------
    name
        The name in the source.
    type
        The type, such as "float32" or "float32x3"; "" for a struct.
    offset
        The offset in bytes from the start of the enclosing struct.
    members, size
        The members of a struct, and its size in bytes.
    shape, strides
        The lengths of an array, and the bytes from one element to the next in each dimension. Both are empty for one element.
    extra
        Unknown keys, unchanged.

    Raises
    ------
    FormatError
        A field is invalid.
    """

    __slots__ = ("extra", "members", "name", "offset", "shape", "size", "strides", "type")
    name: str
    type: str
    offset: int
    members: tuple[Member, ...]
    size: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    extra: Mapping[str, Any]

    def __init__(
        self,
        name: str,
        type: str = "",  # noqa: A002 - the field's name in the format
        offset: int = 0,
        members: Iterable[Member] = (),
        size: int = 0,
        shape: Sequence[int] = (),
        strides: Sequence[int] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise FormatError(f"a member's name is a string, not {type_name(name)}")
        subject = f"the member {name!r}"
        if not isinstance(type, str):
            raise FormatError(f"{subject} has a type that is not a string: {type_name(type)}")
        members = tuple(members)
        if not all(isinstance(each, Member) for each in members):
            raise FormatError(f"the members of {subject} are Member objects")
        if bool(type) == bool(members):
            raise FormatError(f"{subject} has {'a type and members' if type else 'neither a type nor members'}; it has one of them")
        if type:
            parse_dtype(type)
        check_count(offset, f"the offset of {subject}")
        check_count(size, f"the size of {subject}")
        shape, strides = read_counts(shape, f"the shape of {subject}"), read_counts(strides, f"the strides of {subject}")
        if len(shape) != len(strides):
            raise FormatError(f"{subject} has a shape of {len(shape)} dimensions and {len(strides)} strides")
        self._set(name=name, type=type, offset=offset, members=members, size=size, shape=shape, strides=strides, extra=dict(extra or {}))

    def to_dict(self) -> dict[str, Any]:
        """Return the map that files have. Empty fields are omitted."""
        result: dict[str, Any] = {"name": self.name}
        if self.type:
            result["type"] = self.type
        result["offset"] = self.offset
        if self.members:
            result["members"] = [each.to_dict() for each in self.members]
        if self.size:
            result["size"] = self.size
        if self.shape:
            result["shape"], result["strides"] = list(self.shape), list(self.strides)
        return result | dict(self.extra)

    @classmethod
    def from_dict(cls, data: object, depth: int = 0) -> Member:
        """Return the member of a map from `to_dict`. Raise FormatError for other objects.

        `depth` is the number of structs that enclose the member.
        """
        if depth >= MAX_DEPTH:
            raise FormatError(f"more than {MAX_DEPTH} structs enclose a member")
        rest = read_map(data, "a member")
        try:
            name, offset = rest.pop("name"), rest.pop("offset")
        except KeyError as error:
            raise FormatError(f"a member has no {error.args[0]!r}") from None
        members = [cls.from_dict(each, depth + 1) for each in read_list(rest.pop("members", []), "the members of a member")]
        type_, size = rest.pop("type", ""), rest.pop("size", 0)
        return cls(name, type_, offset, members, size, rest.pop("shape", ()), rest.pop("strides", ()), rest)

    def __repr__(self) -> str:
        return short_repr("Member", f"{member_text(self)} at byte {self.offset}")


class Param(Value):
    """One argument of a function.

    Parameters
    ----------
    name
        The name in the source; "" if it is unknown.
    kind
        "buffer", "scalar", "uniform", "local", "image" or "sampler".
    type
        A buffer's element type or a scalar's type, such as "float32"; "uint8xN" for a struct of N bytes; "" if it is unknown.
    access
        "r", "w" or "rw" for a buffer; "" if it is unknown.
    at
        The place: ``(set, binding)`` for Vulkan and WebGPU, an index for Metal, ``(number of the block, byte offset)``
        for a scalar in a block, None if the place is the number of the argument.
    align
        The alignment of a struct in bytes; 0 for the alignment of the type.
    size
        The declared size of a buffer in bytes, which is the smallest size of an array: 64 for ``array<u32, 16>``. An array without a
        length counts as 0 bytes. 0: unknown, or no lower bound.
    members
        The members of a struct that is passed by value, or of the structs in a buffer; () if they are unknown.
    default
        The value of a call that omits the parameter: a `Local` for the kind "local", an int of 0 or more for the kind "scalar"; None
        without a default.
    extra
        Unknown keys, unchanged.

    Raises
    ------
    FormatError
        A field is invalid.
    """

    __slots__ = ("access", "align", "at", "default", "extra", "kind", "members", "name", "size", "type")
    name: str
    kind: str
    type: str
    access: str
    at: Place
    align: int
    size: int
    members: tuple[Member, ...]
    default: Local | int | None
    extra: Mapping[str, Any]

    def __init__(
        self,
        name: str,
        kind: str,
        type: str = "",  # noqa: A002 - the field's name in the format
        access: str = "",
        at: Place = None,
        align: int = 0,
        size: int = 0,
        members: Iterable[Member] = (),
        default: Local | int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        subject = f"the parameter {name!r}"
        if not isinstance(name, str):
            raise FormatError(f"a parameter's name is a string, not {type_name(name)}")
        if kind not in PARAM_KINDS:
            raise FormatError(f"{subject} has the kind {kind!r}; a kind is one of {', '.join(PARAM_KINDS)}")
        if access not in ACCESSES:
            raise FormatError(f"{subject} has the access {access!r}; an access is 'r', 'w', 'rw' or ''")
        if not isinstance(type, str):
            raise FormatError(f"{subject} has a type that is not a string: {type_name(type)}")
        if type:
            parse_dtype(type)
        check_count(align, f"the alignment of {subject}")
        check_count(size, f"the size of {subject}")
        members = tuple(members)
        if not all(isinstance(each, Member) for each in members):
            raise FormatError(f"the members of {subject} are Member objects")
        if members and kind not in ("buffer", "scalar", "uniform"):
            raise FormatError(f"{subject} is of kind {kind} and has members; only a buffer, a scalar or a uniform has members")
        if members:
            code, bits, nbytes = parse_dtype(type) if type else (0, 0, 0)
            if (code, bits) != (1, 8):
                raise FormatError(f"{subject} has members and the type {type!r}; the type of a struct of N bytes is 'uint8xN'")
            check_members(members, nbytes, subject)
        if default is not None and (kind != "local" or not isinstance(default, Local)) and (kind != "scalar" or not _is_count(default)):
            expected = "a Local for the kind local, or an int from 0 to 2**63 - 1 for the kind scalar"
            raise FormatError(f"{subject} has an invalid default: expected {expected}, got {default!r} for {kind}")
        self._set(name=name, kind=kind, type=type, access=access, at=read_place(at, subject), align=align, size=size)
        self._set(members=members, default=default, extra=dict(extra or {}))

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """NumPy's dtype of a buffer's elements or of a value; None if the type is unknown.

        A struct has a structured dtype with the members' offsets and the struct's size, or ``V24`` for 24 bytes if its members are
        unknown. A vector is a subarray. Three-vectors in a buffer or an array have four lanes if they take the memory of four.

        Raises
        ------
        FormatError
            NumPy does not support the type.
        """
        return param_dtype(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the map that files have. Empty fields are omitted."""
        result: dict[str, Any] = {"name": self.name, "kind": self.kind}
        if self.type:
            result["type"] = self.type
        if self.access:
            result["access"] = self.access
        if self.at is not None:
            result["at"] = list(self.at) if isinstance(self.at, tuple) else self.at
        if self.align:
            result["align"] = self.align
        if self.size:
            result["size"] = self.size
        if self.members:
            result["members"] = [each.to_dict() for each in self.members]
        if isinstance(self.default, int):
            result["default"] = {"value": self.default}
        elif self.default is not None:
            result["default"] = {"bytes": self.default.nbytes} if self.default.nbytes else {"per_thread": self.default.per_thread}
        return result | dict(self.extra)

    @classmethod
    def from_dict(cls, data: object) -> Param:
        """Return the parameter of a map from `to_dict`, or the Param itself.

        Raises
        ------
        FormatError
            `data` is not such a map.
        """
        if isinstance(data, Param):
            return data
        rest = read_map(data, "a parameter")
        try:
            name, kind = rest.pop("name"), rest.pop("kind")
        except KeyError as error:
            raise FormatError(f"a parameter has no {error.args[0]!r}") from None
        type_, access, at = rest.pop("type", ""), rest.pop("access", ""), rest.pop("at", None)
        members = map(Member.from_dict, read_list(rest.pop("members", []), f"the members of the parameter {name!r}"))
        default = _read_default(rest.pop("default", None), name)
        return cls(name, kind, type_, access, at, rest.pop("align", 0), rest.pop("size", 0), members, default, rest)

    def __repr__(self) -> str:
        return short_repr("Param", parameter_text(self))


def _read_default(data: object, name: object) -> Local | int | None:
    if data is None:
        return None
    key, value = next(iter(data.items())) if isinstance(data, dict) and len(data) == 1 else ("", None)
    if _is_count(value):
        if key == "value":
            return value
        if value and key in ("bytes", "per_thread"):
            return Local(value) if key == "bytes" else Local(per_thread=value)
    raise FormatError(
        f"the parameter {name!r} has an invalid default: expected a map with one key, bytes or per_thread with an int of at least 1, or "
        f"value with an int of at least 0, got {data!r}"
    )


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 2**63
