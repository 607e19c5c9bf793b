"""Read the words of a SPIR-V module into tables for reflection.

The words are untrusted. Each count is checked against the data, ids are only used as keys, and no
reference is followed here. Damaged input raises a FormatError whose text continues the sentence
"the SPIR-V of k.spv …".
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from devmod.errors import FormatError, count_text
from devmod_readers.uses import bits, transitive_parts

MAGIC = 0x07230203
#: The newest version that this reader supports.
NEWEST = (1, 6)
_MAX_BYTES = 64 << 20
_MAX_ENTRIES = 1024

GL_COMPUTE = 5
#: The names of execution models in messages, by number.
MODELS = {
    0: "a vertex shader",
    1: "a tessellation control shader",
    2: "a tessellation evaluation shader",
    3: "a geometry shader",
    4: "a fragment shader",
    5: "a compute shader",
    6: "an OpenCL kernel",
    5267: "a task shader",
    5268: "a mesh shader",
    5313: "a ray generation shader",
    5314: "an intersection shader",
    5315: "an any-hit shader",
    5316: "a closest-hit shader",
    5317: "a miss shader",
    5318: "a callable shader",
    5364: "a task shader",
    5365: "a mesh shader",
}

_TYPES = frozenset((*range(19, 34), 5341))
_CONSTANTS = frozenset((41, 42, 43, 44, 45, 46, 48, 49, 50, 51, 52))
#: The minimum number of operands of each instruction, by opcode.
_MIN_OPERANDS: dict[int, int] = {}
for _count, _opcodes in {
    1: (17, 19, 20, 26, 30, 5341),
    2: (5, 7, 11, 16, 22, 27, 29, 31, 33, 41, 42, 44, 45, 46, 48, 49, 51, 71, 331, 332),
    3: (6, 15, 21, 23, 24, 28, 32, 43, 50, 52, 57, 59, 72),
    4: (12, 54),
    8: (25,),
}.items():
    _MIN_OPERANDS |= dict.fromkeys(_opcodes, _count)

#: The range of operands that may be pointers to variables, by opcode of an instruction in a
#: function. For other opcodes all operands may be. The other operands may be literals, which are
#: not ids.
_POINTER_OPERANDS: dict[int, tuple[int, int | None]] = {
    59: (3, 4), 62: (0, 2), 63: (0, 2), 64: (0, 3), 57: (3, None), 12: (4, None), 79: (2, 4), 82: (2, 4),
    250: (0, 1), 251: (0, 1), 4458: (0, 2),
    **dict.fromkeys((61, 68, 81, 4457), (2, 3)),
    **dict.fromkeys((8, 54, 55, 56, 317, *range(246, 250)), (9, 9)),
    **dict.fromkeys((*range(86, 108), *range(305, 317), *range(333, 367)), (9, 9)),
}  # fmt: skip
#: OpImageSampleDref… and OpImageDrefGather.
_DEPTH_COMPARISONS = frozenset((89, 90, 93, 94, 97))
_BINDING = 33
_SET = 34
#: The start of the name of a set of instructions that change nothing, and of clspv's set, which the
#: version follows.
_NON_SEMANTIC = "NonSemantic."
_CLSPV = "NonSemantic.ClspvReflection."
#: What devmod does not support, by opcode.
_UNSUPPORTED = dict.fromkeys(
    (74, 75),
    "uses decoration groups, which devmod does not support; rewrite it with spirv-opt --flatten-decorations",
)
_UNSUPPORTED[4418] = (
    "has untyped variables (SPV_KHR_untyped_pointers), which devmod does not support"
)

#: The operands of an instruction.
Ids = tuple[int, ...]
#: Decorations or execution modes by number, with their operands.
Marks = dict[int, Ids]
#: Numbers of threads in x, y, z.
Dims = tuple[int, int, int]
#: A set and a binding.
Place = tuple[int, int]
#: An id, or an id and the number of a member.
Target = int | Ids


class EntryPoint(NamedTuple):
    """An entry point."""

    model: int
    function: int
    name: str
    interface: frozenset[int]


class Definitions(dict[int, tuple[int, Ids]]):
    """Types or constants by id: the opcode and the operands of each; (0, ()) for other ids."""

    def __missing__(self, number: int) -> tuple[int, Ids]:
        return 0, ()


class SpirvModule:
    """A SPIR-V module.

    Attributes
    ----------
    words : array of int
    version : tuple of int
    capabilities : list of int
    entries : list of EntryPoint
    modes : dict
        Function's id to a dict of execution mode to operands; the first of equal modes counts.
    names : dict
        Id, or (id, member), to name. An OpString has its text as the name, and an instruction set
        its own.
    decorations : dict
        Id, or (id, member), to a dict of decoration to operands.
    types, constants : Definitions
        A constant's operands begin with its type.
    variables : dict
        Id of a module-scope variable to (type, storage class).
    uses, calls : dict
        Function's id to the variables that its body uses, and to the functions that it calls.
    function_types : dict
        Function's id to its type.
    compares_depth : bool
        Whether a function samples an image by depth comparison.
    reflection : list of (int, int, tuple)
        The instructions of NonSemantic.ClspvReflection: their ids, numbers and operands.
    """

    def __init__(self, words: array[int]) -> None:
        self.words = words
        self.version = (words[1] >> 16, words[1] >> 8 & 0xFF)
        self.capabilities: list[int] = []
        self.entries: list[EntryPoint] = []
        self.modes: dict[Target, Marks] = {}
        self.names: dict[Target, str] = {}
        self.decorations: dict[Target, Marks] = {}
        self.types = Definitions()
        self.constants = Definitions()
        self.variables: dict[int, tuple[int, int]] = {}
        self.uses: dict[int, set[int]] = defaultdict(set)
        self.calls: dict[int, set[int]] = defaultdict(set)
        self.function_types: dict[int, int] = {}
        self.compares_depth = False
        self.reflection: list[tuple[int, int, Ids]] = []

    @cached_property
    def _listed(self) -> list[int]:
        return list(self.variables)

    @cached_property
    def _used_variables(self) -> dict[int, int]:
        """The bits of the variables that each function uses, by their places in the module."""
        # Computed once: a thousand entry points may call the same thousands of functions.
        numbers = {variable: index for index, variable in enumerate(self._listed)}
        own_bits = {}
        for function, used in self.uses.items():
            own_bits[function] = sum(1 << numbers[variable] for variable in used)
        return transitive_parts(own_bits, self.calls)

    def used_by(self, entry: EntryPoint) -> list[int]:
        """Return the variables that an entry point's functions use, in the order of the module,
        limited from version 1.4 on to its declared interface.
        """
        used = self._used_variables.get(entry.function, 0)
        variables = [self._listed[index] for index in bits(used)]
        if self.version < (1, 4):
            return variables
        return [variable for variable in variables if variable in entry.interface]

    def mark(self, target: Target, decoration: int) -> int | None:
        """Return the first operand of a decoration; None without one."""
        return next(iter(self.decorations.get(target, {}).get(decoration, ())), None)

    def place_of(self, variable: int) -> Place | None:
        """Return the (set, binding) of a variable; None if it has no binding."""
        binding = self.mark(variable, _BINDING)
        if binding is None:
            return None
        return self.mark(variable, _SET) or 0, binding


def read_words(data: bytes | memoryview) -> array[int]:
    """Return the words of a SPIR-V file, after checking its header.

    Raises
    ------
    FormatError
        The data is not SPIR-V, has another byte order, or is newer than this reader.
    """
    if len(data) > _MAX_BYTES:
        raise error(f"has {count_text(len(data), 'byte')}; expected at most {_MAX_BYTES >> 20} MiB")
    head = int.from_bytes(data[:4], "little")
    if head == int.from_bytes(MAGIC.to_bytes(4, "little"), "big"):
        raise error("is big-endian; expected little-endian words. Swap the bytes of each word")
    if head != MAGIC:
        raise error(f"begins with 0x{head:08x}; expected SPIR-V's magic number 0x07230203")
    if len(data) % 4:
        raise error(
            f"is truncated: it has {count_text(len(data), 'byte')}; expected a multiple of 4"
        )
    if len(data) < 20:
        raise error(f"is truncated: it has {count_text(len(data), 'byte')}; expected at least 20")
    words = array("I")
    words.frombytes(data)
    if sys.byteorder == "big":
        words.byteswap()
    major = words[1] >> 16 & 0xFF
    minor = words[1] >> 8 & 0xFF
    if words[1] & 0xFF0000FF or not major:
        raise error(f"has the invalid version word 0x{words[1]:08x}")
    if (major, minor) > NEWEST:
        raise error(
            f"has version {major}.{minor}; this devmod supports versions up to {NEWEST[0]}.{NEWEST[1]}"
        )
    return words


def read_module(data: bytes | memoryview) -> SpirvModule:
    """Read a SPIR-V file.

    Parameters
    ----------
    data
        The bytes of the file.

    Returns
    -------
    SpirvModule
        The module's entry points, types, constants, variables and decorations.

    Raises
    ------
    FormatError
        The module is damaged, or newer than this reader. The text continues a sentence that begins
        with the module.
    """
    words = read_words(data)
    module = SpirvModule(words)
    function = 0
    at = 5
    end = len(words)
    while at < end:
        length = words[at] >> 16
        opcode = words[at] & 0xFFFF
        operands = tuple(words[at + 1 : at + length])
        if not length or at + length > end or len(operands) < _MIN_OPERANDS.get(opcode, 0):
            raise _bad_length(words, at)
        if opcode == 54:
            function = operands[1]
            module.function_types[function] = operands[3]
        elif opcode == 56:
            function = 0
        elif function:
            _in_function(module, function, opcode, operands)
        else:
            _global(module, opcode, operands, at)
        at += length
    if function:
        raise error("is truncated: its last function has no end")

    called = {entry.function for entry in module.entries}.union(*module.calls.values())
    missing = called - module.function_types.keys()
    if missing:
        raise error(f"is truncated: the function {min(missing)} is missing")
    return module


def _bad_length(words: array[int], at: int) -> FormatError:
    """Return the error of an instruction with too few operands, or that ends outside of the
    words.
    """
    length = words[at] >> 16
    opcode = words[at] & 0xFFFF
    remaining = len(words) - at
    if not length:
        return error(f"is truncated or damaged: the instruction at word {at} has the length 0")
    if length > remaining:
        return error(
            f"is truncated or damaged: the instruction at word {at} has a length of {length} words, but only {remaining} words remain"
        )
    return error(
        f"is damaged: the instruction {opcode} at word {at} has {length - 1} operands; expected at least {_MIN_OPERANDS[opcode]}"
    )


def starts(words: array[int]) -> Iterator[int]:
    """Yield the index of the first word of each instruction of a module that was read."""
    at = 5
    while at < len(words):
        yield at
        at += words[at] >> 16


def _in_function(module: SpirvModule, function: int, opcode: int, operands: Ids) -> None:
    if opcode == 57:
        module.calls[function].add(operands[2])
    elif opcode == 12 and module.names.get(operands[2], "").startswith(_NON_SEMANTIC):
        return
    elif opcode in _DEPTH_COMPARISONS:
        module.compares_depth = True
    first, last = _POINTER_OPERANDS.get(opcode, (0, None))
    module.uses[function].update(
        operand for operand in operands[first:last] if operand in module.variables
    )


def _global(module: SpirvModule, opcode: int, operands: Ids, at: int) -> None:
    if opcode in _TYPES:
        _define(module, operands[0], at)
        module.types[operands[0]] = (opcode, operands[1:])
    elif opcode in _CONSTANTS:
        _define(module, operands[1], at)
        module.constants[operands[1]] = (opcode, (operands[0], *operands[2:]))
    elif opcode == 59:
        _define(module, operands[1], at)
        module.variables[operands[1]] = (operands[0], operands[2])
    elif opcode == 71:
        _mark(module.decorations, operands[0], operands[1:])
    elif opcode == 72:
        _mark(module.decorations, operands[:2], operands[2:])
    elif opcode in (16, 331):
        _mark(module.modes, operands[0], operands[1:])
    elif opcode in (5, 7, 11):
        module.names.setdefault(operands[0], _string(operands[1:], at))
    elif opcode == 6:
        module.names.setdefault(operands[:2], _string(operands[2:], at))
    elif opcode == 12 and module.names.get(operands[2], "").startswith(_CLSPV):
        module.reflection.append((operands[1], operands[3], operands[4:]))
    elif opcode == 17:
        module.capabilities.append(operands[0])
    elif opcode == 15:
        name = _string(operands[2:], at)
        interface = operands[3 + len(name.encode()) // 4 :]
        module.entries.append(EntryPoint(operands[0], operands[1], name, frozenset(interface)))
        if len(module.entries) > _MAX_ENTRIES:
            raise error(f"has more than {_MAX_ENTRIES} entry points")
    elif opcode in _UNSUPPORTED:
        raise error(_UNSUPPORTED[opcode])


def _mark(marks: dict[Target, Marks], target: Target, operands: Ids) -> None:
    """Record a decoration or a mode; the first of equal ones counts."""
    marks.setdefault(target, {}).setdefault(operands[0], operands[1:])


def _define(module: SpirvModule, number: int, at: int) -> None:
    if number in module.types or number in module.constants or number in module.variables:
        raise error(f"is damaged: the id {number} at word {at} is defined twice")


def _string(operands: Ids, at: int) -> str:
    """Return the string at the start of the operands."""
    data = b"".join(operand.to_bytes(4, "little") for operand in operands)
    text, end, _ = data.partition(b"\0")
    if not end:
        raise error(f"is damaged: the string at word {at} has no end")
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise error(f"is damaged: the string at word {at} is not UTF-8") from None


def error(text: str) -> FormatError:
    """Return the error of a module. The text continues a sentence that begins with the module."""
    return FormatError(text, kind="vulkan")
