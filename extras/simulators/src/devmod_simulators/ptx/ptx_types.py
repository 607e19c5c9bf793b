"""PTX types as NumPy types, and the operands and instructions that the parser makes."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: The folders of headers that come with a compiler.
_HEADERS = re.compile("/include/|site-packages|dist-packages")
Array = np.ndarray[Any, np.dtype[Any]]
DType = np.dtype[Any]

#: The NumPy type that holds the bits of each PTX type. Types that NumPy lacks are held as unsigned
#: integers.
DTYPES: dict[str, DType] = {
    "pred": np.dtype(np.bool_),
    **{f"{kind}{bits}": np.dtype(f"u{bits // 8}") for kind in "bu" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    **dict.fromkeys(
        ("bf16", "e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2"), np.dtype(np.uint16)
    ),
    "e2m1x2": np.dtype(np.uint8),
    **dict.fromkeys(("f16x2", "bf16x2", "tf32", "u16x2", "s16x2"), np.dtype(np.uint32)),
}
#: 128-bit registers are pairs of 64-bit integers in a structured type.
DTYPES["f32x2"] = np.dtype(np.uint64)
DTYPES["b128"] = np.dtype([("low", "u8"), ("high", "u8")])

#: The types of floating-point numbers, and of pairs of them.
FLOATS = {"f16", "bf16", "tf32", "f32", "f64", "f16x2", "bf16x2", "f32x2", "e4m3x2", "e5m2x2"}
FLOATS |= {"e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2"}

U8, U16, U32, U64 = (np.dtype(f"u{size}") for size in (1, 2, 4, 8))
S8, S16, S32, S64 = (np.dtype(f"i{size}") for size in (1, 2, 4, 8))
F16, F32, F64 = (np.dtype(f"f{size}") for size in (2, 4, 8))
PRED = DTYPES["pred"]
UNSIGNED: dict[int, DType] = {1: U8, 2: U16, 4: U32, 8: U64, 16: DTYPES["b128"]}
#: The NumPy type in which registers give values of each PTX type.
REGISTERS = DTYPES | {"f16": U16}


@dataclass(frozen=True, slots=True)
class Register:
    """A register of a function, by its number there."""

    number: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer literal."""

    value: int


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point literal."""

    value: float
    bits: int  # 32 or 64: the width of its notation


@dataclass(frozen=True, slots=True)
class Name:
    """A special register, a variable, a function or a label, with an offset in bytes."""

    text: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """Operands in braces."""

    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """An operand in square brackets: a base and an offset in bytes, or several operands (of tensor
    instructions).
    """

    base: Any
    offset: int = 0
    more: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """Two destinations, as in `p|q`."""

    first: Any
    second: Any


@dataclass(frozen=True, slots=True)
class Negation:
    """A predicate with an exclamation mark."""

    operand: Any


@dataclass(frozen=True, slots=True)
class Group:
    """Operands in parentheses, of a call."""

    parts: tuple[Any, ...]


@dataclass(slots=True)
class Instruction:
    """One instruction: its opcode with all its suffixes, its guard and its operands."""

    opcode: str
    operands: list[Any]
    line: int
    guard: Register | None = None
    negated: bool = False
    scopes: tuple[int, ...] = ()
    #: Of its .loc: the numbers of the file, the line and the column.
    source: tuple[int, ...] = (0, 0, 0)

    @property
    def root(self) -> str:
        """The first part of the opcode."""
        return self.opcode.partition(".")[0]

    @property
    def parts(self) -> list[str]:
        """The opcode split at its dots."""
        return self.opcode.split(".")


@dataclass(slots=True)
class Variable:
    """A variable of a module or a function, or a parameter."""

    name: str
    space: str
    type: str
    count: int  # elements; 0 for an array without a size
    align: int
    #: Initial values, one for each element: numbers, or (name, offset, generic).
    values: list[Any] = field(default_factory=list)
    external: bool = False
    managed: bool = False

    @property
    def size(self) -> int:
        """Bytes of the variable."""
        return DTYPES[self.type].itemsize * self.count

    def joined(self, other: "Variable | None") -> "Variable":
        """Return a variable with room for both: each call has parameters `param0`, `param1`, … in a
        scope of its own.
        """
        if other is None or (other.size <= self.size and other.align <= self.align):
            return self
        return Variable(
            self.name, self.space, "b8", max(self.size, other.size), max(self.align, other.align)
        )


def aligned(size: int, alignment: int) -> int:
    """Return the next multiple of an alignment."""
    return -(-size // alignment) * alignment


@dataclass(slots=True)
class Function:
    """A kernel or a device function, as the text has it."""

    name: str
    entry: bool
    line: int
    params: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    registers: list[DType] = field(default_factory=list)
    #: How often the text names each register.
    mentions: Counter[int] = field(default_factory=Counter)
    instructions: list[Instruction] = field(default_factory=list)
    #: A scope and a name, to the index of an instruction.
    labels: dict[tuple[int, str], int] = field(default_factory=dict)
    #: Of .branchtargets.
    tables: dict[str, list[str]] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    attributes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    body: bool = False
    #: The register that holds the carry flag, once an instruction has it.
    carry: int | None = None

    def offsets(self) -> list[int]:
        """Return where the parameters of a kernel are in the block of parameters."""
        offsets = []
        end = 0
        for variable in self.params:
            offsets.append(aligned(end, variable.align))
            end = offsets[-1] + variable.size
        return offsets

    def offsets_end(self) -> int:
        """Return the bytes of the block of parameters."""
        if not self.params:
            return 0
        return self.offsets()[-1] + self.params[-1].size


def shown_path(path: str) -> str:
    """Return the path of a source as a person has given it, who may have given its name alone."""
    if not os.path.isabs(path):
        return path
    relative = os.path.relpath(path)
    if not relative.startswith(os.pardir):
        return relative
    return path if os.path.exists(path) else os.path.basename(path)


@dataclass(slots=True)
class Text:
    """A parsed module."""

    functions: dict[str, Function]
    variables: dict[str, Variable]
    #: Of .file.
    files: dict[int, str] = field(default_factory=dict)
    #: Where the function of a .loc is inlined, by its place and that of its use.
    inlined: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)
    #: The limit in a pragma, which shims/cubins.c writes for a linker's option. 0: any number.
    most_registers: int = 0

    def source(self, instruction: Instruction) -> tuple[int, int]:
        """Return the numbers of the file and of the line of an instruction; for a header of the
        compiler, those of its use.
        """
        source = instruction.source
        while source in self.inlined and _HEADERS.search(self.files.get(source[0], "")):
            source = self.inlined[source]
        return source[0], source[1]

    def place(self, instruction: Instruction) -> str:
        """Return where an instruction comes from: its line of the source, if the compiler has noted
        it, and its line of PTX.
        """
        number, line = self.source(instruction)
        source = f"{shown_path(self.files.get(number, '?'))}:{line}, " if line else ""
        return f"{source}PTX line {instruction.line} ({instruction.opcode})"
