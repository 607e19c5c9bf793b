"""Reflect the compute entry points of a SPIR-V module: their resources, push constants and workgroup sizes."""

from __future__ import annotations

from devmod.backend import PipelineConstant
from devmod_readers.reflection import MAX_ARGUMENTS, BlockMember, MemberType, ReflectedShader, Resource, describe_members
from devmod_readers.spirv._constants import SpirvConstants
from devmod_readers.spirv._layout import Layout, Layouts, fitting, round_up
from devmod_readers.spirv._module import GL_COMPUTE, MODELS, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from devmod import Member
    from devmod_readers.spirv._module import EntryPoint, SpirvModule

_BUFFER_BLOCK, _BUILT_IN, _NON_WRITABLE, _NON_READABLE, _BINDING, _SET = 3, 11, 24, 25, 33, 34
_WORKGROUP_SIZE = 25
_UNIFORM_CONSTANT, _UNIFORM, _PUSH_CONSTANT, _ATOMIC_COUNTER, _STORAGE_BUFFER = 0, 2, 9, 10, 12
_LOCAL_SIZE, _LOCAL_SIZE_ID = 17, 38


def reflect(module: SpirvModule, location: str, *, include_unused: bool, constants: SpirvConstants | None = None) -> list[ReflectedShader]:
    """Reflect the compute entry points of a module.

    Parameters
    ----------
    module
        The module, as `read_module` returns it.
    location
        The name of its source, for messages.
    include_unused
        Whether the single entry point of a module gets all declared variables. One of several gets the variables that it uses.
    constants
        The module's constants; by default with no values but the defaults.

    Returns
    -------
    list of ReflectedShader
        The compute entry points, in the order of the module.

    Raises
    ------
    FormatError
        The module has variables that devmod cannot pass. The text continues a sentence that begins with the module.
    """
    entries = [entry for entry in module.entries if entry.model == GL_COMPUTE]
    if not entries:
        raise error(_no_entry(module))
    constants = constants or SpirvConstants(module)
    layouts = Layouts(module, constants.values, constants.sources)
    blocks = _Blocks(module, layouts)
    size = _size_constant(module)
    shaders: list[ReflectedShader] = []
    arguments = 0
    for entry in entries:
        shader = _shader(module, entry, constants, blocks, size, location, include_unused=include_unused and len(entries) == 1)
        arguments += len(shader.constants) + len(shader.push) + sum(max(1, len(each.members)) for each in shader.resources)
        if arguments > MAX_ARGUMENTS:
            raise error(f"has entries with more than {MAX_ARGUMENTS} arguments and constants together; split it")
        shaders.append(shader)
    return shaders


def _no_entry(module: SpirvModule) -> str:
    if not module.entries:
        return "has no entry point"
    first = module.entries[0]
    model = MODELS.get(first.model, f"of the execution model {first.model}")
    return f"has no compute shader: its entry {first.name!r} is {model}; expected a compute shader (GLCompute)"


def _shader(
    module: SpirvModule,
    entry: EntryPoint,
    constants: SpirvConstants,
    blocks: _Blocks,
    size: tuple[int, ...],
    location: str,
    *,
    include_unused: bool,
) -> ReflectedShader:
    # In the order of the module.
    variables = list(module.variables) if include_unused else sorted(module.used_by(entry), key=blocks.order.__getitem__)
    resources: list[Resource] = []
    push: list[BlockMember] = []
    push_size = 0
    for number in variables:
        pointer, storage = module.variables[number]
        if storage == _PUSH_CONSTANT:
            if push:
                raise error(f"has two blocks of push constants in the entry {entry.name!r}")
            push, end, _ = blocks.members(_pointee(module, pointer))
            push_size = round_up(end, 4)
        elif storage in (_UNIFORM_CONSTANT, _UNIFORM, _STORAGE_BUFFER):
            resources.append(blocks.resource(number, _pointee(module, pointer), storage))
            if len(resources) > MAX_ARGUMENTS:
                raise error(f"has the entry {entry.name!r} with more than {MAX_ARGUMENTS} arguments")
        elif storage == _ATOMIC_COUNTER:
            raise error("has an atomic counter, which Vulkan does not support; use an atomic operation on a buffer")
    block, sources = _block(module, entry, constants, size)
    constants_by_name = _with_names([*constants.listed], sources)
    return ReflectedShader(
        entry.name,
        resources,
        push=push,
        push_size=push_size,
        constants=constants_by_name,
        block=block,
        block_constants=sources,
        location=location,
    )


def _with_names(constants: list[PipelineConstant], sources: Iterable[int | list[int]]) -> list[PipelineConstant]:
    """Name the constants of the workgroup size, for which compilers write no names."""
    names = {constant.name for constant in constants}
    for axis, source in zip("xyz", sources, strict=False):
        if isinstance(source, int) and source >= 0 and not constants[source].name and f"local_size_{axis}" not in names:
            old = constants[source]
            constants[source] = PipelineConstant(f"local_size_{axis}", old.type, old.id, old.default)
    return constants


def _pointee(module: SpirvModule, pointer: int) -> int:
    opcode, operands = module.types.get(pointer, (0, ()))
    if opcode != 32:
        raise error(f"is damaged: a variable has the type {pointer}; expected a pointer")
    return operands[1]


class _Blocks:
    """The bound variables, each read once for all entry points.

    Attributes
    ----------
    order : dict
        The id of each variable to its position in the module.
    """

    def __init__(self, module: SpirvModule, layouts: Layouts) -> None:
        self._module, self._layouts = module, layouts
        self.order = {number: index for index, number in enumerate(module.variables)}
        self._resources: dict[int, Resource] = {}
        self._members: dict[int, tuple[list[BlockMember], int, int]] = {}
        self._access: dict[int, tuple[bool, bool]] = {}
        self._described: dict[Layout, tuple[Member, ...]] = {}

    def resource(self, number: int, type_: int, storage: int) -> Resource:
        if number not in self._resources:
            self._resources[number] = self._resource(number, type_, storage)
        return self._resources[number]

    def _resource(self, number: int, type_: int, storage: int) -> Resource:
        module, layouts = self._module, self._layouts
        decorations = module.decorations.get(number, {})
        binding = decorations.get(_BINDING, ())[:1]
        name = module.names.get(number, "") or module.names.get(type_, "")
        if not binding:
            raise error(f"has the variable {name!r} without a binding; add layout(set = 0, binding = N)")
        at = ((*decorations.get(_SET, ()), 0)[0], binding[0])
        if storage == _UNIFORM_CONSTANT:
            return _opaque(module, at, name, type_, decorations)
        if module.types.get(type_, (0,))[0] in (28, 29):
            raise error(f"has the variable {name!r}, an array of bindings, which devmod does not support; use one buffer")
        members = layouts.members(type_)
        if storage == _UNIFORM and _BUFFER_BLOCK not in module.decorations.get(type_, {}):
            listed, size, align = self.members(type_)
            return Resource(at, name, "uniform", size=size, align=align, members=listed)
        # A block without a name and with one member gets the member's name.
        if not module.names.get(number) and len(members) == 1 and members[0][0]:
            name = members[0][0]
        block = layouts.block(type_)
        readable, writable = self._marks(type_)
        read = _NON_READABLE not in decorations and readable
        written = _NON_WRITABLE not in decorations and writable
        size, align = layouts.declared_size(type_), block.element_align
        return Resource(
            at, name, "buffer", block.element, _access(read, written), size=size, align=align, structs=self._structs(block) if align else ()
        )

    def _structs(self, block: Layout) -> tuple[Member, ...]:
        """Return the members of the structs in a buffer; () if they depend on a specialization constant."""
        of = block.struct
        if of is None or of.fields is None or of.specialized:
            return ()
        if of not in self._described:
            self._described[of] = describe_members(of.fields, _member_type)
        return self._described[of]

    def _marks(self, type_: int) -> tuple[bool, bool]:
        """Return whether a struct has a readable member, and whether it has a writable one."""
        if type_ not in self._access:
            count = len(self._layouts.members(type_))
            marks = [self._module.member_decorations.get((type_, index), {}) for index in range(count)]
            self._access[type_] = (
                not (marks and all(_NON_READABLE in mark for mark in marks)),
                not (marks and all(_NON_WRITABLE in mark for mark in marks)),
            )
        return self._access[type_]

    def members(self, type_: int) -> tuple[list[BlockMember], int, int]:
        """Return the members of a block, its size and its alignment."""
        if type_ not in self._members:
            layout = self._layouts.layout(type_)
            if layout.runtime_sized:
                raise error("has a runtime array in a uniform or push-constant block; expected a fixed size")
            fields = self._layouts.members(type_)
            plain = all(member.type for _, _, member in fields)
            described = () if plain else describe_members(fields, _member_type)
            members = [
                BlockMember(name, of.type, at, of.size, fitting(of.align, at), described[number : number + 1])
                for number, (name, at, of) in enumerate(fields)
            ]
            self._members[type_] = (members, layout.size, layout.align)
        return self._members[type_]


def _access(read: bool, written: bool) -> str:
    # A buffer that is neither readable nor writable is used for its length only.
    return "rw" if read and written else "w" if written else "r"


def _opaque(module: SpirvModule, at: tuple[int, int], name: str, type_: int, decorations: Mapping[int, tuple[int, ...]]) -> Resource:
    opcode, operands = module.types.get(type_, (0, ()))
    for _ in range(8):
        if opcode in (28, 29):  # an array of images
            opcode, operands = module.types.get(operands[0], (0, ()))
    if opcode == 26:
        return Resource(at, name, "sampler")
    if opcode == 27:
        return Resource(at, name, "image", "", "r")
    if opcode == 25:
        storage = operands[5] == 2
        access = _access(_NON_READABLE not in decorations, _NON_WRITABLE not in decorations) if storage else "r"
        return Resource(at, name, "image", "", access)
    description = "an acceleration structure" if opcode == 5341 else f"of the opcode {opcode}"
    raise error(f"has the variable {name!r}, {description}, which devmod does not support")


def _member_type(layout: Layout) -> MemberType:
    of = layout.innermost
    return MemberType(of.size, of.type, fields=of.fields, dims=layout.dims)


def _size_constant(module: SpirvModule) -> tuple[int, ...]:
    """Return the ids of the three numbers that are decorated as the workgroup size; () if there are none."""
    numbers: tuple[int, ...] = ()
    for number, decorations in module.decorations.items():
        if decorations.get(_BUILT_IN, ())[:1] == (_WORKGROUP_SIZE,) and number in module.constants:
            opcode, operands = module.constants[number]
            if opcode not in (44, 51):
                raise error(f"has the workgroup size %{number}, which devmod does not evaluate; expected a composite")
            numbers = operands[1:]
    return numbers


def _block(
    module: SpirvModule, entry: EntryPoint, constants: SpirvConstants, numbers: tuple[int, ...]
) -> tuple[tuple[int, int, int] | None, tuple[int | list[int], ...]]:
    """Return the workgroup size, None if unknown, and the source of each of its three numbers."""
    modes = module.modes.get(entry.function, {})
    # A decorated constant replaces the execution mode.
    if not numbers and _LOCAL_SIZE_ID in modes:
        numbers = modes[_LOCAL_SIZE_ID]
    if not numbers:
        size = modes.get(_LOCAL_SIZE, ())
        if len(size) != 3 or not all(size):
            raise error(f"has the entry {entry.name!r} without a valid workgroup size")
        return (size[0], size[1], size[2]), ()
    sizes = [constants.values.get(number, 0) if constants.is_set(number) else 0 for number in numbers]
    sources = tuple(constants.source(number) for number in numbers)
    if len(sizes) != 3:
        raise error(f"is damaged: the workgroup size of the entry {entry.name!r} is not three numbers")
    if not all(size > 0 for size in sizes):
        if all(source == -1 for source in sources):
            if any(number not in constants.values for number in numbers):
                raise error(f"has the entry {entry.name!r} with a workgroup size that devmod does not evaluate")
            raise error(f"has the entry {entry.name!r} with a workgroup size of {tuple(sizes)}")
        return None, sources
    return (sizes[0], sizes[1], sizes[2]), sources
