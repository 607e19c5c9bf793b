"""Read the compute entry points of a WGSL text: their resources, overrides and workgroup sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from devmod import Param
from devmod.backend import FEATURES, PipelineConstant
from devmod.errors import CompileError, list_names
from devmod_readers.reflection import (
    MAX_ARGUMENTS,
    BlockMember,
    BlockSource,
    Dims,
    Members,
    MemberType,
    ReflectedFunction,
    ReflectedShader,
    Resource,
    describe_members,
    reflected_function,
    struct_type,
)
from devmod_readers.uses import bits, transitive_parts
from devmod_wgsl._parse import Declaration, Expression, WgslModule, parse
from devmod_wgsl._scalars import (
    EXTENSIONS,
    INTEGERS,
    OVERRIDES,
    SCALARS,
    SUFFIXES,
    UNSUPPORTED,
)
from devmod_wgsl._tokens import Source
from devmod_wgsl._types import (
    ARRAY,
    IMAGE,
    MATRIX,
    SAMPLER,
    SCALAR,
    STRUCT,
    VECTOR,
    Type,
    Types,
    VariableChecker,
    round_up,
)
from devmod_wgsl._values import Unknown, Values, shown_value

#: Values of overrides by name.
Constants = Mapping[str, Any] | None
#: Entry points by name.
Entries = dict[str, ReflectedFunction]
#: A group and a binding.
Place = tuple[int, int]
#: The WGSL extensions that need a feature of the device, to their names in
#: `devmod.Interface.needs`. They are those of the whole module.
_NEEDS = {feature.wgsl: name for name, feature in FEATURES.items() if feature.wgsl}
#: The extensions, to WebGPU's names of the features. Interfaces have no names for the last three.
WEBGPU_FEATURES = {
    **{feature.wgsl: feature.webgpu for feature in FEATURES.values() if feature.wgsl},
    "subgroup_size_control": "subgroup-size-control",
    "primitive_index": "primitive-index",
    "clip_distances": "clip-distances",
}

_WORDS = """
true false bool array atomic ptr sampler sampler_comparison
function private workgroup uniform storage handle read write read_write
bitcast all any select arrayLength abs acos acosh asin asinh atan atanh atan2 ceil clamp cos cosh countLeadingZeros countOneBits
countTrailingZeros cross degrees determinant distance dot dot4U8Packed dot4I8Packed exp exp2 extractBits faceForward firstLeadingBit
firstTrailingBit floor fma fract frexp insertBits inverseSqrt inverse ldexp length log log2 max min mix modf normalize pow quantizeToF16
radians reflect refract reverseBits round saturate sign sin sinh smoothstep sqrt step tan tanh transpose trunc
dpdx dpdxCoarse dpdxFine dpdy dpdyCoarse dpdyFine fwidth fwidthCoarse fwidthFine
storageBarrier textureBarrier workgroupBarrier workgroupUniformLoad subgroupBarrier
quadBroadcast quadSwapDiagonal quadSwapX quadSwapY
"""
_FAMILIES = re.compile(
    rf"(vec[234]|mat[234]x[234])[{''.join(SUFFIXES)}]?|texture(_\w+|[A-Z]\w+)|atomic[A-Z]\w+|(un)?pack(2x16|4x8|4xI8|4xU8)\w*|subgroup[A-Z]\w+"
    r"|(r|rg|rgba|bgra)(8|16|32|64)(unorm|snorm|uint|sint|float)|rgb10a2u(norm|int)|rg11b10ufloat"
)
_KNOWN = frozenset((*_WORDS.split(), *SCALARS, *UNSUPPORTED))


def read_wgsl(text: str, name: str, constants: Constants = None) -> Entries:
    """Read the compute entry points of a WGSL text.

    Parameters
    ----------
    text, name
        The text, and its name in messages.
    constants
        Values of its overrides by name, which replace the defaults in workgroup sizes.

    Returns
    -------
    dict of str to ReflectedFunction
        The compute entry points by name, in the order of the text.

    Raises
    ------
    CompileError
        The text is not valid WGSL, or devmod cannot call one of its entry points.
    """
    return _read(text, name, constants)[0]


def survey_wgsl(text: str, name: str) -> tuple[Entries, str, str]:
    """Read the compute entry points of a WGSL text, and collect warnings about it.

    Parameters
    ----------
    text, name
        The text, and its name in messages.

    Returns
    -------
    dict of str to ReflectedFunction
        The entry points, as from `read_wgsl`.
    str
        A warning about unknown identifiers; "" if there are none.
    str
        A warning about a memory layout on which naga fails; "" if there is none.

    Raises
    ------
    CompileError
        As `read_wgsl`.
    """
    entries, reader = _read(text, name)
    layout_warning = reader.checker.layout_warning
    if reader.checker.crash is not None:
        at, crash = reader.checker.crash
        layout_warning = f"{reader.module.source.location(at)}: {crash}"
    return entries, unknown_names(reader.module), layout_warning


def check_matrices(text: str, name: str) -> None:
    """Raise CompileError if a uniform contains matrices on which naga ends the process.

    Text that is not valid WGSL passes, because naga reports its errors.
    """
    if "uniform" not in text or not any(f"mat{columns}x2" in text for columns in "234"):
        return
    try:
        _, reader = _read(text, name)
    except CompileError:
        return
    if reader.checker.crash is not None:
        raise reader.module.source.error(*reader.checker.crash)


def _read(text: str, name: str, constants: Constants = None) -> tuple[Entries, _Reader]:
    """Return the compute entry points of a text, and their reader; see `read_wgsl`."""
    source = Source(text, name)
    try:
        reader = _Reader(parse(source), constants)
        return reader.entries(), reader
    except RecursionError:
        raise source.error(
            0, "the nesting of its declarations exceeds Python's recursion limit"
        ) from None


class _Reader:
    """Read the entry points of one module."""

    def __init__(self, module: WgslModule, constants: Constants) -> None:
        self.module = module
        self._source = module.source
        self._error = module.source.error
        self.checker = VariableChecker(module.source)
        self._values = Values(module, constants)
        self._types = Types(module, self._values)
        self._variables: dict[str, Type] = {}
        self._resources_of: dict[str, tuple[Place, Resource]] = {}
        self._arguments = 0
        #: The declarations that an interface depends on: bound variables, workgroup variables and
        #: overrides.
        self._parts: list[Declaration] = []
        own_bits = {}
        for name, each in module.declared.items():
            own_bits[name] = 0
            if _is_part(each):
                own_bits[name] = 1 << len(self._parts)
                self._parts.append(each)
        uses = {name: each.uses for name, each in module.declared.items()}
        self._used_parts = transitive_parts(own_bits, uses)

    def entries(self) -> Entries:
        self._check_extensions()
        for declared in self.module.declared.values():
            self._check(declared)
        entries = {}
        for name, each in self.module.declared.items():
            if each.kind == "fn" and "compute" in each.attributes:
                entries[name] = self._entry(each)
        return entries

    def _check_extensions(self) -> None:
        declared = self.module.declared
        for each in declared.values():
            for name, at in each.uses.items():
                if name in declared:
                    continue
                extension = EXTENSIONS.get(name)
                if extension and extension not in self.module.enabled:
                    raise self._error(
                        at,
                        f"{name} requires the extension {extension}; write 'enable {extension};' before all declarations",
                    )
                if name in UNSUPPORTED:
                    self._types.of(("name", name, None, at))

    def _check(self, declared: Declaration) -> None:
        """Check the types that a declaration uses, and the address space of a variable."""
        if declared.kind in ("alias", "struct"):
            self._types.of(("name", declared.name, None, declared.at))
        elif declared.kind == "fn":
            for parameter in declared.members:
                assert parameter.type is not None
                self._types.of(parameter.type)
            if declared.type is not None:
                self._types.of(declared.type)
        elif declared.type is not None:
            self._check_type(declared, self._types.of(declared.type))
        elif declared.value is None and declared.kind in ("override", "var"):
            noun = "override" if declared.kind == "override" else "variable"
            raise self._error(
                declared.at, f"the {noun} {declared.name!r} has neither a type nor a value"
            )

    def _check_type(self, declared: Declaration, of: Type) -> None:
        if declared.kind == "var":
            self._variables[declared.name] = of
            self.checker.check(declared, of)
        elif declared.kind == "override" and of.name not in OVERRIDES:
            raise self._error(
                declared.at,
                f"the override {declared.name!r} has the type {of.name}; expected bool, i32, u32, f32 or f16",
            )

    # -- one entry

    def _entry(self, declared: Declaration) -> ReflectedFunction:
        location = self._source.location(declared.at)
        parts = [self._parts[number] for number in bits(self._used_parts[declared.name])]
        constants = self._constants(parts)
        block, sources = self._block(declared, [each.name for each in constants])
        for number, each in enumerate(constants):
            if self._values.has_invalid_default(each.name):
                constants[number] = each.replace(default=None)
        resources, min_sizes = self._resources(declared, parts)
        self._arguments += len(parts) + sum(len(each.members) for each in resources)
        if self._arguments > MAX_ARGUMENTS:
            raise self._error(
                declared.at,
                f"the compute entries up to {declared.name!r} have more than {MAX_ARGUMENTS} arguments and constants together; "
                "split the source",
            )
        shader = ReflectedShader(
            declared.name,
            resources,
            constants=tuple(constants),
            block=block,
            block_constants=sources,
            location=location,
            needs=tuple(_NEEDS[name] for name in self.module.enabled if name in _NEEDS),
            subgroup=self._subgroup(declared),
            workgroup_memory=self._workgroup_memory(parts),
        )
        entry = reflected_function("webgpu", shader)
        extra = dict(entry.extra)
        features = [
            WEBGPU_FEATURES[name] for name in self.module.enabled if name in WEBGPU_FEATURES
        ]
        if features:
            extra["features"] = features
        params = [with_min_size(param, min_sizes) for param in entry.params]
        return entry.replace(params=params, extra=extra)

    def _workgroup_memory(self, parts: list[Declaration]) -> int:
        """Return the workgroup memory of an entry point in bytes, as WebGPU counts it. Arrays of
        unknown length count 0.
        """
        size = 0
        for each in parts:
            if each.space == "workgroup" and each.name in self._variables:
                size += round_up(self._variables[each.name].size, 16)
        return size

    def _constants(self, parts: list[Declaration]) -> list[PipelineConstant]:
        constants = []
        numbers: dict[int, str] = {}
        for each in parts:
            if each.kind != "override":
                continue
            number = None
            if "id" in each.attributes:
                number = self._types.number(each, "id", 0)
                if number > 0xFFFF:
                    raise self._error(
                        each.at, f"the @id of {each.name!r} is {number}; expected at most 65535"
                    )
                if number in numbers:
                    raise self._error(
                        each.at,
                        f"the overrides {numbers[number]!r} and {each.name!r} have the same @id, {number}",
                    )
                numbers[number] = each.name
            kind = OVERRIDES.get(self._values.type_of(each), "")
            default = None
            if each.value is not None:
                try:
                    default = self._values.of(each.name, each.at)[1]
                except Unknown:
                    # The default is too complex for this reader, or depends on an override without
                    # one. The device evaluates it.
                    continue
            if kind:
                constants.append(PipelineConstant(each.name, kind, number, default))
        return constants

    def _block(
        self, entry: Declaration, constants: list[str]
    ) -> tuple[Dims | None, tuple[BlockSource, ...]]:
        attribute = entry.attributes.get("workgroup_size")
        if not attribute:
            raise self._error(
                entry.at, f"the compute entry {entry.name!r} has no @workgroup_size(…)"
            )
        if len(attribute) > 3:
            raise self._error(
                entry.at,
                f"the @workgroup_size of {entry.name!r} has {len(attribute)} numbers; expected one to three",
            )
        sizes: list[int] = []
        sources: list[BlockSource] = []
        is_known = True
        for each in attribute:
            try:
                kind, size = self._values.size(each)
            except Unknown:
                is_known = False
            else:
                if kind not in INTEGERS or not 1 <= size < 2**31:
                    raise self._error(
                        entry.at,
                        f"the @workgroup_size of {entry.name!r} contains {shown_value(size)}; expected integers from 1",
                    )
                sizes.append(size)
            sources.append(self._source_of_size(each, constants))

        sources += [-1] * (3 - len(sources))
        if not is_known:
            return None, tuple(sources)
        x, y, z = sizes + [1] * (3 - len(sizes))
        return (x, y, z), tuple(sources)

    def _source_of_size(self, expression: Expression, constants: list[str]) -> BlockSource:
        """Return the source of the size that was evaluated last, in the form of
        `ReflectedShader.block_constants`.
        """
        names = {self._values.overrides[number] for number in bits(self._values.used_overrides)}
        indexes = tuple(index for index, name in enumerate(constants) if name in names)
        if not indexes:
            return -1
        is_override = expression[0] == "name" and expression[1] == constants[indexes[0]]
        if is_override and len(indexes) == 1:
            return indexes[0]
        return indexes

    def _subgroup(self, entry: Declaration) -> int | None:
        """Return the @subgroup_size of an entry point; None without one, or if an override
        decides.
        """
        arguments = entry.attributes.get("subgroup_size")
        if arguments is None:
            return None
        kind = ""
        size = 0
        if len(arguments) == 1:
            try:
                kind, size = self._values.size(arguments[0])
            except Unknown:
                return None
        if kind not in INTEGERS or size < 1 or size & (size - 1):
            raise self._error(
                entry.at,
                f"the @subgroup_size of {entry.name!r} is {shown_value(size)}; expected one power of two",
            )
        if self._values.used_overrides:
            return None
        return int(size)

    def _resources(
        self, entry: Declaration, parts: list[Declaration]
    ) -> tuple[tuple[Resource, ...], dict[Place, int]]:
        """Return the bound variables of an entry point, and the minimum binding size of each."""
        resources: dict[Place, Resource] = {}
        min_sizes: dict[Place, int] = {}
        for each in parts:
            if each.kind != "var" or "binding" not in each.attributes or each.type is None:
                continue
            of = self._variables[each.name]
            if of.name == "sampler_comparison" or (of.kind == IMAGE and not of.image):
                raise self._error(
                    each.at,
                    f"the compute entry {entry.name!r} uses {each.name!r}, a {of.name}, which devmod does not support; expected "
                    "texture_1d, _2d, _3d or _2d_array, texture_storage_1d, _2d, _3d or _2d_array, or sampler",
                )
            if each.name not in self._resources_of:
                at = (self._types.number(each, "group", 0), self._types.number(each, "binding", 0))
                self._resources_of[each.name] = (at, read_resource(each, of, at))
            at, resource = self._resources_of[each.name]
            if at in resources:
                raise CompileError(
                    f"the webgpu function {entry.name!r} at {self._source.location(entry.at)} uses two variables at @group({at[0]}) "
                    f"@binding({at[1]}), {resources[at].name!r} and {each.name!r}; give one of them another binding",
                    kind="webgpu",
                    function=entry.name,
                    argument=each.name,
                )
            resources[at] = resource
            min_sizes[at] = of.min_binding_size
        return tuple(resources.values()), min_sizes


def _is_part(each: Declaration) -> bool:
    """Return whether an interface depends on a declaration."""
    if each.kind == "var":
        return "binding" in each.attributes or each.space == "workgroup"
    return each.kind == "override"


# -- The bound variables of a WGSL module as arguments: their element types, their members and their
# sizes.


def read_resource(declared: Declaration, of: Type, at: Place) -> Resource:
    """Return the resource of a bound variable of the type `of`."""
    name = declared.name
    if of.kind == IMAGE:
        return Resource(at, name, "image", of.image, of.access, format=of.format, sample=of.sample)
    if of.kind == SAMPLER:
        return Resource(at, name, "sampler")
    if declared.space == "uniform":
        members = _block_members(name, of)
        return Resource(at, name, "uniform", size=of.size, align=of.align, members=members)

    access = "rw" if declared.words[1:] == ["read_write"] else "r"
    element, align = _element(of)
    structs: Members = ()
    if align:
        structs = describe_members(_fields(of.innermost), _member_type)
    return Resource(
        at, name, "buffer", element, access, size=of.declared_size, align=align, structs=structs
    )


def _block_members(name: str, of: Type) -> tuple[BlockMember, ...]:
    """Return the members of a uniform. One that is no struct is its only member."""
    if of.kind == STRUCT:
        fields = _fields(of)
    elif _number_type(of):
        fields = [(name, 0, of)]
    else:
        fields = [("", 0, of)]
    described: Members = ()
    if not all(_number_type(part) for _, _, part in fields):
        described = describe_members(fields, _member_type)

    members = []
    for number, (label, offset, part) in enumerate(fields):
        description = described[number : number + 1]
        members.append(
            BlockMember(label, _number_type(part), offset, part.size, part.align, description)
        )
    return tuple(members)


def _member_type(of: Type) -> MemberType:
    dims = []
    while of.kind in (ARRAY, MATRIX) and of.element is not None:
        dims.append((of.count or 0, of.element.stride))
        of = of.element
    fields = _fields(of) if of.kind == STRUCT else None
    return MemberType(of.size, _number_type(of), fields=fields, dims=dims)


def _fields(of: Type) -> list[tuple[str, int, Type]]:
    return [(member.name, offset, part) for member, part, offset in of.members]


def _number_type(of: Type) -> str:
    """Return the type of a scalar or vector; "" for any other type."""
    if of.kind not in (SCALAR, VECTOR):
        return ""
    return _with_lanes(of)


def _with_lanes(of: Type) -> str:
    if of.lanes == 1:
        return of.dtype
    return f"{of.dtype}x{of.lanes}"


def _element(of: Type) -> tuple[str, int]:
    """Return the element type of a buffer of this type, and the alignment of a struct, else 0."""
    of = of.innermost
    if of.runtime_sized:
        return of.dtype, 0
    if of.kind != STRUCT:
        return _with_lanes(of), 0
    return struct_type(of.stride, of.align)


def with_min_size(param: Param, min_sizes: Mapping[Place, int]) -> Param:
    """Add the minimum binding size to a buffer's param, if it exceeds the default of four bytes."""
    if param.kind != "buffer" or not isinstance(param.at, tuple):
        return param
    size = min_sizes.get(param.at, 0)
    if size <= 4:
        return param
    return param.replace(extra={**param.extra, "least": size})


# -- The predeclared names, to warn about unknown identifiers.


def unknown_names(module: WgslModule) -> str:
    """Return a warning about the unknown identifiers of a module; "" if there are none."""
    unknown: dict[str, int] = {}
    for declared in module.declared.values():
        for name, at in declared.uses.items():
            if name not in module.declared and name not in _KNOWN and not _FAMILIES.fullmatch(name):
                unknown.setdefault(name, at)
    if not unknown:
        return ""
    (name, at), *others = unknown.items()
    more = ""
    if others:
        more = f", and {list_names([other for other, _ in others])}"
    return (
        f"the WGSL source {module.source.name} uses the unknown name {name!r} at {module.source.location(at)}{more}. It is neither "
        "declared nor predeclared in WGSL: correct it, or ignore this warning for an extension. The receiver's compiler decides"
    )
