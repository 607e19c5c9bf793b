"""A shader as its payload has it: unpacked, read and held against what the payload says of its function. No driver is needed for it."""

from __future__ import annotations

from devmod import Block, Interface, Param
from devmod.errors import FormatError, quoted
from devmod.targets.vulkan._reflect import reflect
from devmod.targets.vulkan._spirv import GL_COMPUTE, read_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod.targets._shader import Shader as Reflected

#: In a shader's flag: the scalars of a function without an interface lie in a uniform buffer, and not in push constants (R15).
_USES_UNIFORM = 1
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
        for param in self.interface.params:
            if param.kind != "scalar":
                given[param.at] = param.kind
        for block in self.interface.blocks:
            given[block.at] = "uniform"
        for resource in found.resources:
            there = given.get(resource.at, "nothing")
            if there != resource.kind:
                at = "(set {}, binding {})".format(*resource.at) if isinstance(resource.at, tuple) else str(resource.at)
                raise self._wrong(f"has a {resource.kind} at {at}, {resource.name!r}, and the payload's fmap has {there} there")
        push = next((block.size for block in self.interface.blocks if block.at == "push"), 0)
        if found.push_size > push:
            raise self._wrong(f"has {found.push_size} bytes of push constants, and the payload's fmap gives it {push}")
        said = info.interface.block if info.interface is not None else None
        fixed = all(source == -1 for source in found.block_constants)
        if said is not None and found.block is not None and fixed and said != found.block:
            raise self._wrong(f"is built for blocks of {found.block} threads, and the payload's fmap says {said}")

    def _wrong(self, text: str) -> FormatError:
        return FormatError(f"the SPIR-V of the vulkan function {self.name!r} {text}", kind="vulkan", function=self.name)


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
