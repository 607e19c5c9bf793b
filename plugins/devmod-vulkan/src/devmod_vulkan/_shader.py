"""A shader as its payload has it: unpacked, read and held against what the payload says of its function. No driver is needed for it."""

from __future__ import annotations

from devmod import Block, Interface, Param
from devmod.errors import FormatError, quoted
from devmod_targets.vulkan._reflect import reflect
from devmod_targets.vulkan._spirv import GL_COMPUTE, read_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from devmod import FunctionInfo
    from devmod.targets._shader import Constant
    from devmod.targets._shader import Shader as Reflected

#: In a shader's flag: the scalars of a function without an interface lie in a uniform buffer, and not in push constants (R15).
_USES_UNIFORM = 1
#: In SPIR-V: the storage class of shared memory, and the opcode of a pointer's type.
_WORKGROUP, _POINTER = 4, 32
#: The bytes of a scalar of a function without an interface.
_SCALAR = 8
#: How deep types in shared memory may lie in each other.
_DEEPEST = 32


class Shader:
    """One function's shader.

    Parameters
    ----------
    name
        The function, for messages.
    info
        What the payload says of it.
    value
        The shader as the payload has it: flag, number of words, words (R15).

    Attributes
    ----------
    words : bytes
        The SPIR-V.
    version : tuple of int
        Its version.
    capabilities : list of int
        Those that it declares.
    entry : str
        The entry point's name.
    interface : Interface
        Every argument with its place; of a function without an interface, by TVM's rule.
    opaque : bool
        Whether it takes images or samplers, so that it cannot be called.
    module
        The module, as the build side's reader has it.

    Raises
    ------
    FormatError
        It is no such shader, or the payload says something else of it.
    """

    def __init__(self, name: str, info: FunctionInfo, value: bytes | memoryview) -> None:
        self.name = name
        self.entry = info.name
        flag, self.words = _unpacked(name, value)
        try:
            module = read_module(self.words)
        except FormatError as error:
            raise self._wrong(str(error)) from None
        self.module = module
        self.version, self.capabilities = module.version, module.capabilities
        entries = [entry.name for entry in module.entries if entry.model == GL_COMPUTE]
        if entries and info.name not in entries:
            raise self._wrong(f"has no compute entry point {info.name!r}, which the payload's fmap names; it has: {quoted(entries)}")
        try:
            found = {shader.symbol: shader for shader in reflect(self.words, name, declared=False)}[info.name]
        except FormatError as error:
            raise self._wrong(str(error)) from None
        self._found = found
        self.interface = _placed(info, flag, found, name)
        self._check_places()
        self.opaque = any(param.kind in ("image", "sampler") for param in self.interface.params)
        self._compare(found, info)

    def _check_places(self) -> None:
        """FormatError where the interface places a scalar or a block nowhere, so that its value would be lost."""
        blocks = self.interface.blocks
        for number, param in enumerate(self.interface.params):
            if param.kind == "uniform" and not bytes_of(param.type):
                raise self._misplaced(f"gives the uniform argument {number + 1} the type {param.type!r}, which is no uint8xN")
            if param.kind != "scalar":
                continue
            if not isinstance(param.at, tuple) or param.at[0] >= len(blocks):
                raise self._misplaced(f"places argument {number + 1} at {param.at!r}, which is in none of its {len(blocks)} blocks")
            size = blocks[param.at[0]].size
            if param.at[1] >= size:
                raise self._misplaced(f"places argument {number + 1} at byte {param.at[1]} of a block of {size} bytes")
        for number, block in enumerate(blocks):
            if not block.size:
                raise self._misplaced(f"has a block of no bytes at {block.at!r}")
            if block.at == "push" and any(each.at == "push" for each in blocks[:number]):
                raise self._misplaced("has two blocks of push constants")

    def check_constants(self, constants: Iterable[Constant], kept: Mapping[int, bytes], block: tuple[int, int, int] | None) -> None:
        """FormatError where the payload says something else of constants that are set, or of the block that comes of them.

        Parameters
        ----------
        constants
            Those that are set now, as the payload has them.
        kept
            The number of each constant that is set, and its bytes.
        block
            The threads of a block that the payload says come of it, where it says so.
        """
        own = {each.id: each.type for each in self._found.constants}
        for each in constants:
            if each.id is None:
                raise self._wrong(f"has its constants by number, and the payload's fmap gives {each.name!r} none")
            if own.get(each.id, each.type) != each.type:
                raise self._wrong(f"has the constant {each.id} of type {own[each.id]}, and the payload's fmap says {each.type}")
        if block is None:
            return
        for axis, source in enumerate(self._found.block_constants):
            positions = source if isinstance(source, list) else [source] * (source >= 0)
            of = [number for number in (self._found.constants[position].id for position in positions) if number is not None]
            threads = [int.from_bytes(kept[number], "little") for number in of if number in kept]
            if threads and (isinstance(source, list) or threads != [block[axis]]):
                text = f"has blocks of a size in {'xyz'[axis]} that depends on the constant {of[0]}, and the payload's fmap says "
                raise self._wrong(f"{text}{block[axis]}")

    def _compare(self, found: Reflected, info: FunctionInfo) -> None:
        """FormatError where the shader uses what the payload does not give it: the driver would read what is not there."""
        given: dict[object, str] = {}
        sizes: dict[object, int] = {}
        for param in self.interface.params:
            if param.kind != "scalar":
                given[param.at] = param.kind
                sizes[param.at] = bytes_of(param.type)
        for block in self.interface.blocks:
            given[block.at] = "uniform"
            sizes[block.at] = block.size
        for resource in found.resources:
            there = given.get(resource.at, "nothing")
            at = "(set {}, binding {})".format(*resource.at) if isinstance(resource.at, tuple) else str(resource.at)
            if there != resource.kind:
                raise self._wrong(f"has a {resource.kind} at {at}, {resource.name!r}, and the payload's fmap has {there} there")
            if resource.kind == "uniform" and sizes[resource.at] < resource.size:
                little = sizes[resource.at]
                raise self._wrong(
                    f"has a uniform of {resource.size} bytes at {at}, {resource.name!r}, and the payload's fmap gives it {little}"
                )
        push = next((block.size for block in self.interface.blocks if block.at == "push"), 0)
        if found.push_size > push:
            raise self._wrong(f"has {found.push_size} bytes of push constants, and the payload's fmap gives it {push}")
        said = info.interface.block if info.interface is not None else None
        if said is not None and found.block is not None and said != found.block:
            raise self._wrong(f"is built for blocks of {found.block} threads, and the payload's fmap says {said}")

    def shared_bytes(self, constants: Mapping[int, bytes]) -> int:
        """The bytes of shared memory that the entry uses; what cannot be told is not counted.

        Parameters
        ----------
        constants
            The numbers of the constants that are set, and their bytes.
        """
        module = self.module
        entry = next(each for each in module.entries if each.name == self.entry)
        total = 0
        sizes: dict[int, int] = {}
        for number in module.used_by(entry):
            pointer, storage = module.variables[number]
            opcode, operands = module.types.get(pointer, (0, ()))
            if storage == _WORKGROUP and opcode == _POINTER:
                total += self._size(operands[1], constants, sizes, 0)
        return total

    def _size(self, number: int, constants: Mapping[int, bytes], sizes: dict[int, int], depth: int) -> int:
        # Each type once: structs of structs have as many members as the product of all.
        if number not in sizes:
            sizes[number] = self._sized(number, constants, sizes, depth + 1) if depth < _DEEPEST else 0
        return sizes[number]

    def _sized(self, number: int, constants: Mapping[int, bytes], sizes: dict[int, int], depth: int) -> int:
        opcode, operands = self.module.types.get(number, (0, ()))
        if opcode in (21, 22):  # integers and floats
            return operands[0] // 8
        if opcode == 20:  # bool
            return 4
        if opcode in (23, 24):  # vectors and matrices
            return operands[1] * self._size(operands[0], constants, sizes, depth)
        if opcode == 28:  # arrays
            return self._length(operands[1], constants) * self._size(operands[0], constants, sizes, depth)
        if opcode == 30:  # structs
            return sum(self._size(member, constants, sizes, depth) for member in operands)
        return 0

    def _length(self, number: int, constants: Mapping[int, bytes]) -> int:
        opcode, operands = self.module.constants.get(number, (0, ()))
        spec_id = self.module.decorations.get(number, {}).get(1, ())[:1]
        if opcode == 50 and spec_id and spec_id[0] in constants:
            return int.from_bytes(constants[spec_id[0]], "little")
        return operands[1] if opcode in (43, 50) else 0

    def _wrong(self, text: str) -> FormatError:
        return FormatError(f"the SPIR-V of the vulkan function {self.name!r} {text}", kind="vulkan", function=self.name)

    def _misplaced(self, text: str) -> FormatError:
        return FormatError(f"the interface of the vulkan function {self.name!r} {text}", kind="vulkan", function=self.name)


def bytes_of(type_: str) -> int:
    """The bytes of a uniform, whose type is "uint8" or "uint8xN"; 0 for any other."""
    base, _, count = type_.rpartition("x")
    return int(count) if base == "uint8" else int(type_ == "uint8")


def _unpacked(name: str, value: bytes | memoryview) -> tuple[int, bytes]:
    flag, number = int.from_bytes(value[:4], "little"), int.from_bytes(value[4:12], "little")
    if len(value) < 12 or len(value) != 12 + 4 * number:
        raise FormatError(
            f"the shader of the vulkan function {name!r} has {len(value)} bytes, and is no flag of 4, a number of words in 8 (it says "
            f"{number}) and that many words of 4",
            kind="vulkan",
            function=name,
        )
    return flag, bytes(value[12:])


def _placed(info: FunctionInfo, flag: int, found: Reflected, name: str) -> Interface:
    """The interface with a place for every argument. Those that have none are placed by TVM's rule: buffers at set 0 in their order,
    scalars of 8 bytes in push constants, or in a uniform buffer behind the last buffer.
    """
    known = info.interface
    if known is None:
        params = [Param("", "buffer") if declared == "handle" else Param("", "scalar", declared) for declared in info.arg_types]
    else:
        params = list(known.params)
    blocks = list(known.blocks) if known is not None else []
    buffers = scalars = 0
    for number, param in enumerate(params):
        if param.at is None and param.kind == "scalar":
            type_ = param.type or info.arg_types[number]
            if "x" in type_.replace("complex", "") or type_ == "complex128":
                raise FormatError(
                    f"the vulkan function {name!r} takes argument {number + 1}, which is {type_}, and its payload does not say where that "
                    f"lies: such arguments are single numbers of at most {_SCALAR} bytes",
                    kind="vulkan",
                    function=name,
                )
            params[number] = _at(param, (len(blocks), _SCALAR * scalars))
            scalars += 1
        elif param.at is None:
            params[number] = _at(param, (0, buffers))
        buffers += param.kind != "scalar"
    if scalars:
        blocks.append(Block((0, buffers) if flag & _USES_UNIFORM else "push", _SCALAR * scalars))
    block = known.block if known is not None and known.block is not None else found.block
    return Interface(params, blocks, block, known.extra if known is not None else None)


def _at(param: Param, at: tuple[int, int]) -> Param:
    return Param(param.name, param.kind, param.type, param.access, at, param.align, param.extra)
