"""Reflect the compute entry points of a SPIR-V module: their resources, push constants, workgroup
sizes, and layouts of memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from typing import Any, TypeAlias

from devmod.backend import IMAGE_FORMATS, PipelineConstant
from devmod.errors import FormatError
from devmod_readers.reflection import (
    MAX_ARGUMENTS,
    BlockMember,
    BlockSource,
    Dims,
    Members,
    MemberType,
    ReflectedShader,
    Resource,
    describe_members,
    struct_type,
)
from devmod_readers.spirv._clspv import ClspvKernel, read_clspv
from devmod_readers.spirv._constants import SpirvConstants
from devmod_readers.spirv._module import (
    GL_COMPUTE,
    MODELS,
    EntryPoint,
    Ids,
    Place,
    SpirvModule,
    Target,
    error,
)

#: Decorations.
_BUFFER_BLOCK = 3
_BUILT_IN = 11
_NON_WRITABLE = 24
_NON_READABLE = 25
#: A built-in value.
_WORKGROUP_SIZE = 25
#: Storage classes.
_UNIFORM_CONSTANT = 0
_UNIFORM = 2
_WORKGROUP = 4
_PUSH_CONSTANT = 9
_ATOMIC_COUNTER = 10
_STORAGE_BUFFER = 12
#: Execution modes.
_LOCAL_SIZE = 17
_LOCAL_SIZE_ID = 38
#: The capability.
_RAY_QUERY = 4472
#: The most bytes of shared memory: a file has integers of 64 bits, and a browser exact ones of 53.
_MOST_MEMORY = 1 << 53

#: The types of an image's texels, by opcode and operands.
_SAMPLE_TYPES = {(22, 32): "float", (21, 32, 1): "int", (21, 32, 0): "uint"}

_IMAGE_DIMS = {0: "1d", 1: "2d", 2: "3d"}
#: What else a variable can be, by the number of its dimension.
_OTHER_DIMS = {
    3: "a cube map, which devmod does not support; use a 2-D image with 6 layers",
    4: "a rectangle image, which Vulkan does not support",
    5: "a texel buffer (samplerBuffer, imageBuffer), which devmod does not support; use a buffer",
    6: "a subpass input, which compute shaders do not have",
}
#: The names of the formats of images, by SPIR-V's number: WebGPU's where devmod supports them. The
#: first is Unknown.
_FORMAT_NAMES = """
rgba32float rgba16float r32float rgba8unorm rgba8snorm rg32float rg16float r11f_g11f_b10f r16float
rgba16unorm rgb10_a2 rg16unorm rg8unorm r16unorm r8unorm rgba16snorm rg16snorm rg8snorm r16snorm r8snorm
rgba32sint rgba16sint rgba8sint r32sint rg32sint rg16sint rg8sint r16sint r8sint
rgba32uint rgba16uint rgba8uint r32uint rgb10_a2ui rg32uint rg16uint rg8uint r16uint r8uint r64ui r64i
"""
FORMATS = ("", *_FORMAT_NAMES.split())

#: Decorations.
ARRAY_STRIDE = 6
MATRIX_STRIDE = 7
ROW_MAJOR = 4
OFFSET = 35
_PHYSICAL = 5349
_MAX_DEPTH = 32
_LARGEST = 1 << 62
#: By bits and encoding.
_FLOATS = {
    (16, None): "float16",
    (32, None): "float32",
    (64, None): "float64",
    (16, 0): "bfloat16",
    (8, 4214): "float8_e4m3fn",
    (8, 4215): "float8_e5m2",
}


def reflect(
    module: SpirvModule,
    location: str,
    *,
    include_unused: bool,
    constants: SpirvConstants | None = None,
) -> list[ReflectedShader]:
    """Reflect the compute entry points of a module.

    Parameters
    ----------
    module
        The module, as `read_module` returns it.
    location
        The name of its source, for messages.
    include_unused
        Whether the single entry point of a module gets all declared variables. One of several gets
        the variables that it uses.
    constants
        The module's constants; by default with no values but the defaults.

    Returns
    -------
    list of ReflectedShader
        The compute entry points, in the order of the module.

    Raises
    ------
    FormatError
        The module has variables that devmod cannot pass. The text continues a sentence that begins
        with the module.
    """
    if not module.entries:
        raise error("has no entry point")
    entries = [entry for entry in module.entries if entry.model == GL_COMPUTE]
    if not entries:
        first = module.entries[0]
        model = MODELS.get(first.model, f"of the execution model {first.model}")
        raise error(
            f"has no compute shader: its entry {first.name!r} is {model}; expected a compute shader (GLCompute)"
        )
    reader = _Reader(module, constants or SpirvConstants(module), location)
    shaders: list[ReflectedShader] = []
    arguments = 0
    for entry in entries:
        shader = reader.shader(entry, include_unused=include_unused and len(entries) == 1)
        arguments += len(shader.constants) + len(shader.push)
        for each in shader.resources:
            handles = 2 if each.kind == "combined" else 1
            arguments += max(handles, len(each.members))
        if arguments > MAX_ARGUMENTS:
            raise error(
                f"has entries with more than {MAX_ARGUMENTS} arguments and constants together; split it"
            )
        shaders.append(shader)

    # An acceleration structure needs no variable: an address can be converted to one.
    if _RAY_QUERY in module.capabilities:
        raise error("uses ray queries (the capability RayQueryKHR), which devmod does not support")
    if module.compares_depth:
        raise error(
            "samples an image by depth comparison, which devmod does not support; compare in the shader"
        )
    return shaders


def _of_kernel(shader: ReflectedShader, kernel: ClspvKernel) -> ReflectedShader:
    """Return the shader of a kernel that clspv has compiled: with its arguments, and without the
    constants that a launch sets.
    """
    resources = {each.at: each for each in shader.resources}
    params = []
    for param in kernel.params:
        resource = resources.get(param.at)
        if param.kind == "image" and resource is not None:
            param = param.replace(
                type=resource.type,
                access=resource.access,
                format=resource.format,
                sample=resource.sample,
            )
        params.append(param)
    sizes: dict[Any, int] = {each.at: each.size for each in shader.resources}
    sizes["push"] = shader.push_size
    blocks = [each.replace(size=max(each.size, sizes.get(each.at, 0))) for each in kernel.blocks]
    block = kernel.block
    launched = kernel.launch.constants
    if block is None and ("block", 0) not in launched.values():
        block = shader.block
    return shader._replace(
        constants=tuple(each for each in shader.constants if each.id not in launched),
        block=block,
        block_constants=(),
        kernel=kernel._replace(params=params, blocks=blocks),
    )


def _with_names(
    constants: list[PipelineConstant], sources: Iterable[BlockSource]
) -> list[PipelineConstant]:
    """Name the constants of the workgroup size, for which compilers write no names."""
    names = {constant.name for constant in constants}
    for axis, source in zip("xyz", sources, strict=False):
        if not isinstance(source, int) or source < 0:
            continue
        name = f"local_size_{axis}"
        if not constants[source].name and name not in names:
            constants[source] = constants[source].replace(name=name)
    return constants


class _Reader:
    """The entry points of a module, and the bound variables, each read once for all of them:
    `_resource` and `_members` are cached.
    """

    def __init__(self, module: SpirvModule, constants: SpirvConstants, location: str) -> None:
        self._module = module
        self._constants = constants
        self._location = location
        self._layouts = Layouts(module, constants)
        self._size = _size_constant(module)
        self._resource = cache(self._read_resource)
        self._members = cache(self._read_members)
        self._marks = cache(self._read_marks)
        self._described: dict[Layout, Members] = {}
        self._kernels = read_clspv(module)

    def shader(self, entry: EntryPoint, *, include_unused: bool) -> ReflectedShader:
        """Return an entry point with the variables that it uses, or with all."""
        module = self._module
        variables = list(module.variables)
        if not include_unused:
            variables = module.used_by(entry)

        resources: list[Resource] = []
        push: tuple[BlockMember, ...] = ()
        push_size = 0
        push_name = ""
        for number in variables:
            pointer, storage = module.variables[number]
            if storage == _PUSH_CONSTANT:
                if push:
                    raise error(f"has two blocks of push constants in the entry {entry.name!r}")
                block_type = self._pointee(pointer)
                push, end, _ = self._members(block_type)
                push_size = round_up(end, 4)
                push_name = module.names.get(number, "") or module.names.get(block_type, "")
            elif storage in (_UNIFORM_CONSTANT, _UNIFORM, _STORAGE_BUFFER):
                resources.append(self._resource(number, self._pointee(pointer), storage))
                if len(resources) > MAX_ARGUMENTS:
                    raise error(
                        f"has the entry {entry.name!r} with more than {MAX_ARGUMENTS} arguments"
                    )
            elif storage == _ATOMIC_COUNTER:
                raise error(
                    "has an atomic counter, which Vulkan does not support; use an atomic operation on a buffer"
                )
        block, sources = self._block(entry)
        shader = ReflectedShader(
            entry.name,
            tuple(resources),
            push=push,
            push_size=push_size,
            push_name=push_name,
            constants=tuple(_with_names([*self._constants.listed], sources)),
            block=block,
            block_constants=sources,
            location=self._location,
            workgroup_memory=self._workgroup_memory(entry),
        )
        kernel = self._kernels.get(entry.name)
        if kernel is None:
            return shader
        return _of_kernel(shader, kernel)

    def _block(self, entry: EntryPoint) -> tuple[Dims | None, tuple[BlockSource, ...]]:
        """Return the workgroup size, None if unknown, and the source of each of its three
        numbers.
        """
        modes = self._module.modes.get(entry.function, {})
        constants = self._constants
        # A decorated constant replaces the execution mode.
        numbers = self._size or modes.get(_LOCAL_SIZE_ID, ())
        if not numbers:
            size = modes.get(_LOCAL_SIZE, ())
            if len(size) != 3 or not all(size):
                raise error(f"has the entry {entry.name!r} without a valid workgroup size")
            return (size[0], size[1], size[2]), ()

        sizes: list[int] = []
        for number in numbers:
            is_known = constants.is_set(number)
            sizes.append(constants.values.get(number, 0) if is_known else 0)
        sources = tuple(constants.source(number) for number in numbers)
        if len(sizes) != 3:
            raise error(
                f"is damaged: the workgroup size of the entry {entry.name!r} is not three numbers"
            )
        if min(sizes) > 0:
            return (sizes[0], sizes[1], sizes[2]), sources

        # A caller may set the constants on which a size depends.
        if any(source != -1 for source in sources):
            return None, sources
        if any(number not in constants.values for number in numbers):
            raise error(
                f"has the entry {entry.name!r} with a workgroup size that devmod does not evaluate"
            )
        raise error(f"has the entry {entry.name!r} with a workgroup size of {tuple(sizes)}")

    def _workgroup_memory(self, entry: EntryPoint) -> int:
        """Return the bytes of shared memory that an entry point uses. Types of unknown size count
        0.
        """
        size = 0
        for number in self._module.used_by(entry):
            pointer, storage = self._module.variables[number]
            if storage == _WORKGROUP:
                size += self._sizes[self._pointee(pointer)]
        return min(size, _MOST_MEMORY)

    @cached_property
    def _sizes(self) -> dict[int, int]:
        """The bytes of each type in shared memory. A type is behind those that it contains."""
        sizes: dict[int, int] = defaultdict(int)
        for number, (opcode, operands) in self._module.types.items():
            if opcode in (21, 22):  # integers and floats
                size = operands[0] // 8
            elif opcode == 20:  # bool
                size = 4
            elif opcode in (23, 24):  # vectors and matrices
                size = operands[1] * sizes[operands[0]]
            elif opcode == 28:  # arrays
                size = max(self._constants.values.get(operands[1], 0), 0) * sizes[operands[0]]
            elif opcode == 30:  # structs
                size = sum(sizes[member] for member in operands)
            else:
                size = 0
            sizes[number] = min(size, _MOST_MEMORY)
        return sizes

    def _pointee(self, pointer: int) -> int:
        opcode, operands = self._module.types[pointer]
        if opcode != 32:
            raise error(f"is damaged: a variable has the type {pointer}; expected a pointer")
        return operands[1]

    def _read_resource(self, number: int, type_: int, storage: int) -> Resource:
        module = self._module
        layouts = self._layouts
        decorations = module.decorations.get(number, {})
        at = module.place_of(number)
        name = module.names.get(number, "") or module.names.get(type_, "")
        if at is None:
            raise error(
                f"has the variable {name!r} without a binding; add layout(set = 0, binding = N)"
            )
        if storage == _UNIFORM_CONSTANT:
            return self._opaque(at, name, type_, decorations)
        if module.types[type_][0] in (28, 29):
            raise error(
                f"has the variable {name!r}, an array of bindings, which devmod does not support; use one buffer"
            )
        members = layouts.members(type_)
        if storage == _UNIFORM and _BUFFER_BLOCK not in module.decorations.get(type_, {}):
            listed, size, align = self._members(type_)
            return Resource(at, name, "uniform", size=size, align=align, members=listed)
        # A block without a name and with one member gets the member's name.
        if not module.names.get(number) and len(members) == 1 and members[0][0]:
            name = members[0][0]

        block = layouts.block(type_)
        readable, writable = self._marks(type_)
        read = _NON_READABLE not in decorations and readable
        written = _NON_WRITABLE not in decorations and writable
        access = _access(read, written)
        size = layouts.declared_size(type_)
        align = block.element_align
        structs: Members = ()
        if align:
            structs = self._structs(block)
        return Resource(
            at, name, "buffer", block.element, access, size=size, align=align, structs=structs
        )

    def _structs(self, block: Layout) -> Members:
        """Return the members of the structs in a buffer; () if they depend on a specialization
        constant.
        """
        of = block.struct
        if of is None or of.fields is None or of.specialized:
            return ()
        if of not in self._described:
            self._described[of] = describe_members(of.fields, _member_type)
        return self._described[of]

    def _read_marks(self, type_: int) -> tuple[bool, bool]:
        """Return whether a struct has a readable member, and whether it has a writable one."""
        count = len(self._module.types[type_][1])
        marks = [self._module.decorations.get((type_, index), {}) for index in range(count)]
        if not marks:
            return True, True
        readable = any(_NON_READABLE not in mark for mark in marks)
        writable = any(_NON_WRITABLE not in mark for mark in marks)
        return readable, writable

    def _read_members(self, type_: int) -> tuple[tuple[BlockMember, ...], int, int]:
        """Return the members of a block, its size and its alignment."""
        layout = self._layouts.layout(type_)
        if layout.runtime_sized:
            raise error(
                "has a runtime array in a uniform or push-constant block; expected a fixed size"
            )
        fields = self._layouts.members(type_)
        described: Members = ()
        if not all(member.type for _, _, member in fields):
            described = describe_members(fields, _block_member_type)

        members = []
        for number, (name, at, of) in enumerate(fields):
            dtype = of.type
            access = ""
            if of.pointee:
                dtype = "handle"
                access = _access(*self._marks(of.pointee))
            align = fitting(of.align, at)
            description = described[number : number + 1]
            members.append(BlockMember(name, dtype, at, of.size, align, description, access))
        return tuple(members), layout.size, layout.align

    def _opaque(self, at: Place, name: str, type_: int, decorations: Mapping[int, Ids]) -> Resource:
        """Return an image, a sampler, or both in one."""
        opcode, operands = self._module.types[type_]
        if opcode == 28 and self._constants.values.get(operands[1]) == 1:
            opcode, operands = self._module.types[operands[0]]
        if opcode in (28, 29):
            raise _refusal(
                name,
                "an array of bindings, which devmod does not support; use a variable for each, or the layers of one image",
            )
        if opcode == 26:
            return Resource(at, name, "sampler")
        kind = "image"
        if opcode == 27:
            kind = "combined"
            opcode, operands = self._module.types[operands[0]]
        if opcode != 25:
            description = f"of the opcode {opcode}"
            if opcode == 5341:
                description = "an acceleration structure (for ray queries)"
            raise _refusal(name, f"{description}, which devmod does not support")
        return self._image(at, name, kind, operands, decorations)

    def _image(
        self,
        at: Place,
        name: str,
        kind: str,
        operands: Ids,
        decorations: Mapping[int, Ids],
    ) -> Resource:
        """Return an image, by the operands of its type."""
        self._check_image(name, operands)
        sampled, dim, _, arrayed, _, use, format_ = operands[:7]
        sample = self._sample_type(sampled)
        if not sample:
            raise _refusal(
                name, "an image whose texels are no 32-bit numbers, which devmod does not support"
            )
        # 1 is an image that a sampler reads, 2 is a storage image.
        storage = use == 2
        if (not storage and use != 1) or (kind == "combined" and storage) or (dim == 2 and arrayed):
            raise error(f"is damaged: the type of the image {name!r} is invalid")

        dims = _IMAGE_DIMS[dim]
        if arrayed:
            dims += "_array"
        # Slang gives a texture of integers a format, and Vulkan reads any.
        access = "r"
        image_format = ""
        if storage:
            access = _access(_NON_READABLE not in decorations, _NON_WRITABLE not in decorations)
            image_format = _format_name(format_)
        return Resource(
            at, name, kind, dims, access, format=image_format, sample=sample, storage=storage
        )

    def _check_image(self, name: str, operands: Ids) -> None:
        """Raise an error if the type of an image is one that devmod does not support."""
        _, dim, depth, _, multisampled, _, format_ = operands[:7]
        if dim not in _IMAGE_DIMS:
            unknown = f"an image of the dimension {dim}, which devmod does not support"
            raise _refusal(name, _OTHER_DIMS.get(dim, unknown))
        if multisampled:
            raise _refusal(name, "a multisampled image, which devmod does not support")
        if depth == 1:
            raise _refusal(
                name,
                "an image for depth comparison, which devmod does not support; compare in the shader",
            )
        format_name = _format_name(format_)
        if format_name and format_name not in IMAGE_FORMATS:
            raise _refusal(
                name, f"an image of the format {format_name}, which devmod does not support"
            )

    def _sample_type(self, number: int) -> str:
        """Return the type of an image's texels; "" if they are no 32-bit numbers."""
        opcode, operands = self._module.types[number]
        return _SAMPLE_TYPES.get((opcode, *operands), "")


def _refusal(name: str, description: str) -> FormatError:
    return error(f"has the variable {name!r}, {description}")


def _access(read: bool, written: bool) -> str:
    if not written:
        # A buffer that is neither readable nor writable is used for its length only.
        return "r"
    return "rw" if read else "w"


def _format_name(number: int) -> str:
    if number < len(FORMATS):
        return FORMATS[number]
    return str(number)


def _member_type(layout: Layout, dtype: str = "") -> MemberType:
    of = layout.innermost
    return MemberType(of.size, dtype or of.type, fields=of.fields, dims=layout.dims)


def _block_member_type(layout: Layout) -> MemberType:
    # An address is a "handle" in a block; in a buffer it is a number.
    if layout.innermost.pointee:
        return _member_type(layout, "handle")
    return _member_type(layout)


def _size_constant(module: SpirvModule) -> Ids:
    """Return the ids of the three numbers that are decorated as the workgroup size; () if there are
    none.
    """
    numbers: Ids = ()
    for number, (opcode, operands) in module.constants.items():
        if module.mark(number, _BUILT_IN) == _WORKGROUP_SIZE:
            if opcode not in (44, 51):
                raise error(
                    f"has the workgroup size %{number}, which devmod does not evaluate; expected a composite"
                )
            numbers = operands[1:]
    return numbers


# -- The memory layouts of types, and the element type of an array that a caller passes for a block.
#
# The element type is a scalar or vector if these are contiguous in memory, including those in
# nested arrays and matrices. Otherwise it is a struct of N bytes (``uint8xN``) with its alignment.
# Three-vectors with a stride of 16 bytes count as contiguous, as in devmod's launch.


#: The name, the offset and the layout of each member of a struct.
Fields: TypeAlias = "list[tuple[str, int, Layout]]"


class Layout:
    """The memory layout of one type.

    Attributes
    ----------
    type : str
        The type of a scalar or vector; "" for any other type.
    size : int
        Its size in bytes, without a runtime array at its end.
    align : int
        Its alignment.
    element, element_align : str, int
        The element type, and the alignment of a struct; "" if the type has several.
    struct : Layout or None
        The layout of the structs that are its elements; None if the elements are no structs of
        known members.
    base : str
        The scalar type that fills it without gaps; "" if there is none.
    runtime_sized : bool
        Whether it ends in a runtime array.
    specialized : bool
        Whether a specialization constant changes its size; `size` uses the default.
    dims : tuple
        The length and the stride of each dimension of an array, and of a matrix as an array of
        columns or rows.
    innermost : Layout
        The layout of an element of all dimensions; the layout itself if there are none.
    fields : list or None
        The members of a struct.
    pointee : int
        The id of the type at an address; 0 for any other type.
    """

    def __init__(
        self,
        size: int,
        align: int,
        *,
        type: str = "",  # noqa: A002 - the format's name
        element: tuple[str, int] = ("", 0),
        base: str = "",
    ) -> None:
        self.size = _checked(size)
        self.align = align
        self.type = type
        self.base = base
        self.runtime_sized = False
        self.specialized = False
        self.element, self.element_align = element
        self.dims: tuple[tuple[int, int], ...] = ()
        self.struct: Layout | None = None
        self.innermost = self
        self.fields: Fields | None = None
        self.pointee = 0

    def add_dimension(self, inner: Layout, count: int, step: int) -> Layout:
        """Make this the layout of `count` elements with a stride of `step` bytes, and return it."""
        self.dims = ((count, step), *inner.dims)
        self.innermost = inner.innermost
        self.size = _checked(step * count)
        return self


def round_up(size: int, align: int) -> int:
    """Return the smallest multiple of `align` that is at least `size`."""
    return (size + align - 1) // align * align


class Layouts:
    """The layouts of a module's types. `members` and `declared_size` are cached, because variables
    share types.
    """

    def __init__(self, module: SpirvModule, constants: SpirvConstants) -> None:
        self._module = module
        self._constants = constants
        self._layouts: dict[int, Layout] = {}
        self.members = cache(self._read_members)
        self.declared_size = cache(self._declared_size)
        self._open: set[int] = set()

    def layout(self, number: int) -> Layout:
        """Return the layout of a type by its id.

        Raises
        ------
        FormatError
            The type is not allowed in a block, or has no layout.
        """
        layout = self._layouts.get(number)
        if layout is not None:
            return layout
        if number in self._open:
            raise error("has a block of memory that contains itself")
        if len(self._open) >= _MAX_DEPTH:
            raise error(f"has a block of memory that is nested more than {_MAX_DEPTH} levels deep")
        self._open.add(number)
        layout = self._layouts[number] = self._make_layout(number)
        self._open.discard(number)
        return layout

    def block(self, number: int) -> Layout:
        """Return the layout with the element type of a buffer of a struct type: that of the struct,
        or of its only member.
        """
        members = self.members(number)
        if len(members) == 1:
            _, offset, only = members[0]
            if not offset:
                return only
        return self.layout(number)

    def _declared_size(self, number: int) -> int:
        """Return the bytes of a struct's members without a runtime array; 0 if they depend on a
        specialization constant.
        """
        members = self.members(number)
        if any(layout.specialized for _, _, layout in members):
            return 0
        return max((offset + layout.size for _, offset, layout in members), default=0)

    def _read_members(self, number: int) -> Fields:
        """Return the name, offset and layout of each member of a struct."""
        opcode, operands = self._type(number)
        if opcode != 30:
            raise error(f"is damaged: the type {number} of a block is not a struct")
        return [self._member(number, index, member) for index, member in enumerate(operands)]

    def _type(self, number: int) -> tuple[int, tuple[int, ...]]:
        type_ = self._module.types.get(number)
        if type_ is None:
            raise error(f"is damaged: {number} is not a type")
        return type_

    def _make_layout(self, number: int) -> Layout:
        opcode, operands = self._type(number)
        if opcode in (21, 22):
            return _plain(_scalar(opcode, operands), operands[0] // 8)
        if opcode == 23:
            one = self.layout(operands[0])
            lanes = operands[1]
            if not one.type or "x" in one.type or not 2 <= lanes <= 16:
                raise error("is damaged: it has an invalid vector")
            return _vector(one.type, one.size, lanes)
        if opcode in (28, 29):
            return self._array(number, self.layout(operands[0]))
        if opcode == 30:
            return self._struct(self.members(number))
        if opcode == 32 and operands[0] == _PHYSICAL:
            address = _plain("uint64", 8)
            address.pointee = operands[1]
            return address
        description = {20: "a bool", 24: "a matrix without a stride"}.get(
            opcode, f"a type of opcode {opcode}"
        )
        raise error(f"has {description} in a block of memory, where that type has no layout")

    def _array(self, number: int, inner: Layout) -> Layout:
        opcode, operands = self._type(number)
        step = self._module.mark(number, ARRAY_STRIDE)
        if not step:
            raise error("has an array without a stride in a block of memory; expected ArrayStride")
        if inner.runtime_sized:
            raise error("is damaged: it has an array of runtime arrays")
        layout = _strided(inner, step)
        if inner.fields is not None:
            layout.struct = inner
        elif step == inner.size:
            layout.struct = inner.struct
        layout.specialized = inner.specialized
        if opcode == 29:
            layout.runtime_sized = True
            return layout

        if operands[1] in self._constants.sources:
            layout.specialized = True
        length = self._constants.values.get(operands[1], 0)
        if length < 1:
            raise error("has an array of unknown length in a block of memory")
        return layout.add_dimension(inner, length, step)

    def _struct(self, members: Fields) -> Layout:
        end = max((offset + layout.size for _, offset, layout in members), default=0)
        align = max((fitting(layout.align, offset) for _, offset, layout in members), default=1)
        if any(layout.runtime_sized for _, _, layout in members[:-1]):
            raise error(
                "is damaged: it has a runtime array that is not the last member of its struct"
            )
        if members and members[-1][2].runtime_sized:
            layout = Layout(end, align, element=(_common(members), 0))
            layout.runtime_sized = True
            return layout
        size = round_up(end, align)
        layout = Layout(size, align, element=struct_type(size, align))
        layout.fields = members
        layout.struct = layout
        layout.specialized = any(layout.specialized for _, _, layout in members)
        return layout

    def _member(self, number: int, index: int, member: int) -> tuple[str, int, Layout]:
        target = number, index
        offset = self._module.mark(target, OFFSET)
        if offset is None:
            raise error("has a block of memory whose members have no offsets; expected Offset")
        return self._module.names.get(target, ""), offset, self._with_matrices(target, member)

    def _with_matrices(self, target: Target, number: int) -> Layout:
        """Return the layout of a member. The decorations of the member apply to a matrix, also to
        one inside arrays.
        """
        arrays: list[int] = []
        inner = number
        while self._type(inner)[0] in (28, 29) and len(arrays) <= _MAX_DEPTH:
            arrays.append(inner)
            inner = self._type(inner)[1][0]
        opcode, operands = self._type(inner)
        if opcode != 24:
            return self.layout(number)
        step = self._module.mark(target, MATRIX_STRIDE)
        if not step:
            raise error("has a matrix without a stride in a block of memory; expected MatrixStride")
        column = self.layout(operands[0])
        count = operands[1]
        lane, _, lanes = column.type.rpartition("x")
        if not lanes.isdigit() or not 2 <= count <= 4:
            raise error("is damaged: it has an invalid matrix")
        if ROW_MAJOR in self._module.decorations[target]:
            column = _vector(lane, column.size // int(lanes), count)
            count = int(lanes)
        layout = _strided(column, step)
        layout.add_dimension(column, count, step)
        for array in reversed(arrays):
            layout = self._array(array, layout)
        return layout


def _plain(name: str, size: int) -> Layout:
    return Layout(size, size, type=name, element=(name, 0), base=name)


def _vector(name: str, size: int, lanes: int) -> Layout:
    vector = f"{name}x{lanes}"
    aligned_lanes = 4 if lanes == 3 else lanes
    size_of_lanes = size * aligned_lanes
    return Layout(size * lanes, size_of_lanes, type=vector, element=(vector, 0), base=name)


def _checked(size: int) -> int:
    if size > _LARGEST:
        raise error("has a block of more than 2**62 bytes")
    return size


def _scalar(opcode: int, operands: Ids) -> str:
    bits = operands[0]
    name = None
    if opcode == 22:
        encoding = operands[1] if len(operands) > 1 else None
        name = _FLOATS.get((bits, encoding))
    elif bits in (8, 16, 32, 64):
        name = f"int{bits}" if operands[1] else f"uint{bits}"
    if name is None:
        raise error(f"has a number of {bits} bits in an encoding that devmod does not support")
    return name


def _strided(inner: Layout, step: int) -> Layout:
    """Return an empty array of elements with a stride."""
    base = inner.base if step == inner.size else ""
    align = fitting(inner.align, step)
    return Layout(0, align, element=_element_of(inner, step), base=base)


def _element_of(inner: Layout, step: int) -> tuple[str, int]:
    """Return the element type of an array with a stride of `step` bytes."""
    if inner.type:
        padded_size = inner.size
        if inner.type.endswith("x3"):
            padded_size = inner.align
        if step == padded_size:
            return inner.type, 0
        if step == inner.size:
            # Contiguous three-vectors.
            return inner.base, 0
    elif step == inner.size and inner.element:
        return inner.element, inner.element_align
    return struct_type(step, fitting(inner.align, step))


def fitting(align: int, offset: int) -> int:
    """Return the greatest power of two that is at most `align` and divides `offset`."""
    while align > 1 and offset % align:
        align //= 2
    return align


def _common(members: Fields) -> str:
    """Return the scalar type that fills a struct with a runtime array without gaps; "" if there is
    none.
    """
    at = 0
    base = members[0][2].base
    for _, offset, layout in members:
        if not base or layout.base != base or offset != at:
            return ""
        at = offset + layout.size
    return base
