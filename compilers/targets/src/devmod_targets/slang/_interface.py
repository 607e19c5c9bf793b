"""The parameters of an entry point as its author wrote them, from Slang's reflection. The
reflection is checked as that of a stranger.

Parameters of the file come first, then those of the entry point, both in the order of the source. A
struct with numbers is one argument. The buffers, images and samplers in it are further ones,
``p_out`` for the member ``out`` of ``p``. A ``cbuffer`` is one argument a member.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from devmod import Member
from devmod.backend import array_bytes, parse_dtype
from devmod.errors import FormatError
from devmod_targets.authoring import CompileRequest
from devmod_targets.authoring._types import Threads
from devmod_targets.slang._driver import Entry, reflection_error

#: The names of the parameter and of the members that lead to an argument.
_Path = tuple[str, ...]
#: A map of the reflection.
_Map = Mapping[str, Any]
#: A category of Slang's places, the space, and the index or the offset there.
Slot = tuple[str, int, int]
#: The places of a variable: the category to the space, the index or the offset, and the size.
#: The space and the index of the first place by its category.
_Base = Mapping[str, tuple[int, int]]
_Places = dict[str, tuple[int, int, int]]

_MAX_DEPTH = 8
#: The limit on the arguments of an entry point, and on the members of all its structs together.
_MAX_ARGUMENTS = 1024
_MAX_MEMBERS = 4096
_SCALARS = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bool",
)
_ACCESS = {None: "r", "read": "r", "readWrite": "rw", "write": "w"}
_IMAGES = {"texture1D": "1d", "texture2D": "2d", "texture3D": "3d"}
#: What an argument cannot be, by "kind", "baseShape" or "access" in the reflection, and what to use
#: instead.
_UNSUPPORTED = {
    "array": ("an array of resources", "declare each one"),
    "append": ("an AppendStructuredBuffer", "use a RWStructuredBuffer with an atomic counter"),
    "consume": ("a ConsumeStructuredBuffer", "use a RWStructuredBuffer with an atomic counter"),
    "rasterOrdered": ("a rasterizer-ordered resource", "use a RWStructuredBuffer or a RWTexture2D"),
    "textureBuffer": ("a texel buffer", "use a StructuredBuffer"),
    "textureCube": ("a cube texture", "use a Texture2DArray of six layers"),
    "accelerationStructure": ("an acceleration structure", "use a StructuredBuffer"),
    "multisample": ("a multisampled texture", "use a Texture2D"),
    "interface": (
        "a value of an interface type",
        "make the function generic, and request instances with name_expressions=",
    ),
    "genericTypeParameter": (
        "a value of a generic type",
        "request instances with name_expressions=",
    ),
}


class ReflectedArgument(NamedTuple):
    """One argument.

    Attributes
    ----------
    path
        The names from the parameter to it: ("p", "out").
    kind
        "buffer", "image" and "sampler" as in `Param`; "combined" for an image with its sampler;
        "scalar" for a number, a struct, an array, a matrix or an address.
    type
        A number's type such as "float32x3"; "handle" for an address; "" for a struct, an array or a
        matrix. A buffer's type of elements, "" for structs and matrices. An image's type.
    access
        As in `Param`.
    members
        Those of a struct, or one without a name for an array or a matrix; of a buffer, those of its
        elements. They have the layout of the target. Of an image, the type of its texels.
    place
        Where it is: ("uniform", 0, offset) for a value, in the block `block`; else the category,
        the space and the index: the category is "descriptorTableSlot" for vulkan and webgpu, and
        "constantBuffer", "shaderResource" or "samplerState" for metal. On cuda and cpp everything
        is "uniform". Those of an entry point's parameters count from the first of the entry point.
    size
        The bytes of a value, on cuda and cpp also of a buffer; 0 otherwise.
    block
        The number of the value's block in `Arguments.blocks`.
    is_global
        Whether it is a parameter of the file.
    """

    path: _Path
    kind: str
    type: str
    access: str
    members: tuple[Member, ...]
    place: Slot
    size: int
    block: int
    is_global: bool

    @property
    def name(self) -> str:
        """Its name for callers."""
        return "_".join(self.path)


class ValueBlock(NamedTuple):
    """A block of memory with values: the uniform parameters of an entry point or of the file, or a
    constant buffer.

    Attributes
    ----------
    path
        The names of a constant buffer; () for uniform parameters.
    record
        The name under which a call can give all values; "" if the source has none.
    place
        As in `ReflectedArgument`, of a constant buffer; None for uniform parameters, whose place
        the reflection does not have.
    is_global
        As in `ReflectedArgument`.
    """

    path: _Path
    record: str
    place: Slot | None
    is_global: bool


class Arguments(NamedTuple):
    """The arguments of an entry point, the blocks of their values, its block of threads, and the
    names of the constants by their ids.
    """

    arguments: Sequence[ReflectedArgument]
    blocks: Sequence[ValueBlock]
    threads: Threads | None
    constants: Mapping[int, str]


def read_arguments(request: CompileRequest, entry: Entry) -> Arguments:
    """Return the arguments of an entry point.

    Raises
    ------
    CompileError
        The reflection is invalid, or devmod has no argument of such a type. `function` and
        `argument` name it.
    """
    return _Reader(request, entry).read()


class _Reader:
    def __init__(self, request: CompileRequest, entry: Entry) -> None:
        self._request = request
        self._entry = entry
        self._arguments: list[ReflectedArgument] = []
        self._blocks: list[ValueBlock] = []
        self._constants: dict[int, str] = {}
        self._members = 0
        #: Whether `read` is at the parameters of the file.
        self._is_global = True

    def read(self) -> Arguments:
        for is_global, parameters in (
            (True, self._entry.globals),
            (False, self._entry.reflection.get("parameters", [])),
        ):
            self._is_global = is_global
            for each in parameters:
                parameter = self._map(each, "a parameter")
                places = self._places(parameter)
                # The reflection has no place for ids of threads and for empty structs.
                if "specializationConstant" in places:
                    self._constants[places["specializationConstant"][1]] = self._name(parameter)
                elif places:
                    self._add((self._name(parameter),), parameter, places)
        names = [argument.name for argument in self._arguments]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise self._request.error(
                f"the Slang function {self._entry.name!r} has two arguments named {twice!r}: rename one of the parameters",
                function=self._entry.name,
                argument=twice,
            )
        return Arguments(self._arguments, self._blocks, self._threads(), self._constants)

    def _threads(self) -> Threads | None:
        threads = self._entry.reflection.get("threadGroupSize")
        if threads is None:
            return None
        if not isinstance(threads, list) or len(threads) != 3 or not _are_numbers(threads, 1):
            raise self._error(f"expected three numbers of threads, got {threads!r}")
        return threads[0], threads[1], threads[2]

    def _add(
        self,
        path: _Path,
        variable: _Map,
        places: _Places,
        *,
        base: _Base | None = None,
        block: int = -1,
    ) -> None:
        """Add the arguments of a parameter, or of a member of one with a resource. `base` has the
        places before those of `places`.
        """
        if len(path) > _MAX_DEPTH or len(self._arguments) >= _MAX_ARGUMENTS:
            raise self._error("too many parameters")
        type_ = self._map(variable.get("type"), "a type")
        places = _moved(places, base or {})
        kind = type_.get("kind")
        if kind in ("constantBuffer", "parameterBlock"):
            self._add_constant_buffer(path, type_, places)
            return
        if kind in ("resource", "samplerState"):
            self._add_resource(path, type_, places)
            return

        self._add_value(path, type_, places, block=block)
        if kind != "struct" or (not set(places) - {"uniform"} and not self._is_resource(type_)):
            return
        inner = {category: (space, index) for category, (space, index, _) in places.items()}
        for field in self._fields(type_):
            if self._is_resource(field.get("type")):
                name = (*path, self._name(field))
                self._add(name, field, self._places(field), base=inner, block=block)

    def _add_constant_buffer(
        self,
        path: _Path,
        type_: _Map,
        places: _Places,
    ) -> None:
        category, space, index = _resource_place(places)
        element = self._map(type_.get("elementType"), "a type")
        layout = self._map(type_.get("elementVarLayout"), "a layout")
        inner = self._places(layout)
        fields = self._map(layout.get("type"), "a type")
        if "uniform" in inner and fields.get("kind") not in ("array", "matrix"):
            # The size contains padding that the code need not have.
            inner["uniform"] = (*inner["uniform"][:2], 0)
        if category == "subElementRegisterSpace":
            if not self._is_global:  # Slang's reflection does not have its place
                raise self._unsupported(
                    path, "a ParameterBlock of an entry point", "declare it outside of the function"
                )
            # Its number is that of a space.
            category = "descriptorTableSlot"
            space = index
            index = 0
        if category == "uniform" and inner and len(path) > 1:
            raise self._unsupported(
                path, "a constant buffer inside of uniform parameters", "declare it as a parameter"
            )
        self._blocks.append(ValueBlock(path, path[-1], (category, space, index), self._is_global))
        number = len(self._blocks) - 1
        base = dict.fromkeys(("descriptorTableSlot", "constantBuffer"), (space, index))
        if element.get("kind") == "struct" and "name" not in element:  # a cbuffer
            for field in self._fields(fields):
                self._add((self._name(field),), field, self._places(field), base=base, block=number)
            return
        self._blocks[number] = self._blocks[number]._replace(record="")
        self._add(path, {"type": fields}, inner, base=base, block=number)

    def _add_value(
        self,
        path: _Path,
        type_: _Map,
        places: _Places,
        *,
        block: int,
    ) -> None:
        if "uniform" not in places:
            if set(places) - {"uniform"} and type_.get("kind") != "struct":
                raise self._unsupported(path, *self._what(type_))
            return
        _, offset, size = places["uniform"]
        if block < 0:
            own = ValueBlock((), "", None, self._is_global)
            if own not in self._blocks:
                self._blocks.append(own)
            block = self._blocks.index(own)
        place = ("uniform", 0, offset)
        if type_.get("kind") == "pointer":
            self._append(path, "scalar", "handle", "rw", (), place, 8, block)
            return
        member = self._member(path, "", type_, 0, size, 0)
        if member is None:  # a struct of resources alone
            return
        type_name, members = _type_and_members(member)
        size = size or member_bytes(member)
        self._append(path, "scalar", type_name, "", members, place, size, block)

    def _add_resource(
        self,
        path: _Path,
        type_: _Map,
        places: _Places,
    ) -> None:
        category, (space, index, size) = next(iter(places.items()))
        place = (category, space, index)
        if type_.get("kind") == "samplerState":
            self._append(path, "sampler", "", "", (), place, 0)
            return
        shape = type_.get("baseShape")
        access = type_.get("access")
        if shape == "byteAddressBuffer" and access in _ACCESS:
            self._append(path, "buffer", "uint32", _ACCESS[access], (), place, size)
        elif shape == "structuredBuffer" and access in _ACCESS:
            member = self._member(path, "", self._map(type_.get("resultType"), "a type"), 0, 0, 0)
            if member is None:
                raise self._unsupported(path, "a buffer of resources", "declare each one")
            element, members = _type_and_members(member)
            self._append(path, "buffer", element, _ACCESS[access], members, place, size)
        elif shape in _IMAGES and access in _ACCESS and not type_.get("multisample"):
            image = _IMAGES[shape]
            if type_.get("array"):
                image += "_array"
            kind = "image"
            if type_.get("combined"):
                kind = "combined"
            texel = self._member(path, "", self._map(type_.get("resultType"), "a type"), 0, 0, 0)
            if texel is None or texel.members or texel.shape:
                raise self._unsupported(path, *self._what(type_))
            self._append(path, kind, image, _ACCESS[access], (texel,), place, size)
        else:
            raise self._unsupported(path, *self._what(type_))

    def _append(
        self,
        path: _Path,
        kind: str,
        type_: str,
        access: str,
        members: tuple[Member, ...],
        place: Slot,
        size: int,
        block: int = -1,
    ) -> None:
        self._arguments.append(
            ReflectedArgument(
                path, kind, type_, access, members, place, size, block, self._is_global
            )
        )

    # -- types

    def _member(
        self,
        path: _Path,
        name: str,
        type_: _Map,
        offset: int,
        size: int,
        depth: int,
    ) -> Member | None:
        """Return a type in memory as a member; None for a struct that has resources alone."""
        self._members += 1
        if depth > _MAX_DEPTH or self._members > _MAX_MEMBERS:
            raise self._error("too many members of structs")
        kind = type_.get("kind")
        try:
            if kind == "struct":
                return self._struct(path, name, type_, offset, size, depth)
            if kind == "array":
                return self._array(path, name, type_, offset, size, depth)
            if kind == "matrix":
                return self._matrix(path, name, type_, offset, size)
            if kind == "vector":
                lanes = type_.get("elementCount")
                element = self._scalar(path, type_.get("elementType"))
                if type(lanes) is not int or not 1 <= lanes <= 4:
                    raise self._error(f"expected a vector of 1 to 4 elements, got {lanes!r}")
                return Member(name, _vector(element, lanes), offset)
            if kind == "pointer":
                return Member(name, "handle", offset)
            scalar = self._scalar(path, type_)
            if scalar == "bool" and size == 4 and name:
                scalar = "uint32"
            return Member(name, scalar, offset)
        except FormatError as error:
            raise self._error(str(error)) from None

    def _struct(
        self,
        path: _Path,
        name: str,
        type_: _Map,
        offset: int,
        size: int,
        depth: int,
    ) -> Member | None:
        members = []
        for field in self._fields(type_):
            inner = self._map(field.get("type"), "a type")
            places = self._places(field)
            if self._is_resource(inner) and not self._has_values(inner):
                continue
            _, start, length = places.get("uniform", (0, 0, 0))
            field_name = self._name(field)
            member = self._member((*path, field_name), field_name, inner, start, length, depth + 1)
            if member is not None:
                members.append(member)
        if not members:
            return None
        size = size or max(each.offset + member_bytes(each) for each in members)
        return Member(name, "", offset, members, size)

    def _array(
        self,
        path: _Path,
        name: str,
        type_: _Map,
        offset: int,
        size: int,
        depth: int,
    ) -> Member:
        count = type_.get("elementCount")
        stride = type_.get("uniformStride")
        inner = self._map(type_.get("elementType"), "a type")
        if self._is_resource(inner):
            raise self._unsupported(path, *_UNSUPPORTED["array"])
        length = 0
        if inner.get("kind") == "matrix" and type(stride) is int:
            length = stride  # the rows of a matrix fill its place in the array
        element = self._member(path, name, inner, offset, length, depth + 1)
        if type(count) is not int or count < 1 or type(stride) is not int or element is None:
            raise self._unsupported(path, *_UNSUPPORTED["array"])

        if element.type == "bool" and stride >= 4:
            element = element.replace(type="uint32")
        if element.members:
            last = size - (count - 1) * stride
            element = element.replace(size=min(stride, max(element.size, last)))
        return element.replace(shape=(count, *element.shape), strides=(stride, *element.strides))

    def _matrix(self, path: _Path, name: str, type_: _Map, offset: int, size: int) -> Member:
        rows = type_.get("rowCount")
        columns = type_.get("columnCount")
        element = self._scalar(path, type_.get("elementType"))
        if (
            type(rows) is not int
            or type(columns) is not int
            or not (1 <= rows <= 4 and 1 <= columns <= 4)
        ):
            raise self._error(
                f"expected a matrix of at most 4 rows and columns, got {rows!r} and {columns!r}"
            )
        stride = columns * array_bytes(parse_dtype(element))
        if size % rows == 0 and size // rows >= stride:
            stride = size // rows
        return Member(name, _vector(element, columns), offset, shape=(rows,), strides=(stride,))

    def _scalar(self, path: _Path, type_: object) -> str:
        about = self._map(type_, "a type")
        name = about.get("scalarType")
        if about.get("kind") != "scalar" or name not in _SCALARS:
            raise self._unsupported(path, *self._what(about))
        return str(name)

    def _fields(self, type_: _Map) -> Iterator[_Map]:
        fields = type_.get("fields")
        if not isinstance(fields, list):
            raise self._error("expected the list of a struct's fields")
        return (self._map(each, "a field") for each in fields)

    def _is_resource(self, type_: object) -> bool:
        """Return whether a type is a resource, or a struct or an array with one."""
        return self._contains(
            type_,
            0,
            lambda kind: kind in ("resource", "samplerState", "constantBuffer", "parameterBlock"),
        )

    def _has_values(self, type_: object) -> bool:
        return self._contains(
            type_, 0, lambda kind: kind in ("scalar", "vector", "matrix", "pointer")
        )

    def _contains(self, type_: object, depth: int, wanted: Any) -> bool:
        about = self._map(type_, "a type")
        if depth > _MAX_DEPTH:
            raise self._error("too many members of structs")
        kind = about.get("kind")
        if kind == "struct":
            return any(
                self._contains(field.get("type"), depth + 1, wanted)
                for field in self._fields(about)
            )
        if kind == "array":
            return self._contains(about.get("elementType"), depth + 1, wanted)
        return bool(wanted(kind))

    # -- JSON

    def _places(self, variable: _Map) -> _Places:
        """Return the places of a variable: the category to the space, the index or offset, and the
        size.
        """
        bindings = variable.get("bindings", [])
        if "bindings" not in variable and "binding" in variable:
            bindings = [variable["binding"]]
        if not isinstance(bindings, list):
            raise self._error("expected a list of bindings")
        result = {}
        for each in bindings:
            binding = self._map(each, "a binding")
            category = binding.get("kind")
            key = "index"
            if category == "uniform":
                key = "offset"
            numbers = [binding.get("space", 0), binding.get(key, 0), binding.get("size", 0)]
            if not isinstance(category, str) or not _are_numbers(numbers, 0):
                raise self._error(f"expected a binding with a kind and numbers, got {binding!r}")
            result[category] = numbers[0], numbers[1], numbers[2]
        return result

    def _map(self, value: object, subject: str) -> _Map:
        if not isinstance(value, dict):
            raise self._error(f"expected {subject}, got {type(value).__name__}")
        return value

    def _name(self, variable: _Map) -> str:
        name = variable.get("name")
        if not isinstance(name, str) or not name.isidentifier():
            raise self._error(f"expected a parameter's name, got {name!r}")
        return name

    def _what(self, type_: _Map) -> tuple[str, str]:
        for key in ("access", "baseShape", "kind"):
            name = type_.get(key)
            if isinstance(name, str) and name[:1].lower() + name[1:] in _UNSUPPORTED:
                return _UNSUPPORTED[name[:1].lower() + name[1:]]
        if type_.get("multisample"):
            return _UNSUPPORTED["multisample"]
        return (
            f"a value of Slang's type {type_.get('baseShape') or type_.get('scalarType') or type_.get('kind')!r}",
            "use another type",
        )

    def _error(self, problem: str) -> Exception:
        return reflection_error(self._request, problem, function=self._entry.name)

    def _unsupported(self, path: _Path, what: str, advice: str) -> Exception:
        name = ".".join(path)
        return self._request.error(
            f"the Slang function {self._entry.name!r} takes {name!r}, {what}, which is no argument of devmod: {advice}",
            function=self._entry.name,
            argument=name,
        )


def _are_numbers(values: Iterable[object], least: int) -> bool:
    return all(type(each) is int and least <= each < 2**31 for each in values)


def _moved(places: _Places, base: _Base) -> _Places:
    """Return places that are relative to `base`."""
    result = {}
    for category, (space, index, size) in places.items():
        first_space, first_index = base.get(category, (0, 0))
        result[category] = (first_space + space, first_index + index, size)
    return result


def _resource_place(places: _Places) -> Slot:
    """Return the first place that is not one of uniform parameters."""
    for category, (space, index, _) in places.items():
        if category != "uniform":
            return category, space, index
    return "uniform", 0, 0


def _vector(element: str, lanes: int) -> str:
    return f"{element}x{lanes}" if lanes > 1 else element


def _type_and_members(member: Member) -> tuple[str, tuple[Member, ...]]:
    """Return the type of a number and no members, or "" and the members of anything else: an array
    is the only member.
    """
    if member.shape:
        return "", (member,)
    if member.members:
        return "", member.members
    return member.type, ()


def member_bytes(member: Member) -> int:
    """Return the bytes of a member with all elements of its array."""
    if member.members:
        size = member.size
    else:
        size = array_bytes(parse_dtype(member.type))
    for count, stride in zip(reversed(member.shape), reversed(member.strides), strict=True):
        size += (count - 1) * stride
    return size


def numbers_of(
    members: Iterable[Member], start: int = 0, bool_bytes: int = 1
) -> Iterator[tuple[int, int]]:
    """Yield the offset and the bytes of each number in some members, whose arrays may have any
    length.
    """
    for member in members:
        code, bits, lanes = parse_dtype(member.type or "uint8")
        size = array_bytes((code, bits, 1))
        if member.type == "bool":
            size = bool_bytes
        for place in _places(member.shape, member.strides, start + member.offset):
            if member.members:
                yield from numbers_of(member.members, place, bool_bytes)
                continue
            for lane in range(lanes):
                yield place + size * lane, size


def _places(shape: Sequence[int], strides: Sequence[int], start: int) -> Iterator[int]:
    """Yield the offset of each element of an array."""
    if not shape:
        yield start
        return
    for number in range(shape[0]):
        yield from _places(shape[1:], strides[1:], start + strides[0] * number)
