"""A shader as its payload has it: unpacked, read and held against what the payload says of its function. No driver is needed for it."""

from __future__ import annotations

from devmod import Block, Interface, Param
from devmod.errors import FormatError, quoted
from devmod_targets.vulkan._reflect import reflect
from devmod_targets.vulkan._spirv import GL_COMPUTE, read_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod import FunctionInfo
    from devmod.targets._shader import Shader as Reflected

#: In a shader's flag: the scalars of a function without an interface lie in a uniform buffer, and not in push constants (R15).
_USES_UNIFORM = 1
#: In SPIR-V: the storage class of shared memory, and the opcode of a pointer's type.
_WORKGROUP, _POINTER = 4, 32
#: The bytes of a scalar of a function without an interface.
_SCALAR = 8


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
        The module, as core's reader has it.

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
        self.interface = _placed(info, flag, found)
        self.opaque = any(param.kind in ("image", "sampler") for param in self.interface.params)
        self._compare(found, info)

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
        fixed = all(source == -1 for source in found.block_constants)
        if said is not None and found.block is not None and fixed and said != found.block:
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
        for number in module.used_by(entry):
            pointer, storage = module.variables[number]
            opcode, operands = module.types.get(pointer, (0, ()))
            if storage == _WORKGROUP and opcode == _POINTER:
                total += self._size(operands[1], constants, 0)
        return total

    def _size(self, number: int, constants: Mapping[int, bytes], depth: int) -> int:
        opcode, operands = self.module.types.get(number, (0, ()))
        if depth > 16:
            return 0
        if opcode in (21, 22):  # integers and floats
            return operands[0] // 8
        if opcode == 20:  # bool
            return 4
        if opcode in (23, 24):  # vectors and matrices
            return operands[1] * self._size(operands[0], constants, depth + 1)
        if opcode == 28:  # arrays
            return self._length(operands[1], constants) * self._size(operands[0], constants, depth + 1)
        if opcode == 30 and len(operands) < 1024:  # structs
            return sum(self._size(member, constants, depth + 1) for member in operands)
        return 0

    def _length(self, number: int, constants: Mapping[int, bytes]) -> int:
        opcode, operands = self.module.constants.get(number, (0, ()))
        spec_id = self.module.decorations.get(number, {}).get(1, ())[:1]
        if opcode == 50 and spec_id and spec_id[0] in constants:
            return int.from_bytes(constants[spec_id[0]], "little")
        return operands[1] if opcode in (43, 50) else 0

    def _wrong(self, text: str) -> FormatError:
        return FormatError(f"the SPIR-V of the vulkan function {self.name!r} {text}", kind="vulkan", function=self.name)


def bytes_of(type_: str) -> int:
    """The bytes of a uniform, whose type is "uint8" or "uint8xN"."""
    return int(type_.rpartition("x")[2]) if "x" in type_ else 1


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


def _placed(info: FunctionInfo, flag: int, found: Reflected) -> Interface:
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
