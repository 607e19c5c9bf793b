"""Turn a reflected shader into a function with parameters, by the rules that SPIR-V, WGSL and MSL share.

A reader returns a `ReflectedShader` of `Resource`, `BlockMember` and `PipelineConstant` for each entry point. `reflected_function` returns
the `ReflectedFunction` that `merge_declared` takes, by the rules of docs/calling.md. Its interface has these parts:

- A buffer, image or sampler has ``at=(set, binding)`` and the type "handle" in arg_types.
- A uniform block of scalars and vectors is one scalar argument for each member, in the order of the bindings. Each has
  ``at=(number of the block, offset)``. ``Interface.blocks`` contains the block's ``at=(set, binding)`` and its size.
- Any other uniform block is one argument of kind "uniform" with ``at=(set, binding)`` and the type ``uint8xN`` with `align`. Its bytes
  are the whole content of the binding. It is not in ``Interface.blocks``. It has the block's members.
- Push constants come last, one scalar argument for each member, in a block whose place is "push". A member of another type is a
  scalar of type ``uint8xN`` with `align`, and with the members of that type.
- ``Interface.block`` is the workgroup size, with the default values of the constants that it depends on. ``Interface.extra`` contains
  the constants ("constants", "block_constants") in the form of `devmod.backend.PipelineConstant`.
- The shader map has one entry for each function, with the same key as the fmap. FunctionInfo.name is the entry point. Several entry
  points of one file have the same bytes under several names.

Three-vectors take 12 bytes in a block and 16 in an array, so a launcher of such a kind sets ``vec3_lanes = 3``. A bool in a block
is a u32, so it sets ``bool_bytes = 4``. A reader returns the type "bool" if the language has it in memory (GLSL's SPIR-V does not).
"""

from __future__ import annotations

from devmod import Block, Param
from devmod.backend import PipelineConstant as PipelineConstant
from devmod.backend import Value
from devmod.errors import CompileError
from devmod_readers.reflection._function import ReflectedFunction
from devmod_readers.reflection._members import value_members, with_members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from devmod import Member
    from devmod.backend import Place

_LARGEST_STRUCT = 0xFFFF
#: The limit on the arguments and constants of all entry points of a source together. Each entry point repeats the variables of a shared
#: function, so the total can grow with the square of the source.
MAX_ARGUMENTS = 1 << 14


class BlockMember(Value):
    """A member of a block of memory.

    Parameters
    ----------
    name
        Its name in the source; "" if unknown.
    type
        The type of a scalar or vector, such as "float32x3"; "" for any other type.
    offset, size
        Its first byte in the block, and its number of bytes.
    align
        Its alignment; required if `type` is "".
    layout
        The Member that describes it, if the block is a struct of an interface; () if it has none.
    """

    __slots__ = ("align", "layout", "name", "offset", "size", "type")
    name: str
    type: str
    offset: int
    size: int
    align: int
    layout: tuple[Member, ...]

    def __init__(
        self,
        name: str,
        type: str,  # noqa: A002 - as in Param
        offset: int,
        size: int,
        align: int = 1,
        layout: Iterable[Member] = (),
    ) -> None:
        self._set(name=name, type=type, offset=offset, size=size, align=align, layout=tuple(layout))


class Resource(Value):
    """A variable that an entry point uses at one binding.

    Parameters
    ----------
    at
        (set, binding); for Metal the index.
    name
        The name of the variable or of its block; "" if both are unknown.
    kind
        "buffer", "uniform", "image" or "sampler".
    type
        The element type of a buffer; "" if unknown, ``uint8xN`` with `align` for structs of N bytes.
    access
        "r", "w" or "rw" for buffers and images; "" if unknown.
    size, align
        A uniform's size in bytes, and its alignment. For a buffer: the bytes of its type without the runtime array, and
        the alignment of its structs.
    members
        A uniform's members, in the order of their offsets.
    structs
        The members of the structs in a buffer; () if they are unknown.
    """

    __slots__ = ("access", "align", "at", "kind", "members", "name", "size", "structs", "type")
    at: Place
    name: str
    kind: str
    type: str
    access: str
    size: int
    align: int
    members: tuple[BlockMember, ...]
    structs: tuple[Member, ...]

    def __init__(
        self,
        at: Place,
        name: str,
        kind: str,
        type: str = "",  # noqa: A002 - as in Param
        access: str = "",
        *,
        size: int = 0,
        align: int = 0,
        members: Iterable[BlockMember] = (),
        structs: Iterable[Member] = (),
    ) -> None:
        self._set(at=at, name=name, kind=kind, type=type, access=access, size=size, align=align, members=tuple(members))
        self._set(structs=tuple(structs))


class ReflectedShader(Value):
    """One entry point of a shader, with the variables that it uses.

    Parameters
    ----------
    symbol
        The entry point's name.
    resources
        Its bound variables, in any order.
    push, push_size
        The members of its push constants, and their size in bytes.
    constants
        Its specialization constants or overrides, by id and then in the order of the source.
    block
        The workgroup size; None if the caller chooses it.
    block_constants
        For x, y and z: -1 for a fixed size, the index of the constant that is the size, or a list of the indices of the constants
        that it is computed from. () if the whole size is fixed.
    location
        Its place in the source, for messages.
    """

    __slots__ = ("block", "block_constants", "constants", "location", "push", "push_size", "resources", "symbol")
    symbol: str
    resources: tuple[Resource, ...]
    push: tuple[BlockMember, ...]
    push_size: int
    constants: tuple[PipelineConstant, ...]
    block: tuple[int, int, int] | None
    block_constants: tuple[int | list[int], ...]
    location: str

    def __init__(
        self,
        symbol: str,
        resources: Iterable[Resource] = (),
        *,
        push: Iterable[BlockMember] = (),
        push_size: int = 0,
        constants: Iterable[PipelineConstant] = (),
        block: tuple[int, int, int] | None = None,
        block_constants: Iterable[int | list[int]] = (),
        location: str = "",
    ) -> None:
        self._set(
            symbol=symbol,
            resources=tuple(resources),
            push=tuple(push),
            push_size=push_size,
            constants=tuple(constants),
            block=block,
            block_constants=tuple(block_constants),
            location=location,
        )


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
    types: list[str] = []
    params: list[Param] = []
    blocks: list[Block] = []
    for resource in _by_place(kind, shader):
        if resource.kind == "uniform" and not resource.size:
            continue  # an empty block
        if resource.kind != "uniform":
            types.append("handle")
            param = Param(resource.name, resource.kind, resource.type, resource.access, resource.at, resource.align, resource.size)
            params.append(with_members(param, resource.structs))
        elif resource.members and all(member.type for member in resource.members):
            for member in resource.members:
                types.append(member.type)
                params.append(Param(member.name, "scalar", member.type, at=(len(blocks), member.offset)))
            blocks.append(Block(resource.at, resource.size))
        else:
            types.append(_struct(kind, shader, resource.name, resource.size))
            param = Param(resource.name, "uniform", types[-1], at=resource.at, align=resource.align)
            params.append(with_members(param, [one for each in resource.members for one in each.layout]))
    for member in shader.push:
        types.append(member.type or _struct(kind, shader, member.name, member.size))
        param = Param(member.name, "scalar", types[-1], at=(len(blocks), member.offset), align=0 if member.type else member.align)
        params.append(param if member.type else with_members(param, value_members(member.layout)))
    if shader.push:
        blocks.append(Block("push", shader.push_size))
    extra: dict[str, object] = {}
    if shader.constants:
        extra["constants"] = [constant.to_dict() for constant in shader.constants]
    if any(source != -1 for source in shader.block_constants):
        extra["block_constants"] = list(shader.block_constants)
    return ReflectedFunction(shader.symbol, types, params, shader.block, shader.location, blocks=blocks, extra=extra)


def _by_place(kind: str, shader: ReflectedShader) -> Sequence[Resource]:
    """Return the resources in the order of their bindings.

    Buffers at one binding become one argument: a shader may declare several types for one buffer.
    """
    resource_at: dict[object, Resource] = {}
    for resource in shader.resources:
        other = resource_at.setdefault(resource.at, resource)
        if other is resource:
            continue
        if other.kind != resource.kind or resource.kind == "uniform":
            hint = (
                ". '$Global' contains HLSL's variables outside of buffers: put them into a cbuffer"
                if "$Global" in (other.name, resource.name)
                else ""
            )
            raise CompileError(
                f"the {kind} function {shader.symbol!r} at {shader.location} has two variables at the binding {_shown_place(resource.at)}, "
                f"{other.name!r} and {resource.name!r}, which cannot be one argument; give one of them another binding{hint}",
                kind=kind,
                function=shader.symbol,
                argument=resource.name,
            )
        same = (other.type, other.align) == (resource.type, resource.align)
        access = "".join(letter for letter in "rw" if letter in other.access + resource.access) if other.access and resource.access else ""
        size = max(other.size, resource.size)
        resource_at[resource.at] = Resource(
            other.at,
            other.name,
            other.kind,
            other.type if same else "",
            access,
            size=size,
            align=other.align if same else 0,
            structs=other.structs if same and other.structs == resource.structs else (),
        )
    return [resource_at[place] for place in sorted(resource_at, key=lambda place: place if isinstance(place, tuple) else (place,))]


def _shown_place(at: Place) -> str:
    return f"(set {at[0]}, binding {at[1]})" if isinstance(at, tuple) else str(at)


def _struct(kind: str, shader: ReflectedShader, name: str, size: int) -> str:
    if not 0 < size <= _LARGEST_STRUCT:
        raise CompileError(
            f"the {kind} function {shader.symbol!r} at {shader.location} takes {name!r} of {size} bytes by value; expected 1 to "
            f"{_LARGEST_STRUCT} bytes. Make it a buffer",
            kind=kind,
            function=shader.symbol,
            argument=name,
        )
    return f"uint8x{size}" if size > 1 else "uint8"
