"""One parameter of a function: the members of its structs, their layout in memory, NumPy's dtype
for it, its text; and local memory.

The numbers of a layout come from untrusted files. After `check_members`, the elements of a struct
do not overlap and are inside it, so their number is at most its number of bytes.
"""

from __future__ import annotations

from itertools import pairwise

from devmod._util.text import escape_line
from devmod._values.dtypes import array_bytes, dtype_name, is_packed, parse_dtype
from devmod._values.value import (
    Value,
    check_count,
    is_count,
    read_counts,
    read_list,
    read_map,
    read_place,
)
from devmod.errors import ArgumentError, FormatError, count_text, pip_install, quote_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    import numpy as np

    from devmod._values.value import Place
else:
    from devmod._util.numpy import np

#: The launch's own keywords in a call. The keyword of a parameter of such a name has an underscore
#: behind it.
LAUNCH_KEYWORDS = ("grid", "block", "threads", "stream", "shared_memory")
#: The number of structs that may enclose a member.
MAX_DEPTH = 16
#: The limit on the dimensions of an array.
_MAX_DIMENSIONS = 16
#: The types of the integers of a pack.
_PACK_TYPES = frozenset(("int32", "uint32", "int64", "uint64"))
#: The number of parameters and of members, and of characters of each, in a short text.
_MAX_PARTS = 8
_MAX_LENGTH = 60
#: The number of characters of a repr.
_MAX_REPR = 300

# Where to change: a kind of argument
#   also: `extras/browser/js/src/interface.js` has the browser's copy; `docs/formats.md`;
#     `plugins/runtime/src/devmod_runtime/_launch/arguments.py` (`Argument`): how a call takes it
#   tests: `tests/test_two_places.py`
PARAM_KINDS = ("buffer", "scalar", "uniform", "local", "image", "sampler")
ACCESSES = ("", "r", "w", "rw")
#: The last is an image over a buffer, which only OpenCL has.
IMAGE_TYPES = ("", "1d", "2d", "3d", "1d_array", "2d_array", "1d_buffer")
#: What the kernel reads from an image, or writes to it.
SAMPLES = ("", "float", "int", "uint")

#: The operators between operands, with how strongly they bind. The others are functions.
INFIX = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2}
#: The greatest depth of an expression.
MAX_EXPRESSION = 16


class Local(Value):
    """An argument for memory that the threads of a block share: OpenCL's ``__local`` and Metal's
    threadgroup pointers.

    Parameters
    ----------
    nbytes
        The size in bytes, 1 or more.
    per_thread
        The bytes for each thread of a block, in place of `nbytes`. The size follows from the block
        of the call.

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
            raise ArgumentError(
                f"Local: expected nbytes or per_thread, got {value}", argument="nbytes"
            )
        self._set(nbytes=_size("nbytes", nbytes), per_thread=_size("per_thread", per_thread))

    def _to_dict(self) -> dict[str, int]:
        """Return the map that files have."""
        if self.nbytes:
            return {"bytes": self.nbytes}
        return {"per_thread": self.per_thread}

    def bytes_of(self, threads: int) -> int:
        """Return the size in bytes for a block of `threads` threads."""
        return self.nbytes or self.per_thread * threads

    def __repr__(self) -> str:
        if self.nbytes:
            return f"Local({self.nbytes})"
        return f"Local(per_thread={self.per_thread})"


def _size(name: str, value: Any) -> int:
    """Return the size that an argument of Local gives; 0 for None."""
    if value is None:
        return 0
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        number = 0
    if not 1 <= number < 2**63:
        raise ArgumentError(
            f"Local({name}): expected an int of 1 or more, got {value!r}", argument=name
        )
    return number


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
        The lengths of an array, and the bytes from one element to the next in each dimension. Both
        are empty for one element.
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
            raise FormatError(f"a member's name is a string, not {name.__class__.__name__}")
        subject = f"the member {name!r}"
        if not isinstance(type, str):
            raise FormatError(
                f"{subject} has a type that is not a string: {type.__class__.__name__}"
            )
        members = tuple(members)
        if not all(isinstance(each, Member) for each in members):
            raise FormatError(f"the members of {subject} are Member objects")
        if type and members:
            raise FormatError(f"{subject} has a type and members; it has one of them")
        if not type and not members:
            raise FormatError(f"{subject} has neither a type nor members; it has one of them")
        if type:
            parse_dtype(type)
        check_count(offset, f"the offset of {subject}")
        check_count(size, f"the size of {subject}")
        shape = read_counts(shape, f"the shape of {subject}")
        strides = read_counts(strides, f"the strides of {subject}")
        if len(shape) != len(strides):
            raise FormatError(
                f"{subject} has a shape of {len(shape)} dimensions and {len(strides)} strides"
            )
        self._set(
            name=name,
            type=type,
            offset=offset,
            members=members,
            size=size,
            shape=shape,
            strides=strides,
            extra=dict(extra or {}),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the map that files have. Empty fields are omitted."""
        return self._written(("name", "offset"))

    @classmethod
    def from_dict(cls, data: object, depth: int = 0) -> Member:
        """Return the member of a map from `to_dict`. Raise FormatError for other objects.

        `depth` is the number of structs that enclose the member.
        """
        if depth >= MAX_DEPTH:
            raise FormatError(f"more than {MAX_DEPTH} structs enclose a member")
        rest = read_map(data, "a member", "name", "offset")
        inner = read_list(rest.pop("members", []), "the members of a member")
        members = [cls.from_dict(each, depth + 1) for each in inner]
        fields = cls._taken(rest)
        return cls(members=members, extra=rest, **fields)

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
        A buffer's element type or a scalar's type, such as "float32"; "handle" for a scalar that is
        the address of a device array; "uint8xN" for a struct of N bytes; "1d", "2d", "3d",
        "1d_array", "2d_array" or "1d_buffer" for an image; "" if it is unknown.
    access
        "r", "w" or "rw" for a buffer, an image or the memory at an address; "" if it is unknown.
    at
        The place: ``(set, binding)`` for Vulkan and WebGPU, an index for Metal, ``(number of the
        block, byte offset)`` for a scalar in a block, None if the place is the number of the
        argument.
    align
        The alignment of a struct in bytes; 0 for the alignment of the type.
    size
        The declared size of a buffer in bytes, which is the smallest size of an array: 64 for
        ``array<u32, 16>``. An array without a length counts as 0 bytes. 0: unknown, or no lower
        bound.
    members
        The members of a struct that is passed by value, or of the structs in a buffer; () if they
        are unknown.
    default
        The value of a call that omits the parameter: a `Local` for the kind "local", an int of 0 or
        more for the kind "scalar"; None without a default.
    extra
        Unknown keys, unchanged.
    format
        The format of an image that the source declares, by WebGPU's name such as "rgba8unorm"; ""
        if images of several formats fit.
    sample
        What the kernel reads from an image or writes to it: "float", "int" or "uint"; "" if it is
        unknown.
    pack
        The values that a kernel takes in place of a buffer, in their order, each as ``name:type``:
        "ptr:handle", and with an integer type of 32 or 64 bits "count" (of elements), "shape0",
        "shape1", … and "stride0", … (in elements). A call passes one array. () if the kernel takes
        its address alone.

    Raises
    ------
    FormatError
        A field is invalid.
    """

    __slots__ = (
        "access",
        "align",
        "at",
        "default",
        "extra",
        "format",
        "kind",
        "members",
        "name",
        "pack",
        "sample",
        "size",
        "type",
    )
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
    format: str
    sample: str
    pack: tuple[str, ...]

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
        format: str = "",  # noqa: A002 - the field's name in the format
        sample: str = "",
        pack: Iterable[str] = (),
    ) -> None:
        subject = f"the parameter {name!r}"
        if not isinstance(name, str):
            raise FormatError(f"a parameter's name is a string, not {name.__class__.__name__}")
        if kind not in PARAM_KINDS:
            raise FormatError(
                f"{subject} has the kind {kind!r}; a kind is one of {', '.join(PARAM_KINDS)}"
            )
        if access not in ACCESSES:
            raise FormatError(
                f"{subject} has the access {access!r}; an access is 'r', 'w', 'rw' or ''"
            )
        if not isinstance(type, str):
            raise FormatError(
                f"{subject} has a type that is not a string: {type.__class__.__name__}"
            )
        if type and kind != "image":
            parse_dtype(type)
        check_count(align, f"the alignment of {subject}")
        check_count(size, f"the size of {subject}")
        # A load makes thousands of parameters. Most have none of what is checked below.
        members = tuple(members)
        if members:
            _check_struct(members, kind, type, subject)
        if kind == "image" or (format, sample) != ("", ""):
            _check_image(kind, type, format, sample, subject)
        if default is not None:
            _check_default(default, kind, subject)
        pack = tuple(pack)
        if pack and (kind != "buffer" or not _is_pack(pack)):
            expected = "a buffer with 'ptr:handle' and different values such as 'count:uint64', 'shape0:int32', 'stride0:int64'"
            raise FormatError(
                f"{subject} of kind {kind} has the pack {cut_text(str([*pack]), True)}; expected {expected}"
            )
        self._set(
            name=name,
            kind=kind,
            type=type,
            access=access,
            at=read_place(at, subject),
            align=align,
            size=size,
            members=members,
            default=default,
            extra=dict(extra or {}),
            format=format,
            sample=sample,
            pack=pack,
        )

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """NumPy's dtype of a buffer's elements or of a value; None if the type is unknown.

        A struct has a structured dtype with the members' offsets and the struct's size, or ``V24``
        for 24 bytes if its members are unknown. It is longer than a struct that ends inside the
        padding of its last array. A vector is a subarray. Three-vectors in a buffer or an array
        have four lanes if they take the memory of four.

        Raises
        ------
        FormatError
            NumPy does not support the type.
        """
        if not self.type or self.kind in ("image", "sampler"):
            return None
        code, bits, lanes = parse_dtype(self.type)
        if is_value(members_by_value(self)):
            return _member_dtype(self.members[0])
        if self.members:
            dtype = struct_dtype(self.members, lanes)
            if self.kind == "buffer" and dtype.itemsize != lanes:
                raise FormatError(
                    f"NumPy has no dtype for this struct of {count_text(lanes, 'byte')} in an array: "
                    "the padding of its last member is cut off"
                )
            return dtype
        if (code, bits) == (1, 8) and (self.align or self.kind == "uniform"):
            return np.dtype(f"V{lanes}")
        base = numpy_dtype(dtype_name((code, bits, 1)))
        # Three lanes of a buffer take the memory of four.
        if lanes == 3 and self.kind in ("buffer", "local"):
            lanes = 4
        if lanes == 1:
            return base
        return np.dtype((base, (lanes,)))

    @property
    def values(self) -> tuple[Param, ...]:
        """The parameters of the kernel: this one, or the buffer and the scalars of its `pack`,
        which are called as in ``x.count``.
        """
        if not self.pack:
            return (self,)
        packed = []
        for value in self.pack:
            name, type_ = value.split(":")
            if name == "ptr":
                packed.append(self.replace(pack=()))
            else:
                packed.append(Param(f"{self.name}.{name}", "scalar", type_))
        return tuple(packed)

    def to_dict(self) -> dict[str, Any]:
        """Return the map that files have. Empty fields are omitted."""
        # A save takes most of its time here, so what most parameters lack is asked together.
        result: dict[str, Any] = {"name": self.name, "kind": self.kind}
        if self.type:
            result["type"] = self.type
        if self.access:
            result["access"] = self.access
        if self.format or self.sample:
            result |= self._written((), "format", "sample")
        if self.at is not None:
            result["at"] = self.at
            if isinstance(self.at, tuple):
                result["at"] = list(self.at)
        if self.align or self.size or self.members or self.pack:
            result |= self._written((), "align", "size", "members", "pack")
        if self.default is not None:
            if isinstance(self.default, int):
                result["default"] = {"value": self.default}
            else:
                result["default"] = self.default._to_dict()
        if self.extra:
            result |= self.extra
        return result

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
        rest = read_map(data, "a parameter", "name", "kind")
        name = rest.pop("name")
        members: Sequence[object] = ()
        if "members" in rest:
            members = read_list(rest.pop("members"), f"the members of the parameter {name!r}")
        default = _read_default(rest.pop("default", None), name)
        pack: Sequence[Any] = ()
        if "pack" in rest:
            pack = read_list(rest.pop("pack"), f"the values of the parameter {name!r}")
        fields = cls._taken(rest)
        return cls(
            name,
            members=map(Member.from_dict, members),
            default=default,
            extra=rest,
            pack=pack,
            **fields,
        )

    def __repr__(self) -> str:
        return short_repr("Param", parameter_text(self))


def _read_default(data: object, name: object) -> Local | int | None:
    if data is None:
        return None
    if isinstance(data, dict) and len(data) == 1:
        ((key, value),) = data.items()
        if key == "value" and is_count(value):
            return value
        if key == "bytes" and is_count(value) and value:
            return Local(value)
        if key == "per_thread" and is_count(value) and value:
            return Local(per_thread=value)
    raise FormatError(
        f"the parameter {name!r} has an invalid default: expected a map with one key, bytes or per_thread with an int of at least 1, or "
        f"value with an int of at least 0, got {data!r}"
    )


def _check_struct(members: Sequence[Member], kind: str, type_: str, subject: str) -> None:
    if not all(isinstance(each, Member) for each in members):
        raise FormatError(f"the members of {subject} are Member objects")
    if kind not in ("buffer", "scalar", "uniform"):
        raise FormatError(
            f"{subject} is of kind {kind} and has members; only a buffer, a scalar or a uniform has members"
        )
    if not type_ or parse_dtype(type_)[:2] != (1, 8):
        raise FormatError(
            f"{subject} has members and the type {type_!r}; the type of a struct of N bytes is 'uint8xN'"
        )
    check_members(members, parse_dtype(type_)[2], subject)


def _check_image(kind: str, type_: str, format_: object, sample: object, subject: str) -> None:
    if kind == "image" and type_ not in IMAGE_TYPES:
        raise FormatError(
            f"{subject} has the type {type_!r}; the type of an image is one of {', '.join(IMAGE_TYPES[1:])}"
        )
    if kind != "image" or sample not in SAMPLES or not isinstance(format_, str):
        raise FormatError(
            f"{subject} of kind {kind} has the format {format_!r} and the sample {sample!r}; expected those of an image"
        )


def _check_default(default: object, kind: str, subject: str) -> None:
    if kind == "local" and isinstance(default, Local):
        return
    if kind == "scalar" and is_count(default):
        return
    expected = "a Local for the kind local, or an int from 0 to 2**63 - 1 for the kind scalar"
    raise FormatError(
        f"{subject} has an invalid default: expected {expected}, got {default!r} for {kind}"
    )


def _is_pack(values: Sequence[Any]) -> bool:
    """Return whether these are different values of a `Param.pack`. Its shapes are numbered from 0;
    without shapes, its strides are.
    """
    types = {}
    for value in values:
        if not isinstance(value, str):
            return False
        name, _, type_ = value.partition(":")
        types[name] = type_
    if len(types) < len(values) or types.pop("ptr", "") != "handle":
        return False
    shapes = sum(name.startswith("shape") for name in types)
    strides = sum(name.startswith("stride") for name in types)
    names = {"count"}
    for axis in range(min(shapes or strides, _MAX_DIMENSIONS)):
        names |= {f"shape{axis}", f"stride{axis}"}
    return names.issuperset(types) and _PACK_TYPES.issuperset(types.values())


# -- layout in memory


def element_bytes(member: Member) -> int:
    """Return the bytes of a member, or of one element if it is an array. Lanes have no padding."""
    if member.members:
        return member.size
    return array_bytes(parse_dtype(member.type))


def check_members(members: Sequence[Member], size: int, subject: str, depth: int = 0) -> None:
    """Check that the members of a struct of `size` bytes are inside it and do not overlap, and
    those of nested structs.

    Raises
    ------
    FormatError
        They are outside, they overlap, two have one name, or they are nested too deeply.
    """
    if depth >= MAX_DEPTH:
        raise FormatError(f"more than {MAX_DEPTH} structs enclose a member")
    spans = []
    names = set()
    for member in members:
        path = f"the member {quote_name(member.name)} of {subject}"
        if member.name and member.name in names:
            raise FormatError(f"{subject} has two members {quote_name(member.name)}")
        names.add(member.name)
        if member.members:
            if not member.size:
                raise FormatError(f"{path} is a struct without a size")
            check_members(member.members, member.size, path, depth + 1)
        elif is_packed(parse_dtype(member.type)):
            raise FormatError(
                f"{path} has the type {member.type}, which is not a whole number of bytes"
            )
        length = _extent(member, path)
        if not length or member.offset + length > size:
            raise FormatError(
                f"{path} has bytes {member.offset} to {member.offset + length}, and the struct has {count_text(size, 'byte')}"
            )
        spans.append((member.offset, member.offset + length, path))
    spans.sort()
    for (_, end, _), (start, _, path) in pairwise(spans):
        if start < end:
            raise FormatError(
                f"{path} begins at byte {start}, inside the member that ends at byte {end}"
            )


def _extent(member: Member, path: str) -> int:
    """Return the bytes from the first to the last element."""
    if len(member.shape) > _MAX_DIMENSIONS:
        raise FormatError(
            f"{path} has {len(member.shape)} dimensions; expected at most {_MAX_DIMENSIONS}"
        )
    length = element_bytes(member)
    for count, stride in zip(reversed(member.shape), reversed(member.strides), strict=True):
        if not count:
            raise FormatError(f"{path} is an array of no elements")
        if stride < length:
            raise FormatError(
                f"{path} has a stride of {count_text(stride, 'byte')}; expected at least {length}"
            )
        length += (count - 1) * stride
    return length


def is_value(members: Sequence[Member]) -> bool:
    """Return whether an argument is not a struct but one array or matrix: it has one member at its
    start, without a name.
    """
    return len(members) == 1 and not members[0].name and not members[0].offset


def members_by_value(param: Param) -> Sequence[Member]:
    """Return the members of a struct that is passed by value; () for a buffer of structs."""
    if param.kind == "buffer":
        return ()
    return param.members


#: The element types that ml_dtypes adds to NumPy, beside the floats of 8 bits and less.
_ADDED = ("bfloat16", "int1", "int2", "int4", "uint2", "uint4")


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype for an element type without lanes. An element type of fewer than 8 bits
    has a dtype of one byte.

    Raises
    ------
    FormatError
        NumPy does not support the element type. The package ml_dtypes adds bfloat16, fp8, fp6, fp4
        and int4.
    """
    result: np.dtype[Any] | None = None
    try:
        result = np.dtype({"uint1": "bool", "handle": "uint64"}.get(name, name))
    except TypeError:
        from contextlib import suppress
        from importlib import import_module

        with suppress(ImportError, AttributeError, TypeError):
            result = np.dtype(getattr(import_module("ml_dtypes"), name))
    # NumPy and the platform define further names ("void"), whose elements may have another size.
    if result is None or not 0 < result.itemsize == array_bytes(parse_dtype(name)):
        install = ""
        if name in _ADDED or name.startswith(("float4_", "float6_", "float8_")):
            install = f"{pip_install('ml_dtypes')}, or "
        raise FormatError(
            f"NumPy does not support {name}: {install}read the bits of a host array with memoryview(array)"
        )
    return result


def struct_dtype(members: Sequence[Member], size: int) -> np.dtype[Any]:
    """Return the structured dtype of a struct of `size` bytes. A member without a name is called
    ``f0`` by its number.

    A struct may end before the padding of its last array does. NumPy's arrays have whole elements,
    so the dtype is longer then.
    """
    size_with_padding = max(size, 0)
    names = [member.name or f"f{number}" for number, member in enumerate(members)]
    formats = [_member_dtype(member) for member in members]
    offsets = [member.offset for member in members]
    for member, dtype in zip(members, formats, strict=True):
        if member.shape:
            size_with_padding = max(size_with_padding, member.offset + dtype.itemsize)
    try:
        return np.dtype(
            {
                "names": names,
                "formats": formats,
                "offsets": offsets,
                "itemsize": size_with_padding,
            }
        )
    except ValueError as error:
        raise FormatError(
            f"NumPy has no dtype for this struct of {count_text(size, 'byte')}: {error}"
        ) from None


def _member_dtype(member: Member) -> np.dtype[Any]:
    lanes = 1
    if member.members:
        element = struct_dtype(member.members, member.size)
    else:
        code, bits, lanes = parse_dtype(member.type)
        element = numpy_dtype(dtype_name((code, bits, 1)))
        if lanes == 3 and member.strides and member.strides[-1] == 4 * element.itemsize:
            lanes = 4
        if lanes != 1:
            element = np.dtype((element, (lanes,)))
    for count, stride in zip(reversed(member.shape), reversed(member.strides), strict=True):
        if stride != element.itemsize:
            element = np.dtype(
                {"names": ["value"], "formats": [element], "offsets": [0], "itemsize": stride}
            )
        element = np.dtype((element.base, (count, *element.shape)))
    return element


# -- text: ``x: float32* rw``, for reprs, documentation and `devmod inspect`


def parameter_text(param: Param) -> str:
    """Return a parameter: ``x: float32* rw``, ``n: int32``, ``p: {a: float32, n: int32}``, ``t:
    local float32 = Local(64)``, ``p: image 2d float r``.
    """
    if not param.name:
        return type_text(param)
    return f"{param.name}: {type_text(param)}"


def type_text(param: Param) -> str:
    """Return the type of a parameter, with its access or its default."""
    if param.kind == "buffer":
        return _buffer_text(param)
    if param.members:
        if is_value(param.members):
            return kind_text(param.members[0])
        return _members_text(param.members)

    if param.kind == "scalar":
        text = f"{param.type or '?'} {param.access}".rstrip()
    else:
        words = [param.kind, param.type, param.format or param.sample]
        if param.kind == "image":
            words.append(param.access)
        text = " ".join(filter(None, words))
    if param.default is not None:
        text += f" = {param.default!r}"
    return text


def _buffer_text(param: Param) -> str:
    """Return ``float32* rw``, ``{a: float32}* r``, ``float32* rw pack ptr count``."""
    element = param.type or "void"
    if param.members:
        element = _members_text(param.members)
    words = [param.access]
    if param.pack:
        words.append("pack")
        words += [value.partition(":")[0] for value in param.pack]
    return f"{element}* {' '.join(words)}".rstrip()


def member_text(member: Member) -> str:
    """Return a member of a struct: ``a: float32``, ``w: float32[4][4]``."""
    return f"{member.name}: {kind_text(member)}"


def kind_text(member: Member) -> str:
    """Return the type of a member: ``float32[4][4]``, ``{a: float32, n: int32}``."""
    kind = member.type
    if member.members:
        kind = _members_text(member.members)
    return kind + "".join(f"[{length}]" for length in member.shape)


def _members_text(members: Sequence[Member]) -> str:
    texts = join_texts([member_text(each) for each in members], True)
    return f"{{{texts}}}"


def short_repr(kind: str, text: str) -> str:
    """Return ``<kind text>`` on one line. A long text is cut."""
    if len(text) > _MAX_REPR:
        text = text[: _MAX_REPR - 1] + "…"
    return escape_line(f"<{kind} {text}>")


def join_texts(parts: Sequence[str], short: bool) -> str:
    if not short:
        return ", ".join(parts)
    texts = [cut_text(part, short) for part in parts[:_MAX_PARTS]]
    if len(parts) > _MAX_PARTS:
        texts.append("…")
    return ", ".join(texts)


def cut_text(text: str, short: bool) -> str:
    if not short or len(text) <= _MAX_LENGTH:
        return text
    return f"{text[: _MAX_LENGTH - 1]}…"


# -- text of a program's declarations, and of the integer expressions of their shapes


def expression_text(expression: Any, binding: int = 0, depth: int = 0) -> str:
    """Return an expression as Python has it: ``rows * (columns + 1)``. `binding` is that of the
    operator around it.

    An expression is an int, a name, or a sequence of an operator and its operands. Files of
    strangers may have anything in its place.
    """
    if not isinstance(expression, (list, tuple)):
        return str(expression)
    if depth > MAX_EXPRESSION or len(expression) < 2:
        return "…"
    name, *operands = expression
    strength = 0
    if isinstance(name, str):
        strength = INFIX.get(name, 0)
    if not strength:
        arguments = ", ".join(expression_text(each, 0, depth + 1) for each in operands)
        return f"{name}({arguments})"

    first, *others = operands
    parts = [expression_text(first, strength, depth + 1)]
    parts += [expression_text(each, strength + 1, depth + 1) for each in others]
    text = f" {name} ".join(parts)
    if strength < binding:
        return f"({text})"
    return text


def declaration_text(param: Param) -> str:
    """Return a parameter of a program as it is declared: ``x: float32[rows, columns]``, ``epsilon:
    float32 = 1e-05``.
    """
    shape = param.extra.get("shape")
    if not isinstance(shape, (list, tuple)):
        text = f"{param.name}: {type_text(param)}"
        value = param.extra.get("value")
        if value is not None:
            text += f" = {value!r}"
        return text

    role = param.extra.get("role")
    lengths = ", ".join(map(expression_text, shape))
    text = f"{param.name}: {param.format or param.type or '?'}[{lengths or '()'}]"
    if role == "update":
        text += " rw"
    initial = param.extra.get("initial")
    if initial:
        text += f" = {initial}"
    elif param.extra.get("cleared") or role == "state":
        text += " = 0"
    return text
