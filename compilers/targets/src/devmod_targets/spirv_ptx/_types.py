"""The types of a SPIR-V module: the numbers that a value consists of, and where they are in
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from devmod_readers.spirv import SpirvConstants, SpirvModule

_BOOL = 20
_INT = 21
_FLOAT = 22
_VECTOR = 23
_MATRIX = 24
_ARRAY = 28
_RUNTIME_ARRAY = 29
_STRUCT = 30
_POINTER = 32
#: Decorations.
_ROW_MAJOR = 4
_ARRAY_STRIDE = 6
_MATRIX_STRIDE = 7
_OFFSET = 35
#: A value has one register for each of its numbers.
_MOST_NUMBERS = 1 << 12
_MAX_DEPTH = 32
#: Types whose values are no numbers.
OPAQUE_TYPES = {
    25: "an image",
    26: "a sampler",
    27: "an image with its sampler",
    5341: "an acceleration structure",
}


class RefusedError(Exception):
    """Something has no translation; the text continues a sentence that names the instruction."""


class Scalar(NamedTuple):
    """A number, a bool or a pointer."""

    form: str  # "bool", "int", "float" or "pointer"
    bits: int = 0
    signed: bool = False

    @property
    def register(self) -> str:
        """The type of its registers: integers of 8 and 16 bits have 32, with zeros above them."""
        if self.form == "bool":
            return "pred"
        if self.form == "float":
            return "b16" if self.bits == 16 else f"f{self.bits}"
        return f"b{max(self.bits, 32)}"

    @property
    def size(self) -> int:
        """The bytes in memory."""
        return 4 if self.form == "bool" else self.bits // 8

    @property
    def memory(self) -> str:
        """The type of a load or a store."""
        if self.form == "float":
            return "b16" if self.bits == 16 else f"f{self.bits}"
        if self.signed and self.bits >= 32:
            return f"s{self.bits}"
        return f"u{8 * self.size}"


POINTER = Scalar("pointer", 64)
BOOL = Scalar("bool")
U32 = Scalar("int", 32)
F32 = Scalar("float", 32)


class Layout(NamedTuple):
    """Where the parts of a type are in memory: the size, the alignment, and for each part (of an
    array, one for all) its offset and its layout.
    """

    size: int
    align: int
    scalar: Scalar | None = None
    parts: tuple[tuple[int, Layout], ...] = ()
    length: int = 0  # of the elements of an array, or the lanes of a vector
    stride: int = 0

    def part(self, index: int) -> tuple[int, Layout]:
        """Return the offset and the layout of a part."""
        if self.stride:
            return index * self.stride, self.parts[0][1]
        return self.parts[index]


class Types:
    """The types of a module. What it returns is cached."""

    def __init__(self, module: SpirvModule, constants: SpirvConstants) -> None:
        self._module = module
        self._constants = constants
        # They call each other by these names: a type may contain another one many times.
        self.numbers = cache(self._numbers)
        self.layout = cache(self._layout)
        self._depth = 0

    def definition(self, number: int) -> tuple[int, tuple[int, ...]]:
        """Return the opcode and the operands of a type."""
        opcode, operands = self._module.types[number]
        if not opcode:
            raise RefusedError(f"%{number} is not a type")
        return opcode, operands

    def scalar(self, number: int) -> Scalar:
        """Return the scalar of a scalar or vector type."""
        opcode, operands = self.definition(number)
        if opcode == _BOOL:
            return BOOL
        if opcode == _INT and operands[0] in (8, 16, 32, 64):
            return Scalar("int", operands[0], bool(operands[1]))
        if opcode == _FLOAT and operands[0] in (16, 32, 64) and len(operands) == 1:
            return Scalar("float", operands[0])
        if opcode == _POINTER:
            return POINTER
        if opcode == _VECTOR:
            return self.scalar(operands[0])
        raise RefusedError(f"it has {OPAQUE_TYPES.get(opcode, f'a type of the opcode {opcode}')}")

    def count(self, number: int) -> int:
        """Return the parts of a composite type."""
        opcode, operands = self.definition(number)
        if opcode in (_VECTOR, _MATRIX):
            return operands[1]
        if opcode == _ARRAY:
            return self.length(number)
        if opcode == _STRUCT:
            return len(operands)
        raise RefusedError("it has a composite of another type")

    def length(self, number: int) -> int:
        """Return the elements of an array."""
        length = self._constants.values.get(self._module.types[number][1][1], 0)
        if length < 1:
            raise RefusedError("it has an array of unknown length")
        return length

    def part(self, number: int, index: int) -> int:
        """Return the type of a part of a composite type."""
        opcode, operands = self.definition(number)
        if opcode == _STRUCT:
            return operands[index]
        if opcode in (_VECTOR, _MATRIX, _ARRAY, _RUNTIME_ARRAY):
            return operands[0]
        raise RefusedError("it has a composite of another type")

    def place(self, number: int, index: int) -> int:
        """Return the first of the numbers of a part of a composite type."""
        if self.definition(number)[0] == _STRUCT:
            members = self.definition(number)[1][:index]
            return sum(len(self.numbers(member)) for member in members)
        return index * len(self.numbers(self.part(number, 0)))

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Bound the depth of a type."""
        if self._depth > _MAX_DEPTH:
            raise RefusedError(f"it has a type that is nested more than {_MAX_DEPTH} levels deep")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def _numbers(self, number: int) -> tuple[Scalar, ...]:
        """Return the numbers of a value of a type."""
        opcode, operands = self.definition(number)
        if opcode not in (_VECTOR, _MATRIX, _ARRAY, _STRUCT):
            return (self.scalar(number),)
        with self._inside():
            if opcode != _STRUCT:
                part = self.numbers(operands[0])
                self._limit(len(part) * self.count(number))
                return part * self.count(number)
            numbers: list[Scalar] = []
            for member in operands:
                numbers += self.numbers(member)
                self._limit(len(numbers))
            return tuple(numbers)

    def _limit(self, count: int) -> None:
        if count > _MOST_NUMBERS:
            raise RefusedError(f"it has a value of more than {_MOST_NUMBERS} numbers")

    def pointee(self, number: int) -> tuple[int, int]:
        """Return the storage class of a pointer type and the type at the pointer."""
        opcode, operands = self.definition(number)
        if opcode != _POINTER:
            raise RefusedError(f"%{number} is not a type of pointers")
        return operands[0], operands[1]

    def _layout(
        self, number: int, explicit: bool, stride: int = 0, row_major: bool = False
    ) -> Layout:
        """Return the layout of a type: that of its decorations, or without gaps. The stride and the
        order are those of matrices in it.
        """
        opcode, operands = self.definition(number)
        if opcode == _STRUCT:
            with self._inside():
                return self._struct_layout(number, explicit)
        if opcode == _VECTOR:
            return _vector_layout(self.scalar(number), operands[1])
        if opcode == _MATRIX:
            if explicit and not stride:
                raise RefusedError("it has a matrix without a stride in a block")
            return self._matrix_layout(number, stride, row_major)
        if opcode not in (_ARRAY, _RUNTIME_ARRAY):
            scalar = self.scalar(number)
            return Layout(scalar.size, scalar.size, scalar)
        with self._inside():
            part = self.layout(operands[0], explicit, stride, row_major)
        step = _rounded(part.size, part.align)
        if explicit:
            step = self._module.mark(number, _ARRAY_STRIDE) or 0
            if not step:
                raise RefusedError("it has an array without a stride in a block")
        count = self.length(number) if opcode == _ARRAY else 0
        return Layout(count * step, part.align, None, ((0, part),), count, step)

    def _struct_layout(self, number: int, explicit: bool) -> Layout:
        parts = []
        end = 0
        align = 1
        for index, member in enumerate(self.definition(number)[1]):
            target = number, index
            stride = self._module.mark(target, _MATRIX_STRIDE) or 0
            row_major = _ROW_MAJOR in self._module.decorations.get(target, {})
            if not explicit:
                stride = 0
                row_major = False
            layout = self.layout(member, explicit, stride, row_major)
            offset = _rounded(end, layout.align)
            if explicit:
                marked = self._module.mark(target, _OFFSET)
                if marked is None:
                    raise RefusedError("it has a block whose members have no offsets")
                offset = marked
            parts.append((offset, layout))
            end = max(end, offset + layout.size)
            align = max(align, layout.align)
        return Layout(_rounded(end, 1 if explicit else align), align, None, tuple(parts))

    def _matrix_layout(self, number: int, stride: int, row_major: bool) -> Layout:
        column_type, columns = self.definition(number)[1]
        rows = self.count(column_type)
        scalar = self.scalar(column_type)
        if row_major:
            column = Layout(0, scalar.size, None, ((0, _plain(scalar)),), rows, stride)
            return Layout(stride * rows, scalar.size, None, ((0, column),), columns, scalar.size)
        column = _vector_layout(scalar, rows)
        step = stride or _rounded(column.size, column.align)
        return Layout(step * columns, column.align, None, ((0, column),), columns, step)


def _plain(scalar: Scalar) -> Layout:
    return Layout(scalar.size, scalar.size, scalar)


def _vector_layout(scalar: Scalar, lanes: int) -> Layout:
    size = scalar.size
    align = size if lanes == 3 else size * lanes
    return Layout(size * lanes, align, None, ((0, _plain(scalar)),), lanes, size)


def _rounded(size: int, align: int) -> int:
    return -(-size // align) * align
