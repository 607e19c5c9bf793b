"""What reflection of shaders has in common: from what a reader found in a shader to its function's arguments.

A reader (SPIR-V, WGSL, MSL) says what one entry uses: a `Shader` of `Resource`, `Member` and `Constant`. `found_shader` gives the
`Found` that `devmod.targets._declared.merge` takes, by the rules of docs/kernels.md. What a runtime finds in the interface:

- A buffer, image or sampler has ``at=(set, binding)`` and the type "handle" in arg_types.
- A uniform block whose members are all scalars or vectors is a scalar a member, in its place among the bindings; each has
  ``at=(number of the block, offset)``, and ``Interface.blocks`` has the block, ``at=(set, binding)``, and its size.
- Any other uniform block is one argument of kind "uniform", ``at=(set, binding)``, its type ``uint8xN`` with `align`: the bytes given
  are the whole content of that binding. It has no entry in ``Interface.blocks``.
- Push constants come last, a scalar a member, in a block whose place is "push". A member that is no scalar or vector is a scalar of
  type ``uint8xN`` with `align`.
- ``Interface.block`` is the workgroup's size, where it depends on constants that of their defaults. ``Interface.extra`` carries the
  constants ("constants", "block_constants"); `devmod._launch.constants` says how they stand there, and sets them.
- The shader map has one entry for each function, under the name that callers use, as the fmap has; FunctionInfo.name is the name of
  the entry point in it. Several entries of one file are the same bytes under several names.

Three-vectors take 12 bytes in a block and 16 in an array, so a launcher of such a kind sets ``vec3_lanes = 3``; a bool in a block
is a u32, so it sets ``bool_bytes = 4``. Readers give it the type "bool" where the language has it so (GLSL's SPIR-V does not).
"""

from __future__ import annotations

from devmod._info import Block, Param, _Value
from devmod._launch.constants import Constant as Constant
from devmod.errors import CompileError
from devmod.targets._declared import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from devmod._info import Place

_LARGEST_STRUCT = 0xFFFF


class Member(_Value):
    """A member of a block of memory.

    Parameters
    ----------
    name
        As in the source; "" where it is not known.
    type
        The type of a scalar or vector, such as "float32x3"; "" for anything else.
    offset, size
        Its first byte in the block, and its number of bytes.
    align
        Its alignment; needed where the type is "".
    """

    __slots__ = ("align", "name", "offset", "size", "type")
    name: str
    type: str
    offset: int
    size: int
    align: int

    def __init__(self, name: str, type: str, offset: int, size: int, align: int = 1) -> None:  # noqa: A002 - as in Param
        self._set(name=name, type=type, offset=offset, size=size, align=align)


class Resource(_Value):
    """What an entry uses at one binding.

    Parameters
    ----------
    at
        (set, binding); for Metal the index.
    name
        The variable's name, or that of its block; "" where neither is known.
    kind
        "buffer", "uniform", "image" or "sampler".
    type
        The element type of a buffer; "" unknown, ``uint8xN`` with `align` for structs of N bytes.
    access
        "r", "w" or "rw" for buffers and images; "" unknown.
    size, align
        A uniform's size in bytes, and its alignment; `align` also that of a buffer's structs.
    members
        A uniform's members, in the order of their offsets.
    """

    __slots__ = ("access", "align", "at", "kind", "members", "name", "size", "type")
    at: Place
    name: str
    kind: str
    type: str
    access: str
    size: int
    align: int
    members: tuple[Member, ...]

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
        members: Iterable[Member] = (),
    ) -> None:
        self._set(at=at, name=name, kind=kind, type=type, access=access, size=size, align=align, members=tuple(members))


class Shader(_Value):
    """One entry of a shader, and what it uses; nothing that only other entries of the file use.

    Parameters
    ----------
    symbol
        The entry point's name.
    resources
        What it uses at bindings, in any order.
    push, push_size
        The members of its push constants, and how many bytes they take.
    constants
        Its specialization constants or overrides, in the order of their ids, then of the source.
    block
        The workgroup's size; None where the caller chooses it.
    block_constants
        For x, y and z what the size comes from, as `devmod._launch.constants` has it; () where it is fixed.
    where
        Where it stands, for messages.
    """

    __slots__ = ("block", "block_constants", "constants", "push", "push_size", "resources", "symbol", "where")
    symbol: str
    resources: tuple[Resource, ...]
    push: tuple[Member, ...]
    push_size: int
    constants: tuple[Constant, ...]
    block: tuple[int, int, int] | None
    block_constants: tuple[int | list[int], ...]
    where: str

    def __init__(
        self,
        symbol: str,
        resources: Iterable[Resource] = (),
        *,
        push: Iterable[Member] = (),
        push_size: int = 0,
        constants: Iterable[Constant] = (),
        block: tuple[int, int, int] | None = None,
        block_constants: Iterable[int | list[int]] = (),
        where: str = "",
    ) -> None:
        self._set(
            symbol=symbol,
            resources=tuple(resources),
            push=tuple(push),
            push_size=push_size,
            constants=tuple(constants),
            block=block,
            block_constants=tuple(block_constants),
            where=where,
        )


def found_shader(kind: str, shader: Shader) -> Found:
    """The arguments of an entry, in the order of a call.

    Parameters
    ----------
    kind
        The backend's kind, for messages.
    shader
        What its reader found.

    Raises
    ------
    CompileError
        Two variables of different sorts stand at one binding, or a block is too large to be an argument.
    """
    types: list[str] = []
    params: list[Param] = []
    blocks: list[Block] = []
    for resource in _by_place(kind, shader):
        if resource.kind == "uniform" and not resource.size:
            continue  # a block of nothing
        if resource.kind != "uniform":
            types.append("handle")
            params.append(Param(resource.name, resource.kind, resource.type, resource.access, resource.at, resource.align))
        elif resource.members and all(member.type for member in resource.members):
            for member in resource.members:
                types.append(member.type)
                params.append(Param(member.name, "scalar", member.type, at=(len(blocks), member.offset)))
            blocks.append(Block(resource.at, resource.size))
        else:
            types.append(_struct(kind, shader, resource.name, resource.size))
            params.append(Param(resource.name, "uniform", types[-1], at=resource.at, align=resource.align))
    for member in shader.push:
        types.append(member.type or _struct(kind, shader, member.name, member.size))
        params.append(Param(member.name, "scalar", types[-1], at=(len(blocks), member.offset), align=0 if member.type else member.align))
    if shader.push:
        blocks.append(Block("push", shader.push_size))
    extra: dict[str, object] = {}
    if shader.constants:
        extra["constants"] = [constant.to_dict() for constant in shader.constants]
    if any(source != -1 for source in shader.block_constants):
        extra["block_constants"] = list(shader.block_constants)
    return Found(shader.symbol, types, params, shader.block, shader.where, blocks=blocks, extra=extra)


def _by_place(kind: str, shader: Shader) -> Sequence[Resource]:
    """The resources in the order of their places. Variables that share one are one argument: shaders look at a buffer in several ways."""
    placed: dict[object, Resource] = {}
    for resource in shader.resources:
        other = placed.setdefault(resource.at, resource)
        if other is resource:
            continue
        if other.kind != resource.kind or resource.kind == "uniform":
            loose = (
                ". '$Global' is where HLSL's loose variables go: put them into a cbuffer"
                if "$Global" in (other.name, resource.name)
                else ""
            )
            raise CompileError(
                f"the {kind} function {shader.symbol!r} at {shader.where} has two variables at the binding {_place(resource.at)}, "
                f"{other.name!r} and {resource.name!r}, which cannot be one argument; give one of them another binding{loose}",
                kind=kind,
                function=shader.symbol,
                argument=resource.name,
            )
        same = (other.type, other.align) == (resource.type, resource.align)
        access = "".join(letter for letter in "rw" if letter in other.access + resource.access) if other.access and resource.access else ""
        placed[resource.at] = Resource(
            other.at, other.name, other.kind, other.type if same else "", access, align=other.align if same else 0
        )
    return [placed[place] for place in sorted(placed, key=lambda place: place if isinstance(place, tuple) else (place,))]


def _place(at: Place) -> str:
    return f"(set {at[0]}, binding {at[1]})" if isinstance(at, tuple) else str(at)


def _struct(kind: str, shader: Shader, name: str, size: int) -> str:
    if not 0 < size <= _LARGEST_STRUCT:
        raise CompileError(
            f"the {kind} function {shader.symbol!r} at {shader.where} takes {name!r} of {size} bytes as one value, which has to be 1 to "
            f"{_LARGEST_STRUCT}; make it a buffer",
            kind=kind,
            function=shader.symbol,
            argument=name,
        )
    return f"uint8x{size}" if size > 1 else "uint8"
