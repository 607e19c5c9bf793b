"""The text of a module in PTX, and the parameters of its kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from devmod import Param
from devmod.backend import array_bytes, parse_dtype
from devmod.errors import CompileError, FormatError
from devmod_readers.reflection import ReflectedFunction, argument_types, reflected_function
from devmod_readers.spirv import (
    GL_COMPUTE,
    EntryPoint,
    SpirvConstants,
    read_code,
    read_lengths,
    read_module,
    reflect,
)
from devmod_targets.spirv_ptx import (
    _access,  # noqa: F401 - these register translations
    _arithmetic,  # noqa: F401
    _flow,  # noqa: F401
    _glsl,  # noqa: F401
    _subgroups,  # noqa: F401
    _synchronization,  # noqa: F401
)
from devmod_targets.spirv_ptx._kernel import Buffer, Kernel
from devmod_targets.spirv_ptx._memory import Segment
from devmod_targets.spirv_ptx._promotion import Promotion
from devmod_targets.spirv_ptx._sources import Sources
from devmod_targets.spirv_ptx._types import RefusedError, Types
from devmod_targets.spirv_ptx._writer import Names

if TYPE_CHECKING:
    Number = int | float | bool

_PUSH_CONSTANT = 9
_HEAD = """.version 7.0
.target sm_75
.address_size 64
"""
#: The parameters of a buffer whose length a shader asks for.
_WITH_LENGTH = ("ptr:handle", "count:uint64")


class Translation(NamedTuple):
    """A module in PTX.

    Parameters
    ----------
    ptx
        The text. It ends with the sources of the shader as comments, if they are known.
    functions
        Its kernels by the names of the entry points, in their order. A buffer whose length the
        shader asks for has the `pack` "ptr" and "count".
    """

    ptx: str
    functions: dict[str, ReflectedFunction]


def translate(
    spirv: bytes,
    constants: Mapping[int, Number] | None = None,
    *,
    location: str = "SPIR-V",
    source: str = "",
    interfaces: Mapping[str, ReflectedFunction] | None = None,
    clear_shared: bool = False,
) -> Translation:
    """Translate the compute shaders of a SPIR-V module to PTX.

    Parameters
    ----------
    spirv
        The module, for Vulkan. With debug information (``glslangValidator -g``) the PTX has the
        lines of the source.
    constants
        Values of specialization constants by their ids, in place of the defaults.
    location
        The name of the source, for messages.
    source
        The text of the source, for lines of files whose text the module lacks.
    interfaces
        The functions of the entry points, if another reader than that of SPIR-V determines their
        parameters.
    clear_shared
        Whether shared memory begins as zeros, as WGSL has it.

    Returns
    -------
    Translation
        The text in PTX, and its functions.

    Raises
    ------
    FormatError
        The module is damaged, or devmod cannot call it.
    CompileError
        Something in it has no translation. The text names the instruction and its line.
    """
    try:
        module = read_module(spirv)
        code = read_code(module)
        values = SpirvConstants(module, constants)
        shaders = reflect(module, location, include_unused=True, constants=values)
    except FormatError as error:
        raise FormatError(f"the SPIR-V of {location} {error}", kind="vulkan") from error
    sources = Sources(code.sources, location, source)
    promotion = Promotion(code, values)
    types = Types(module, values)
    symbols = Names()
    texts = []
    functions = {}
    entries = [entry for entry in module.entries if entry.model == GL_COMPUTE]
    for entry, shader in zip(entries, shaders, strict=True):
        kernel = Kernel(module, code, values, types, sources, promotion, clears=clear_shared)
        own = (interfaces or {}).get(entry.name) or reflected_function("vulkan", shader)
        arguments = _Arguments(kernel, own)
        try:
            arguments.read(entry)
            kernel.run(entry, arguments.buffers, arguments.blocks)
            if arguments.unsupported:
                kernel.instruction = None
                raise RefusedError(
                    f"it declares {arguments.unsupported!r}, an image or a sampler, which the translation does not support"
                )
        except RefusedError as error:
            raise _refused(kernel, entry, sources, str(error)) from None
        except (LookupError, ValueError, TypeError, RecursionError) as error:
            text = f"it is damaged ({type(error).__name__}: {error})"
            raise _refused(kernel, entry, sources, text) from error
        function = arguments.function(symbols.add(entry.name, "kernel"))
        functions[entry.name] = function
        texts.append(_entry_text(kernel, function, arguments.declarations))
    parts = [_HEAD, "\n".join(sources.directives()) + "\n", *texts, sources.comments()]
    return Translation("\n".join(parts), functions)


def _refused(kernel: Kernel, entry: EntryPoint, sources: Sources, text: str) -> CompileError:
    """Return the error of an instruction."""
    what = kernel.doing or "its interface"
    if kernel.line is not None:
        what += f" at {sources.place(kernel.line)}"
    return CompileError(
        f"the shader {entry.name!r} has no translation to PTX: {what}: {text}",
        kind="vulkan",
        function=entry.name,
    )


def _entry_text(kernel: Kernel, function: ReflectedFunction, parameters: Sequence[str]) -> str:
    """Return the text of a kernel."""
    shown = ",\n".join(f"\t{each}" for each in parameters)
    lines = [f".visible .entry {function.symbol}(", shown, ")"]
    if function.block is not None:
        lines.append(f".reqntid {', '.join(map(str, function.block))}")
    writer = kernel.writer
    return "\n".join(
        [*lines, "{", *writer.registers(), *writer.variables, *writer.used_lines(), "}", ""]
    )


class _Arguments:
    """The parameters of an entry point."""

    def __init__(self, kernel: Kernel, function: ReflectedFunction) -> None:
        self._kernel = kernel
        self._function = function
        self.params: list[Param] = []
        self.declarations: list[str] = []
        #: The parameters of a buffer, by its variable.
        self.buffers: dict[int, Buffer] = {}
        #: The parameters with the bytes of a block, by its variable.
        self.blocks: dict[int, tuple[Segment, ...]] = {}
        #: The name of an argument that is an image or a sampler.
        self.unsupported = ""
        self._at: dict[object, Buffer] = {}
        self._segments: dict[object, list[Segment]] = {}

    def read(self, entry: EntryPoint) -> None:
        """Declare the parameters, and find the variables that they are for."""
        asked = read_lengths(self._kernel.module)
        for param in self._function.params:
            if param.kind == "buffer":
                self._buffer(param, param.at in asked)
            elif param.kind in ("scalar", "uniform"):
                self._number(param)
            else:
                self.unsupported = self.unsupported or param.name
        module = self._kernel.module
        for variable in module.used_by(entry):
            storage = module.variables[variable][1]
            place: object = "push" if storage == _PUSH_CONSTANT else module.place_of(variable)
            if place in self._at:
                self.buffers[variable] = self._at[place]
            elif place in self._segments:
                self.blocks[variable] = tuple(self._segments[place])

    def function(self, symbol: str) -> ReflectedFunction:
        """Return the function with the parameters of the kernel."""
        own = self._function
        values: list[Param] = []
        for param in self.params:
            values += param.values
        types = argument_types(values)
        return ReflectedFunction(symbol, types, self.params, own.block, own.location)

    def _name(self, param: Param) -> str:
        return self._kernel.names.add(param.name, "argument")

    def _buffer(self, param: Param, asked: bool) -> None:
        name = self._name(param)
        self.declarations.append(f".param .u64 {name}")
        type_ = param.type
        count = ""
        element = 0
        if type_.endswith("x3"):
            # Three-vectors of such a type have the memory of four lanes.
            type_ = f"{type_[:-1]}4"
        if asked:
            # The length of an array of several types is that of its bytes.
            type_ = type_ or "uint8"
            count = self._kernel.names.add(f"{name}_count", "count")
            element = array_bytes(parse_dtype(type_))
            self.declarations.append(f".param .u64 {count}")
        self._at[param.at] = Buffer(name, count, element)
        pack: Iterable[str] = _WITH_LENGTH if asked else ()
        self.params.append(param.replace(type=type_, at=None, pack=pack))

    def _number(self, param: Param) -> None:
        name = self._name(param)
        type_ = param.type.replace("handle", "uint64")
        size = array_bytes(parse_dtype(type_))
        align = param.align or 1
        self.declarations.append(f".param .align {max(align, 4)} .b8 {name}[{size}]")
        self.params.append(param.replace(kind="scalar", at=None))
        if param.kind == "uniform":
            self._segments[param.at] = [Segment(0, size, name)]
            return
        assert isinstance(param.at, tuple)
        block, offset = param.at
        place = self._function.blocks[block].at
        self._segments.setdefault(place, []).append(Segment(offset, size, name))
