"""What a reader returns: the functions and the entry points that it found, with their arguments.

- `ReflectedFunction` is a function with its arguments. `devmod_targets.authoring.merge_declared`
  takes it.
- `ReflectedShader` is an entry point of a shader with its `Resource` and `BlockMember` objects.
  `reflected_function` turns it into a `ReflectedFunction`.
- `describe_members` describes the members of a struct of `MemberType` objects. `with_members` and
  `value_members` add them to an argument.

`reflected_function` follows the rules that SPIR-V, WGSL and MSL share (docs/calling.md). The
interface has these parts:

- A buffer, image or sampler has ``at=(set, binding)`` and the type "handle" in arg_types.
- An image with its sampler is two arguments, ``t`` and ``t_sampler``, with one place.
- A uniform block of scalars and vectors is one scalar argument for each member, in the order of the
  bindings. Each has ``at=(number of the block, offset)``. ``Interface.blocks`` contains the block's
  ``at=(set, binding)``, its size and its name.
- Any other uniform block is one argument of kind "uniform" with ``at=(set, binding)`` and the type
  ``uint8xN`` with `align`. Its bytes are the whole content of the binding. It is not in
  ``Interface.blocks``. It has the block's members.
- An address in a block, such as one of GLSL's `buffer_reference`, is a scalar of the type "handle",
  and "uint64" in arg_types.
- Push constants come last, one scalar argument for each member, in a block whose place is "push". A
  member of another type is a scalar of type ``uint8xN`` with `align`, and with the members of that
  type.
- ``Interface.block`` is the workgroup size, with the default values of the constants that it
  depends on. ``Interface.extra`` contains the constants ("constants", "block_constants") in the
  form of `devmod.backend.PipelineConstant`, and the bytes of shared memory ("workgroup_memory").
- The shader map has one entry for each function, with the same key as the fmap. FunctionInfo.name
  is the entry point. Several entry points of one file have the same bytes under several names.

Three-vectors take 12 bytes in a block and 16 in an array, so a launcher of such a kind sets
``vec3_lanes = 3``. A bool in a block is a u32, so it sets ``bool_bytes = 4``. A reader returns the
type "bool" if the language has it in memory (GLSL's SPIR-V does not).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from devmod import Block, Member, Param
from devmod.backend import PipelineConstant as PipelineConstant
from devmod.backend import Value
from devmod.errors import CompileError, FormatError, list_names
from devmod_readers.c_numbers import bytes_type

#: The members of a struct.
Members = tuple[Member, ...]
#: Numbers of threads in x, y, z.
Dims = tuple[int, int, int]
#: Where a number of a block's size is from, as in `ReflectedShader.block_constants`.
BlockSource = int | tuple[int, ...]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from devmod.backend import Place
    from devmod_readers.spirv._clspv import ClspvKernel

    _Type = TypeVar("_Type")
    #: The name, the offset in bytes and the type of a member.
    Field = tuple[str, int, _Type]

__all__ = [
    "MAX_ARGUMENTS",
    "BlockMember",
    "MemberType",
    "ReflectedFunction",
    "ReflectedShader",
    "Resource",
    "argument_types",
    "describe_members",
    "reflected_function",
    "value_members",
    "with_members",
]


# -- Describe the members of a struct, for the interface of a function (`devmod.Param.members`).


#: The limits on the members of one struct, with those of nested structs. They bound the interface
#: of a small source. Files allow deeper values than this.
_MAX_MEMBERS = 1024
_MAX_DEPTH = 8

_LARGEST_STRUCT = 0xFFFF
#: The limit on the arguments and constants of all entry points of a source together. Each entry
#: point repeats the variables of a shared function, so the total can grow with the square of the
#: source.
MAX_ARGUMENTS = 1 << 14


class MemberType(NamedTuple):
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
        The length and the stride of each dimension of an array, the outer first. A matrix is an
        array of its columns.
    """

    size: int
    dtype: str = ""
    fields: Iterable[Field[Any]] | None = None
    dims: Sequence[tuple[int, int]] = ()


class _TooLarge(Exception):
    """The struct exceeds a limit."""


def describe_members(
    fields: Iterable[Field[_Type]], look_up: Callable[[_Type], MemberType]
) -> Members:
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
        members = [describe(each, depth + 1) for each in type_.fields or ()]
        dims = [*type_.dims]
        dtype = type_.dtype
        size = 0
        if members:
            dtype = ""
            size = type_.size
        elif not dtype:
            dtype = "uint8"
            dims.append((type_.size, 1))
        lengths = [length for length, _ in dims]
        strides = [stride for _, stride in dims]
        return Member(name, dtype, offset, members, size, lengths, strides)

    try:
        return tuple(describe(each, 0) for each in fields)
    except _TooLarge:
        return ()


def with_members(param: Param, members: Sequence[Member]) -> Param:
    """Return a struct's param with its members. Members without a valid layout are omitted: the
    caller passes bytes.

    The elements of a buffer that are no structs, but matrices, have no members.
    """
    if param.kind == "buffer" and len(members) == 1 and not members[0].name:
        return param
    try:
        return param.replace(members=members)
    except FormatError:
        return param


def value_members(members: Sequence[Member]) -> Members:
    """Return the members of an argument that is itself one member, or no known one.

    These are the members of a struct; for an array or a matrix, it is the member without its name.
    """
    if not members:
        return ()
    (member,) = members
    if member.members and not member.shape:
        return member.members
    return (member.replace(name="", offset=0),)


# -- A function as a reader found it.


def struct_type(size: int, align: int) -> tuple[str, int]:
    """Return the element type of a struct and its alignment; ("", 0) if it exceeds the largest
    type.
    """
    if not 0 < size <= _LARGEST_STRUCT:
        return "", 0
    return bytes_type(size), align


class ReflectedFunction(Value):
    """A function as a reader found it in the source or binary.

    Parameters
    ----------
    symbol
        Its symbol or entry point.
    types
        The type of each argument as in FunctionInfo.arg_types; "" for an unknown type.
    params
        The params of its interface, one for each argument.
    block
        Its fixed block of threads, or None.
    location
        Its place in the source for messages, such as "k.cl:12".
    blocks
        The blocks of memory that contain its scalars.
    extra
        The fields of its interface that only some kinds have.
    default_block, open_block
        The fields of its interface; both are ignored if `block` is fixed.
    tags
        TVM's launch parameter tags in addition to those of the grid and the block.
    extra_tags
        TVM's extra tags: an int for each argument, or empty.
    needs, subgroup
        The fields of its interface. The needs are names of `devmod.backend.FEATURES`.

    Raises
    ------
    FormatError
        A need is not in the table.
    """

    block: Dims | None
    blocks: tuple[Block, ...]
    default_block: Dims | None
    open_block: bool
    extra: Mapping[str, Any]
    params: tuple[Param, ...]
    symbol: str
    types: tuple[str, ...]
    location: str
    tags: tuple[str, ...]
    extra_tags: tuple[int, ...]
    needs: tuple[str, ...]
    subgroup: int | None
    __slots__ = tuple(__annotations__)

    def __init__(
        self,
        symbol: str,
        types: Sequence[str],
        params: Sequence[Param],
        block: Dims | None = None,
        location: str = "",
        *,
        blocks: Sequence[Block] = (),
        extra: Mapping[str, Any] | None = None,
        default_block: Dims | None = None,
        open_block: bool = False,
        tags: Sequence[str] = (),
        extra_tags: Sequence[int] = (),
        needs: Iterable[str] = (),
        subgroup: int | None = None,
    ) -> None:
        needs = tuple(needs)
        if needs:
            # A runtime that reflects few functions with needs does not load the table.
            from devmod.backend import FEATURES

            if unknown := [name for name in needs if name not in FEATURES]:
                expected = list_names(FEATURES)
                raise FormatError(
                    f"the function {symbol!r} needs {list_names(unknown)}; expected names of features: {expected}"
                )
        self._set(
            symbol=symbol,
            types=tuple(types),
            params=tuple(params),
            block=block,
            default_block=default_block if block is None else None,
            open_block=open_block and block is None,
            location=location,
            blocks=tuple(blocks),
            extra=dict(extra or {}),
            tags=tuple(tags),
            extra_tags=tuple(extra_tags),
            needs=needs,
            subgroup=subgroup,
        )


class BlockMember(NamedTuple):
    """A member of a block of memory.

    Parameters
    ----------
    name
        Its name in the source; "" if unknown.
    type
        The type of a scalar or vector, such as "float32x3"; "handle" for an address; "" for any
        other type.
    offset, size
        Its first byte in the block, and its number of bytes.
    align
        Its alignment; required if `type` is "".
    layout
        The Member that describes it, if the block is a struct of an interface; () if it has none.
    access
        "r", "w" or "rw" for the memory at an address; "" for other types and if it is unknown.
    """

    name: str
    type: str
    offset: int
    size: int
    align: int = 1
    layout: Sequence[Member] = ()
    access: str = ""


class Resource(NamedTuple):
    """A variable that an entry point uses at one binding.

    Parameters
    ----------
    at
        (set, binding); for Metal the index.
    name
        The name of the variable or of its block; "" if both are unknown.
    kind
        "buffer", "uniform", "image", "sampler", or "combined" for an image with its sampler.
    type
        The element type of a buffer, ``uint8xN`` with `align` for structs of N bytes; the type of
        an image; "" if unknown.
    access
        "r", "w" or "rw" for buffers and images; "" if unknown.
    size, align
        A uniform's size in bytes, and its alignment. For a buffer: the bytes of its type without
        the runtime array, and the alignment of its structs.
    members
        A uniform's members, in the order of their offsets.
    structs
        The members of the structs in a buffer; () if they are unknown.
    format, sample
        For an image, as in `devmod.Param`.
    storage
        Whether an image is a storage image, which shaders access without a sampler.
    """

    at: Place
    name: str
    kind: str
    type: str = ""
    access: str = ""
    size: int = 0
    align: int = 0
    members: Sequence[BlockMember] = ()
    structs: Sequence[Member] = ()
    format: str = ""
    sample: str = ""
    storage: bool = False


class ReflectedShader(NamedTuple):
    """One entry point of a shader, with the variables that it uses.

    Parameters
    ----------
    symbol
        The entry point's name.
    resources
        Its bound variables, in any order.
    push, push_size, push_name
        The members of its push constants, their size in bytes, and their name in the source; "" if
        it is unknown.
    constants
        Its specialization constants or overrides, by id and then in the order of the source.
    block
        The workgroup size; None if the caller chooses it.
    block_constants
        For x, y and z: -1 for a fixed size, the index of the constant that is the size, or a tuple
        of the indices of the constants that it is computed from. () if the whole size is fixed.
    location
        Its place in the source, for messages.
    needs, subgroup
        What the device must have, as in `devmod.Interface`.
    workgroup_memory
        The bytes of workgroup memory (shared memory) that it uses, with the default values of the
        constants that they depend on.
    kernel
        Its arguments and what its launch sets, if clspv has compiled it; else None.
    """

    symbol: str
    resources: Sequence[Resource] = ()
    push: Sequence[BlockMember] = ()
    push_size: int = 0
    push_name: str = ""
    constants: Sequence[PipelineConstant] = ()
    block: Dims | None = None
    block_constants: Sequence[BlockSource] = ()
    location: str = ""
    needs: Sequence[str] = ()
    subgroup: int | None = None
    workgroup_memory: int = 0
    kernel: ClspvKernel | None = None


def reflected_function(kind: str, shader: ReflectedShader) -> ReflectedFunction:
    """Return the function of an entry point, with its arguments in the order of a call.

    Parameters
    ----------
    kind
        The backend's kind, for messages.
    shader
        The entry point, as a reader returns it.

    Raises
    ------
    CompileError
        Two variables of different kinds share a binding, or a block is too large for an argument.
    """
    arguments: ClspvKernel | _Arguments
    needs = shader.needs
    if shader.kernel is not None:
        arguments = shader.kernel
        # A runtime that does not know what a launch sets must not run it.
        needs = ("launch_constants", *needs)
    else:
        arguments = _Arguments(kind, shader)
        for resource in _by_place(kind, shader):
            arguments.add(resource)
        arguments.add_push_constants()
    return ReflectedFunction(
        shader.symbol,
        argument_types(arguments.params),
        arguments.params,
        shader.block,
        shader.location,
        blocks=arguments.blocks,
        extra=_extra(shader),
        needs=needs,
        subgroup=shader.subgroup,
    )


def argument_types(params: Iterable[Param]) -> list[str]:
    """Return the types of a function's arguments as in FunctionInfo.arg_types."""
    types = []
    for param in params:
        type_ = "handle"
        if param.kind in ("scalar", "uniform"):
            # The address of a buffer is a number there, where a "handle" is a buffer.
            type_ = param.type.replace("handle", "uint64")
        types.append(type_)
    return types


class _Arguments:
    """The arguments of an entry point, and the blocks of scalars."""

    def __init__(self, kind: str, shader: ReflectedShader) -> None:
        self._kind = kind
        self._shader = shader
        self.params: list[Param] = []
        self.blocks: list[Block] = []

    def add(self, resource: Resource) -> None:
        """Add the arguments of a resource."""
        if resource.kind == "uniform":
            self._add_uniform(resource)
        elif resource.kind == "buffer":
            param = Param(
                resource.name,
                "buffer",
                resource.type,
                resource.access,
                resource.at,
                resource.align,
                resource.size,
            )
            self.params.append(with_members(param, resource.structs))
        else:
            self.params += _image_params(resource)

    def _add_uniform(self, resource: Resource) -> None:
        if not resource.size:
            # An empty block.
            return
        if not resource.members or not all(member.type for member in resource.members):
            type_ = self._struct(resource.name, resource.size)
            param = Param(resource.name, "uniform", type_, at=resource.at, align=resource.align)
            layout: list[Member] = []
            for member in resource.members:
                layout += member.layout
            self.params.append(with_members(param, layout))
            return

        for member in resource.members:
            self._add_number(member)
        name = resource.name
        if [member.name for member in resource.members] == [name]:
            # A block that is one scalar has the scalar's name.
            name = ""
        self.blocks.append(Block(resource.at, resource.size, name=name))

    def add_push_constants(self) -> None:
        """Add the members of the push constants."""
        shader = self._shader
        for member in shader.push:
            if member.type:
                self._add_number(member)
                continue
            type_ = self._struct(member.name, member.size)
            at = (len(self.blocks), member.offset)
            param = Param(member.name, "scalar", type_, member.access, at, member.align)
            self.params.append(with_members(param, value_members(member.layout)))
        if shader.push:
            self.blocks.append(Block("push", shader.push_size, name=shader.push_name))

    def _add_number(self, member: BlockMember) -> None:
        at = (len(self.blocks), member.offset)
        self.params.append(Param(member.name, "scalar", member.type, member.access, at))

    def _struct(self, name: str, size: int) -> str:
        """Return the type of a struct of some bytes."""
        shader = self._shader
        if not 0 < size <= _LARGEST_STRUCT:
            raise CompileError(
                f"the {self._kind} function {shader.symbol!r} at {shader.location} takes {name!r} of {size} bytes by value; expected 1 to "
                f"{_LARGEST_STRUCT} bytes. Make it a buffer",
                kind=self._kind,
                function=shader.symbol,
                argument=name,
            )
        return bytes_type(size)


def _extra(shader: ReflectedShader) -> dict[str, object]:
    extra: dict[str, object] = {}
    if shader.constants:
        extra["constants"] = [constant.to_dict() for constant in shader.constants]
    if any(source != -1 for source in shader.block_constants):
        sources: list[int | list[int]] = []
        for source in shader.block_constants:
            sources.append(source if isinstance(source, int) else list(source))
        extra["block_constants"] = sources
    if shader.workgroup_memory:
        extra["workgroup_memory"] = shader.workgroup_memory
    return extra


def _image_params(resource: Resource) -> list[Param]:
    """Return the argument of an image or a sampler; an image with its sampler is two arguments with
    one place.
    """
    image = Param(
        resource.name,
        "image",
        resource.type,
        resource.access,
        resource.at,
        format=resource.format,
        sample=resource.sample,
    )
    if resource.kind == "image":
        return [image]
    if resource.kind == "sampler":
        return [Param(resource.name, "sampler", at=resource.at)]
    return [image, Param(resource.name and f"{resource.name}_sampler", "sampler", at=resource.at)]


def _by_place(kind: str, shader: ReflectedShader) -> Sequence[Resource]:
    """Return the resources in the order of their bindings.

    Buffers at one binding become one argument: a shader may declare several types for one buffer.
    """
    resource_at: dict[Place, Resource] = {}
    for resource in shader.resources:
        other = resource_at.setdefault(resource.at, resource)
        if other is resource:
            continue
        if not is_one_argument(other, resource):
            hint = ""
            if "$Global" in (other.name, resource.name):
                hint = ". '$Global' contains HLSL's variables outside of buffers: put them into a cbuffer"
            raise CompileError(
                f"the {kind} function {shader.symbol!r} at {shader.location} has two variables at the binding {_shown_place(resource.at)}, "
                f"{other.name!r} and {resource.name!r}, which cannot be one argument; give one of them another binding{hint}",
                kind=kind,
                function=shader.symbol,
                argument=resource.name,
            )
        resource_at[resource.at] = _merged(other, resource)
    return [resource_at[place] for place in sorted(resource_at, key=_place_key)]


def _merged(one: Resource, other: Resource) -> Resource:
    """Return the one argument for two resources, without what they do not have in common."""
    access = ""
    if one.access and other.access:
        access = "".join(letter for letter in "rw" if letter in one.access + other.access)
    merged = one._replace(
        access=access, size=max(one.size, other.size), format=one.format or other.format
    )
    if (one.type, one.align) != (other.type, other.align):
        return merged._replace(type="", align=0, structs=())
    if one.structs != other.structs:
        return merged._replace(structs=())
    return merged


def _place_key(place: Place) -> tuple[Any, ...]:
    if isinstance(place, tuple):
        return place
    return (place,)


def is_one_argument(one: Resource, other: Resource) -> bool:
    """Return whether one argument can be passed for two resources at one binding: for buffers, and
    for images of one type.
    """
    if one.kind != other.kind or one.kind == "uniform":
        return False
    if one.kind == "buffer":
        return True
    if (one.type, one.sample, one.storage) != (other.type, other.sample, other.storage):
        return False
    return one.format == other.format or not (one.format and other.format)


def _shown_place(at: Place) -> str:
    if isinstance(at, tuple):
        return f"(set {at[0]}, binding {at[1]})"
    return str(at)
