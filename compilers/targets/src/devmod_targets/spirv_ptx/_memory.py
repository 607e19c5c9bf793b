"""Pointers, and the loads and stores of values of any type."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from devmod_targets.spirv_ptx._types import BOOL, Layout, RefusedError, Scalar, Types
from devmod_targets.spirv_ptx._writer import Writer, joined

#: The most bytes of an access.
_WIDEST = 16
#: The memory of each storage class of SPIR-V.
SPACES = {
    2: "global",
    4: "shared",
    6: "local",
    7: "local",
    9: "param",
    12: "global",
    5349: "global",
}


class Segment(NamedTuple):
    """A parameter of the kernel that has bytes of a block."""

    start: int
    size: int
    name: str


class Pointer(NamedTuple):
    """A pointer: to memory, or to the registers of a variable that has no address."""

    space: str
    type: int
    layout: Layout
    base: str = ""
    offset: int = 0
    align: int = _WIDEST
    registers: tuple[str, ...] = ()
    segments: tuple[Segment, ...] = ()
    variable: int = 0
    volatile: bool = False


#: What an id stands for: the registers or literals of its numbers, or a pointer.
Value = list[str] | Pointer


class Memory:
    """The accesses of a kernel to memory."""

    def __init__(self, types: Types, writer: Writer) -> None:
        self._types = types
        self._writer = writer

    def pointer(self, type_: int, address: str) -> Pointer:
        """Return the pointer of a pointer type with an address in a register."""
        storage, pointee = self._types.pointee(type_)
        space = SPACES.get(storage, "")
        if space not in ("global", "shared", "local"):
            raise RefusedError(f"it computes a pointer of the storage class {storage}")
        explicit = space == "global"
        layout = self._types.layout(pointee, explicit)
        return Pointer(space, pointee, layout, address, align=layout.align if explicit else 4)

    def part(self, pointer: Pointer, index: int) -> Pointer:
        """Return the pointer to a part of a composite."""
        types = self._types
        part = types.part(pointer.type, index)
        if pointer.space == "registers":
            start = types.place(pointer.type, index)
            registers = pointer.registers[start : start + len(types.numbers(part))]
            return pointer._replace(
                type=part, layout=pointer.layout.part(index)[1], registers=registers
            )
        offset, layout = pointer.layout.part(index)
        align = pointer.align
        if offset:
            align = math.gcd(align, offset)
        return pointer._replace(
            type=part, layout=layout, offset=pointer.offset + offset, align=align
        )

    def element(self, pointer: Pointer, scalar: Scalar, index: str) -> Pointer:
        """Return the pointer to an element whose index is in a register."""
        types = self._types
        part = types.part(pointer.type, 0)
        if pointer.space == "registers":
            return self._chosen(pointer, part, index)
        stride = pointer.layout.stride
        if not stride:
            raise RefusedError("it has a computed index of a struct")
        pointer = self.addressed(pointer)
        address = self._add(pointer.base, scalar, index, stride)
        align = math.gcd(pointer.align, stride)
        return pointer._replace(
            type=part, layout=pointer.layout.part(0)[1], base=address, align=align
        )

    def moved(self, pointer: Pointer, scalar: Scalar, index: str, stride: int) -> Pointer:
        """Return a pointer that is some elements behind another."""
        pointer = self.addressed(pointer)
        address = self._add(pointer.base, scalar, index, stride)
        return pointer._replace(base=address, align=math.gcd(pointer.align, stride))

    def _add(self, base: str, scalar: Scalar, index: str, stride: int) -> str:
        writer = self._writer
        if scalar.bits == 64:
            return writer.op("b64", "mad.lo.s64", index, str(stride), base)
        if scalar.bits < 32 and scalar.signed:
            index = writer.op("b32", f"cvt.s32.s{scalar.bits}", writer.held(scalar, index))
        if stride < 1 << 31:
            return writer.op("b64", "mad.wide.s32", index, str(stride), base)
        wide = writer.op("b64", "cvt.s64.s32", writer.held(scalar, index))
        return writer.op("b64", "mad.lo.s64", wide, str(stride), base)

    def _chosen(self, pointer: Pointer, part: int, index: str) -> Pointer:
        """Return a pointer to a copy of an element of a built-in value."""
        types = self._types
        count = types.count(pointer.type)
        width = len(types.numbers(part))
        chosen = list(pointer.registers[:width])
        for number in range(1, count):
            here = self._writer.op("pred", "setp.eq.s32", index, str(number))
            values = pointer.registers[number * width : (number + 1) * width]
            for place, (scalar, value) in enumerate(zip(types.numbers(part), values, strict=True)):
                opcode = f"selp.{scalar.register}"
                chosen[place] = self._writer.op(scalar.register, opcode, value, chosen[place], here)
        layout = pointer.layout.part(0)[1]
        return pointer._replace(type=part, layout=layout, registers=tuple(chosen))

    def addressed(self, pointer: Pointer) -> Pointer:
        """Return a pointer whose base is a register."""
        if pointer.space == "registers":
            raise RefusedError("it needs the address of a value that has none")
        if pointer.base.startswith("%"):
            return pointer
        base, offset = self._resolved(pointer, 0)
        register = self._writer.op("b64", "mov.u64", base)
        return pointer._replace(base=register, offset=offset, segments=())

    def address(self, pointer: Pointer) -> str:
        """Return a register with the address."""
        pointer = self.addressed(pointer)
        if not pointer.offset:
            return pointer.base
        return self._writer.op("b64", "add.s64", pointer.base, str(pointer.offset))

    def operand(self, pointer: Pointer, offset: int = 0) -> str:
        """Return the operand of an access."""
        base, offset = self._resolved(pointer, offset)
        return f"[{base}+{offset}]" if offset else f"[{base}]"

    def _resolved(self, pointer: Pointer, offset: int) -> tuple[str, int]:
        offset += pointer.offset
        for segment in pointer.segments:
            if segment.start <= offset < segment.start + max(segment.size, 1):
                return segment.name, offset - segment.start
        if pointer.segments:
            raise RefusedError(f"no argument has the byte {offset} of its block")
        return pointer.base, offset

    def _accesses(
        self, pointer: Pointer, layout: Layout, offset: int
    ) -> Iterator[tuple[Scalar, int, int]]:
        """Yield the number, the offset and the lanes of each access to a value."""
        if layout.scalar is not None:
            yield layout.scalar, offset, 1
            return
        count = layout.length or len(layout.parts)
        first = layout.parts[0][1].scalar if layout.parts else None
        if layout.length and first is not None and layout.stride == first.size:
            align = math.gcd(pointer.align, pointer.offset + offset)
            lanes = self._lanes(pointer, first, count, align)
            for start in range(0, count, lanes):
                yield first, offset + start * first.size, lanes
            return
        for index in range(count):
            step, part = layout.part(index)
            yield from self._accesses(pointer, part, offset + step)

    def _lanes(self, pointer: Pointer, scalar: Scalar, count: int, align: int) -> int:
        """Return how many lanes of a vector an access has."""
        if pointer.space == "param" or scalar == BOOL:
            return 1
        for lanes in (4, 2):
            size = lanes * scalar.size
            if count % lanes == 0 and size <= _WIDEST and not align % size:
                return lanes
        return 1

    def load(self, pointer: Pointer) -> list[str]:
        """Load a value."""
        writer = self._writer
        numbers = self._types.numbers(pointer.type)
        if pointer.space == "registers":
            return [writer.copy(*pair) for pair in zip(numbers, pointer.registers, strict=True)]
        opcode = f"ld{self._order(pointer)}.{pointer.space}"
        values = []
        for scalar, offset, lanes in self._accesses(pointer, pointer.layout, 0):
            address = self.operand(pointer, offset)
            register = "b32" if scalar == BOOL else scalar.register
            loaded = [writer.new(register) for _ in range(lanes)]
            if lanes > 1:
                writer.put(f"{opcode}.v{lanes}.{scalar.memory}", joined(loaded), address)
            else:
                writer.put(f"{opcode}.{scalar.memory}", loaded[0], address)
            if scalar == BOOL:
                loaded = [writer.op("pred", "setp.ne.u32", loaded[0], "0")]
            values += loaded
        return values

    def store(self, pointer: Pointer, values: Sequence[str]) -> None:
        """Store a value."""
        writer = self._writer
        numbers = self._types.numbers(pointer.type)
        if len(values) != len(numbers):
            raise RefusedError(f"it stores {len(values)} numbers in a place of {len(numbers)}")
        if pointer.space == "registers":
            for scalar, target, value in zip(numbers, pointer.registers, values, strict=True):
                writer.move(scalar, target, value)
            return
        opcode = f"st{self._order(pointer)}.{pointer.space}"
        rest = iter(values)
        for scalar, offset, lanes in self._accesses(pointer, pointer.layout, 0):
            address = self.operand(pointer, offset)
            stored = [writer.held(scalar, next(rest)) for _ in range(lanes)]
            if scalar == BOOL:
                stored = [writer.op("b32", "selp.u32", "1", "0", stored[0])]
            if lanes > 1:
                writer.put(f"{opcode}.v{lanes}.{scalar.memory}", address, joined(stored))
            else:
                writer.put(f"{opcode}.{scalar.memory}", address, stored[0])

    def _order(self, pointer: Pointer) -> str:
        if pointer.volatile and pointer.space in ("global", "shared"):
            return ".volatile"
        return ""
