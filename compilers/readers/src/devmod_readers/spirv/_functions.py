"""The functions of a SPIR-V module: their blocks and instructions, each with its line in the
source, and the text of the sources.
"""

from __future__ import annotations

from typing import NamedTuple

from devmod_readers.spirv._module import Ids, SpirvModule, error, starts

_UNDEFINED = 1
_SOURCE_CONTINUED = 2
_SOURCE = 3
_STRING = 7
_LINE = 8
_EXT_INST = 12
_FUNCTION = 54
_PARAMETER = 55
_FUNCTION_END = 56
_VARIABLE = 59
_LABEL = 248
_NO_LINE = 317
#: Instructions behind which a block has none.
_TERMINATORS = frozenset((*range(249, 256), 4416, 4448, 4449, 5294, 5295))
#: The set of instructions with the debug information of sources, and its instructions.
_DEBUG_SETS = ("NonSemantic.Shader.DebugInfo.", "OpenCL.DebugInfo.")
_DEBUG_SOURCE = 35
_DEBUG_SOURCE_CONTINUED = 102
_DEBUG_LINE = 103
_DEBUG_NO_LINE = 104
_NON_SEMANTIC = "NonSemantic."


class SpirvLine(NamedTuple):
    """A place in a source."""

    file: str
    number: int
    column: int = 0


class SpirvInstruction(NamedTuple):
    """An instruction of a function."""

    opcode: int
    operands: Ids
    line: SpirvLine | None


class SpirvBlock(NamedTuple):
    """A block of a function: the id of its label, and its instructions."""

    label: int
    instructions: list[SpirvInstruction]


class SpirvFunction(NamedTuple):
    """A function: the id, the type of its result, its parameters as pairs of the type and the id,
    and its blocks in their order.
    """

    number: int
    result: int
    parameters: list[tuple[int, int]]
    blocks: list[SpirvBlock]


class SpirvCode(NamedTuple):
    """The functions of a module by their ids, the texts of its sources by the names of the files,
    the types of the ids that have no value, and the initializers of module-scope variables.
    """

    functions: dict[int, SpirvFunction]
    sources: dict[str, str]
    undefined: dict[int, int]
    initializers: dict[int, int]


def read_code(module: SpirvModule) -> SpirvCode:
    """Return the functions of a module.

    Raises
    ------
    FormatError
        An instruction is outside of a block. The text continues a sentence that begins with the
        module.
    """
    reader = _CodeReader(module)
    words = module.words
    for at in starts(words):
        operands = tuple(words[at + 1 : at + (words[at] >> 16)])
        try:
            reader.read(words[at] & 0xFFFF, operands)
        except IndexError:
            raise error(
                f"is damaged: the instruction {words[at] & 0xFFFF} at word {at} has {len(operands)} operands"
            ) from None
    texts = {name: b"".join(parts) for name, parts in reader.texts.items()}
    sources = {name: text.decode(errors="replace") for name, text in texts.items() if text}
    return SpirvCode(reader.functions, sources, reader.undefined, reader.initializers)


class _CodeReader:
    """The functions that were read so far."""

    def __init__(self, module: SpirvModule) -> None:
        self._module = module
        self.functions: dict[int, SpirvFunction] = {}
        self.texts: dict[str, list[bytes]] = {}
        self.undefined: dict[int, int] = {}
        self.initializers: dict[int, int] = {}
        self._function: SpirvFunction | None = None
        self._block: SpirvBlock | None = None
        self._line: SpirvLine | None = None
        self._source: list[bytes] = []
        #: The names of the files of NonSemantic.Shader.DebugInfo, by the id of its DebugSource.
        self._debug_sources: dict[int, str] = {}

    def read(self, opcode: int, operands: Ids) -> None:
        """Read one instruction."""
        if opcode == _LINE:
            self._line = SpirvLine(self._name(operands[0]), operands[1], operands[2])
        elif opcode == _NO_LINE:
            self._line = None
        elif opcode == _FUNCTION:
            self._function = SpirvFunction(operands[1], operands[0], [], [])
            self.functions[operands[1]] = self._function
        elif opcode == _FUNCTION_END:
            self._function = self._block = self._line = None
        elif opcode == _EXT_INST and self._is_non_semantic(operands[2]):
            self._debug(operands)
        elif self._function is None:
            self._global(opcode, operands)
        elif opcode == _PARAMETER:
            self._function.parameters.append((operands[0], operands[1]))
        elif opcode == _LABEL:
            self._block = SpirvBlock(operands[0], [])
            self._function.blocks.append(self._block)
        elif self._block is None:
            raise error(f"is damaged: the instruction {opcode} is outside of a block")
        else:
            self._block.instructions.append(SpirvInstruction(opcode, operands, self._line))
            if opcode in _TERMINATORS:
                self._block = self._line = None

    def _global(self, opcode: int, operands: Ids) -> None:
        if opcode == _UNDEFINED:
            self.undefined[operands[1]] = operands[0]
        elif opcode == _VARIABLE and len(operands) > 3:
            self.initializers[operands[1]] = operands[3]
        elif opcode == _SOURCE:
            name = self._name(operands[2]) if len(operands) > 2 else ""
            self._source = self.texts.setdefault(name, [])
            self._source.append(_text(operands[3:]))
        elif opcode == _SOURCE_CONTINUED:
            self._source.append(_text(operands))

    def _is_non_semantic(self, number: int) -> bool:
        return self._name(number).startswith((_NON_SEMANTIC, *_DEBUG_SETS))

    def _debug(self, operands: Ids) -> None:
        """Read an instruction of debug information."""
        if not self._name(operands[2]).startswith(_DEBUG_SETS):
            return
        number = operands[3]
        if number == _DEBUG_SOURCE:
            name = self._debug_sources[operands[1]] = self._name(operands[4])
            self._source = self.texts.setdefault(name, [])
            if len(operands) > 5:
                self._source.append(self._name(operands[5]).encode())
        elif number == _DEBUG_SOURCE_CONTINUED:
            self._source.append(self._name(operands[4]).encode())
        elif number == _DEBUG_LINE:
            file = self._debug_sources.get(operands[4], "")
            self._line = SpirvLine(file, self._number(operands[5]), self._number(operands[7]))
        elif number == _DEBUG_NO_LINE:
            self._line = None

    def _name(self, number: int) -> str:
        return self._module.names.get(number, "")

    def _number(self, number: int) -> int:
        """Return the value of a constant of 32 bits; 0 for others."""
        opcode, operands = self._module.constants[number]
        return operands[1] if opcode == 43 else 0


def _text(words: Ids) -> bytes:
    """Return the bytes of a string up to its end."""
    data = b"".join(word.to_bytes(4, "little") for word in words)
    return data.partition(b"\0")[0]
