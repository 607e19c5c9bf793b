"""What the entries of a SPIR-V module take, read from the module itself before anything is optimized away."""

from __future__ import annotations

import operator
import struct

from devmod.errors import FormatError
from devmod.targets._shader import Constant, Member, Resource, Shader
from devmod_targets.vulkan._layout import Layouts, round_up
from devmod_targets.vulkan._spirv import GL_COMPUTE, MODELS, read_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from devmod_targets.vulkan._spirv import Entry, Module

_SPEC_ID, _BLOCK, _BUFFER_BLOCK, _BUILT_IN, _NON_WRITABLE, _NON_READABLE, _BINDING, _SET = 1, 2, 3, 11, 24, 25, 33, 34
_WORKGROUP_SIZE = 25
_UNIFORM_CONSTANT, _UNIFORM, _PUSH_CONSTANT, _ATOMIC_COUNTER, _STORAGE_BUFFER = 0, 2, 9, 10, 12
_LOCAL_SIZE, _LOCAL_SIZE_ID = 17, 38
_MOST_CONSTANTS = 1024
_FLOAT_FORMS = {16: "<e", 32: "<f", 64: "<d"}


def reflect(data: bytes | memoryview, where: str, *, declared: bool) -> list[Shader]:
    """The compute entries of a module.

    Parameters
    ----------
    data
        A SPIR-V file.
    where
        Its source, for messages.
    declared
        Whether the only entry of a module takes all that the module declares; an entry among several takes what it uses.

    Raises
    ------
    FormatError
        The module is malformed, or takes what devmod cannot pass; the text ends a sentence that begins with the module.
    """
    module = read_module(data)
    entries = [entry for entry in module.entries if entry.model == GL_COMPUTE]
    if not entries:
        raise FormatError(_no_entry(module), kind="vulkan")
    constants = _Constants(module)
    layouts = Layouts(module, constants.values)
    return [_shader(module, entry, constants, layouts, where, all_=declared and len(entries) == 1) for entry in entries]


def _no_entry(module: Module) -> str:
    if not module.entries:
        return "has no entry point"
    first = module.entries[0]
    what = MODELS.get(first.model, f"of the execution model {first.model}")
    return f"has no compute shader: its entry {first.name!r} is {what}, and Vulkan runs compute shaders here (GLCompute)"


class _Constants:
    """The numbers of a module: constants, specialization constants by their defaults, and what is worked out from them.

    Attributes
    ----------
    values : dict
        Id to whole number.
    sources : dict
        Id to a bit for each specialization constant that it is worked out from.
    listed : list of (int, Constant)
        Id and specialization constant, in the order of their numbers.
    """

    def __init__(self, module: Module) -> None:
        self.values: dict[int, int] = {}
        self.sources: dict[int, int] = {}
        found = []
        for number, (opcode, _) in module.constants.items():
            spec_id = module.decorations.get(number, {}).get(_SPEC_ID, ())[:1]
            if spec_id and opcode in (48, 49, 50):
                found.append((spec_id[0], number))
        taken: dict[int, int] = {}
        for spec_id_, number in sorted(found):
            taken.setdefault(spec_id_, number)
        if len(taken) > _MOST_CONSTANTS:
            raise FormatError(f"has more than {_MOST_CONSTANTS} specialization constants", kind="vulkan")
        position = {spec_id_: index for index, spec_id_ in enumerate(taken)}
        self.direct = {number for _, number in found}
        for spec_id_, number in found:
            self.sources[number] = 1 << position[spec_id_]
        for number, (opcode, operands) in module.constants.items():
            value = _value(module, opcode, operands, self.values)
            if value is not None:
                self.values[number] = value
            if opcode == 52:
                self.sources[number] = self._together(operands[2:])
        self.listed = [(number, _constant(module, number, spec_id_)) for spec_id_, number in taken.items()]

    def _together(self, operands: Iterable[int]) -> int:
        sources = 0
        for operand in operands:
            sources |= self.sources.get(operand, 0)
        return sources

    def source(self, number: int) -> int | list[int]:
        """What a number comes from, as an interface says it of a block."""
        positions = [index for index in range(len(self.listed)) if self.sources.get(number, 0) >> index & 1]
        return positions[0] if number in self.direct else positions or -1


def _value(module: Module, opcode: int, operands: tuple[int, ...], values: Mapping[int, int]) -> int | None:
    """A constant as a whole number; None for one that is none, or that cannot be worked out here."""
    kind, rest = operands[0], operands[1:]
    if opcode in (41, 48):
        return 1
    if opcode in (42, 49):
        return 0
    type_ = module.types.get(kind)
    if type_ is None or type_[0] not in (20, 21):
        return None
    bits, signed = (type_[1][0], type_[1][1]) if type_[0] == 21 else (8, 0)
    if opcode in (43, 50):
        number = sum(word << 32 * index for index, word in enumerate(rest[:2]))
    elif opcode == 46:
        number = 0
    elif opcode == 52:
        worked = _worked_out(rest[0], [values.get(operand) for operand in rest[1:4]])
        if worked is None:
            return None
        number = worked
    else:
        return None
    if not 8 <= bits <= 64:
        return None
    number &= (1 << bits) - 1
    return number - (1 << bits) if signed and number >> bits - 1 else number


def _worked_out(opcode: int, operands: list[int | None]) -> int | None:
    """The result of an OpSpecConstantOp on whole numbers; None where it has none, or is not known here."""
    one, other = (*operands, None, None)[:2]
    if one is None:
        return None
    if opcode == 169 and len(operands) == 3:
        return operands[1] if one else operands[2]
    if opcode in _ALONE:
        return _ALONE[opcode](one)
    work = _OPERATIONS.get(opcode)
    if work is None or other is None:
        return None
    if opcode in _UNSIGNED and (one < 0 or other < 0):
        return None
    if opcode in _DIVISIONS and not other:
        return None
    if opcode in _SHIFTS and not 0 <= other < 64:
        return None
    return work(one, other)


def _divided(one: int, other: int) -> int:
    """The quotient as C has it: cut towards zero."""
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


_OPERATIONS: Mapping[int, Callable[[int, int], int]] = {
    128: operator.add, 130: operator.sub, 132: operator.mul,
    134: operator.floordiv, 135: _divided, 137: operator.mod, 138: lambda one, other: one - other * _divided(one, other), 139: operator.mod,
    194: operator.rshift, 195: operator.rshift, 196: operator.lshift,
    197: operator.or_, 198: operator.xor, 199: operator.and_, 166: operator.or_, 167: operator.and_,
    164: operator.eq, 165: operator.ne, 170: operator.eq, 171: operator.ne,
    172: operator.gt, 173: operator.gt, 174: operator.ge, 175: operator.ge,
    176: operator.lt, 177: operator.lt, 178: operator.le, 179: operator.le,
}  # fmt: skip
_ALONE: Mapping[int, Callable[[int], int]] = {
    113: operator.pos, 114: operator.pos, 124: operator.pos, 126: operator.neg, 168: operator.not_, 200: operator.invert,
}  # fmt: skip
_DIVISIONS = (134, 135, 137, 138, 139)
#: Negative operands stand for large ones there, and sizes are neither.
_UNSIGNED = (134, 137, 172, 174, 176, 178, 194)
_SHIFTS = (194, 195, 196)


def _constant(module: Module, number: int, spec_id: int) -> Constant:
    opcode, operands = module.constants[number]
    name = module.names.get(number, "")
    if opcode in (48, 49):
        return Constant(name, "bool", spec_id, opcode == 48)
    kind, type_ = module.types.get(operands[0], (0, ()))
    words = sum(word << 32 * index for index, word in enumerate(operands[1:3]))
    bits = type_[0] if type_ else 0
    if kind == 22 and bits in _FLOAT_FORMS and len(type_) == 1:
        data = (words & (1 << bits) - 1).to_bytes(bits // 8, "little")
        return Constant(name, f"float{bits}", spec_id, struct.unpack(_FLOAT_FORMS[bits], data)[0])
    value = _value(module, opcode, operands, {})
    if kind != 21 or value is None or bits not in (8, 16, 32, 64):
        raise FormatError(f"has the specialization constant {name or spec_id!r}, which is none of a number or a bool", kind="vulkan")
    return Constant(name, f"{'int' if type_[1] else 'uint'}{bits}", spec_id, value)


def _shader(module: Module, entry: Entry, constants: _Constants, layouts: Layouts, where: str, *, all_: bool) -> Shader:
    used = set(module.variables) if all_ else module.used_by(entry)
    resources: list[Resource] = []
    push: list[Member] = []
    push_size = 0
    for number, (pointer, storage) in module.variables.items():
        if number not in used:
            continue
        if storage == _PUSH_CONSTANT:
            if push:
                raise FormatError(f"has two blocks of push constants in the entry {entry.name!r}", kind="vulkan")
            push, end, _ = _members(layouts, _pointee(module, pointer))
            push_size = round_up(end, 4)
        elif storage in (_UNIFORM_CONSTANT, _UNIFORM, _STORAGE_BUFFER):
            resources.append(_resource(module, layouts, number, _pointee(module, pointer), storage))
        elif storage == _ATOMIC_COUNTER:
            raise FormatError("has an atomic counter, which is OpenGL's; use an atomic operation on a buffer", kind="vulkan")
    block, sources = _block(module, entry, constants)
    listed = _named([constant for _, constant in constants.listed], sources)
    return Shader(
        entry.name, resources, push=push, push_size=push_size, constants=listed, block=block, block_constants=sources, where=where
    )


def _named(constants: list[Constant], sources: Iterable[int | list[int]]) -> list[Constant]:
    """The constants, those that are the block's size under a name: compilers give them none."""
    names = {constant.name for constant in constants}
    for axis, source in zip("xyz", sources, strict=False):
        if isinstance(source, int) and source >= 0 and not constants[source].name and f"local_size_{axis}" not in names:
            old = constants[source]
            constants[source] = Constant(f"local_size_{axis}", old.type, old.id, old.default)
    return constants


def _pointee(module: Module, pointer: int) -> int:
    opcode, operands = module.types.get(pointer, (0, ()))
    if opcode != 32:
        raise FormatError(f"is damaged: a variable has the type {pointer}, which is no pointer", kind="vulkan")
    return operands[1]


def _resource(module: Module, layouts: Layouts, number: int, type_: int, storage: int) -> Resource:
    decorations = module.decorations.get(number, {})
    binding = decorations.get(_BINDING, ())[:1]
    name = module.names.get(number, "") or module.names.get(type_, "")
    if not binding:
        raise FormatError(f"has the variable {name!r} without a binding; give it one: layout(set = 0, binding = N)", kind="vulkan")
    at = ((*decorations.get(_SET, ()), 0)[0], binding[0])
    if storage == _UNIFORM_CONSTANT:
        return _opaque(module, at, name, type_, decorations)
    if module.types.get(type_, (0,))[0] in (28, 29):
        raise FormatError(f"has the variable {name!r}, an array of bindings, which devmod cannot pass; make it one buffer", kind="vulkan")
    members = layouts.members(type_)
    if storage == _UNIFORM and _BUFFER_BLOCK not in module.decorations.get(type_, {}):
        listed, size, align = _members(layouts, type_)
        return Resource(at, name, "uniform", size=size, align=align, members=listed)
    # A block without a name of its own and with one member is called as that is.
    if not module.names.get(number) and len(members) == 1 and members[0][0]:
        name = members[0][0]
    marks = [module.member_decorations.get((type_, index), {}) for index in range(len(members))]
    element, align = layouts.block(type_)
    read = _NON_READABLE not in decorations and not (marks and all(_NON_READABLE in mark for mark in marks))
    written = _NON_WRITABLE not in decorations and not (marks and all(_NON_WRITABLE in mark for mark in marks))
    return Resource(at, name, "buffer", element, _access(read, written), align=align)


def _access(read: bool, written: bool) -> str:
    # A buffer that may be neither read nor written is only asked for its length.
    return "rw" if read and written else "w" if written else "r"


def _opaque(module: Module, at: tuple[int, int], name: str, type_: int, decorations: Mapping[int, tuple[int, ...]]) -> Resource:
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
    what = "an acceleration structure" if opcode == 5341 else f"of the opcode {opcode}"
    raise FormatError(f"has the variable {name!r}, {what}, which devmod cannot pass", kind="vulkan")


def _members(layouts: Layouts, type_: int) -> tuple[list[Member], int, int]:
    """The members of a block, its size and its alignment."""
    layout = layouts.of(type_)
    if layout.endless:
        raise FormatError("has a runtime array in a uniform or push-constant block, whose size is fixed", kind="vulkan")
    members = [
        Member(name, member.type, offset, member.size, member.align if not offset else _aligned(member.align, offset))
        for name, offset, member in layouts.members(type_)
    ]
    return members, layout.size, layout.align


def _aligned(align: int, offset: int) -> int:
    while align > 1 and offset % align:
        align //= 2
    return align


def _block(module: Module, entry: Entry, constants: _Constants) -> tuple[tuple[int, int, int] | None, tuple[int | list[int], ...]]:
    """The size of the workgroup, None where it cannot be told, and what each of the three numbers comes from."""
    numbers: tuple[int, ...] = ()
    for number, found in module.decorations.items():
        # It goes before the execution mode.
        if found.get(_BUILT_IN, ())[:1] == (_WORKGROUP_SIZE,) and module.constants.get(number, (0, ()))[0] in (44, 51):
            numbers = module.constants[number][1][1:]
    modes = dict(reversed(module.modes.get(entry.function, [])))
    if not numbers and _LOCAL_SIZE_ID in modes:
        numbers = modes[_LOCAL_SIZE_ID]
    if not numbers:
        size = modes.get(_LOCAL_SIZE, ())
        if len(size) != 3 or not all(size):
            raise FormatError(f"has the entry {entry.name!r} without a workgroup size", kind="vulkan")
        return (size[0], size[1], size[2]), ()
    sizes = [constants.values.get(number, 0) for number in numbers]
    sources = tuple(constants.source(number) for number in numbers)
    if len(sizes) != 3:
        raise FormatError(f"is damaged: the workgroup size of the entry {entry.name!r} is not three numbers", kind="vulkan")
    if not all(size > 0 for size in sizes):
        if all(source == -1 for source in sources):
            raise FormatError(f"has the entry {entry.name!r} with a workgroup size of {tuple(sizes)}", kind="vulkan")
        return None, sources
    return (sizes[0], sizes[1], sizes[2]), sources
