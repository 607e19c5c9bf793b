"""What lies in a block of memory: the types of SPIR-V with their sizes, and the element type that a caller's array has.

An element is what an array of the caller's repeats: a scalar or vector where they lie without gaps, also inside arrays of arrays and
matrices, else a struct of so many bytes (``uint8xN`` and its alignment). Three-vectors count as without gaps at 16 bytes, as
`devmod._launch.arguments` has it.
"""

from __future__ import annotations

from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod_targets.vulkan._spirv import Module

ARRAY_STRIDE, MATRIX_STRIDE, ROW_MAJOR, OFFSET = 6, 7, 4, 35
_PHYSICAL = 5349
_DEEPEST = 32
_LARGEST = 1 << 62
_LARGEST_STRUCT = 0xFFFF
#: By bits and encoding.
_FLOATS = {
    (16, None): "float16",
    (32, None): "float32",
    (64, None): "float64",
    (16, 0): "bfloat16",
    (8, 4214): "float8_e4m3fn",
    (8, 4215): "float8_e5m2",
}


class Layout:
    """A type in memory.

    Attributes
    ----------
    type : str
        That of a scalar or vector; "" for anything else.
    size : int
        Bytes; of a type with a runtime array, those before it.
    align : int
        Its alignment.
    element, element_align : str, int
        The element type, and the alignment where it is a struct; "" where there is no one such type.
    base : str
        The scalar that all of it consists of without any gap; "" where that is not so.
    endless : bool
        Whether it ends in a runtime array.
    """

    __slots__ = ("align", "base", "element", "element_align", "endless", "size", "type")

    def __init__(self, size: int, align: int, *, type: str = "", element: tuple[str, int] = ("", 0), base: str = "") -> None:  # noqa: A002
        self.size, self.align, self.type, self.base, self.endless = size, align, type, base, False
        self.element, self.element_align = element


def struct_type(size: int, align: int) -> tuple[str, int]:
    """The element type of a struct; ("", 0) where it is larger than a type can say."""
    if not 0 < size <= _LARGEST_STRUCT:
        return "", 0
    return (f"uint8x{size}" if size > 1 else "uint8"), align


def round_up(size: int, align: int) -> int:
    """The first multiple of `align` that is not below `size`."""
    return (size + align - 1) // align * align


class Layouts:
    """The layouts of a module's types."""

    def __init__(self, module: Module, lengths: Mapping[int, int]) -> None:
        self._module = module
        self._lengths = lengths
        self._known: dict[int, Layout] = {}
        self._open: set[int] = set()

    def of(self, number: int) -> Layout:
        """The layout of the type with that id.

        Raises
        ------
        FormatError
            It is none that can lie in a block, or has no layout.
        """
        known = self._known.get(number)
        if known is None:
            if number in self._open or len(self._open) >= _DEEPEST:
                what = "contains itself" if number in self._open else f"nests more than {_DEEPEST} deep"
                raise FormatError(f"has a block of memory that {what}", kind="vulkan")
            self._open.add(number)
            known = self._known[number] = self._made(number)
            self._open.discard(number)
        return known

    def block(self, number: int) -> tuple[str, int]:
        """The element type of a buffer whose type is that struct, and its alignment where it is a struct."""
        members = self.members(number)
        only = members[0] if len(members) == 1 else None
        layout = self.of(number) if only is None or only[1] else only[2]
        return layout.element, layout.element_align

    def members(self, number: int) -> list[tuple[str, int, Layout]]:
        """The name, offset and layout of each member of a struct."""
        opcode, operands = self._type(number)
        if opcode != 30:
            raise FormatError(f"is damaged: the type {number} of a block is no struct", kind="vulkan")
        return [self._member(number, index, member) for index, member in enumerate(operands)]

    def _type(self, number: int) -> tuple[int, tuple[int, ...]]:
        found = self._module.types.get(number)
        if found is None:
            raise FormatError(f"is damaged: {number} is no type", kind="vulkan")
        return found

    def _made(self, number: int) -> Layout:
        opcode, operands = self._type(number)
        if opcode in (21, 22):
            name = _scalar(opcode, operands)
            return _plain(name, operands[0] // 8)
        if opcode == 23:
            one, lanes = self.of(operands[0]), operands[1]
            if not one.type or "x" in one.type or not 2 <= lanes <= 16:
                raise FormatError("is damaged: it has a vector that is none", kind="vulkan")
            return _vector(one.type, one.size, lanes)
        if opcode in (28, 29):
            return self._array(number, self.of(operands[0]))
        if opcode == 30:
            return self._struct(self.members(number))
        if opcode == 32 and operands[0] == _PHYSICAL:
            return _plain("uint64", 8)  # an address
        what = {20: "a bool", 24: "a matrix without a stride"}.get(opcode, f"a type of opcode {opcode}")
        raise FormatError(f"has {what} in a block of memory, where it has no layout", kind="vulkan")

    def _array(self, number: int, inner: Layout) -> Layout:
        opcode, operands = self._type(number)
        stride = self._module.decorations.get(number, {}).get(ARRAY_STRIDE, ())[:1]
        if not stride or not stride[0]:
            raise FormatError("has an array without a stride in a block of memory, so it has no layout", kind="vulkan")
        if inner.endless:
            raise FormatError("is damaged: it has an array of arrays that do not end", kind="vulkan")
        (step,) = stride
        made = Layout(0, _fitting(inner.align, step), element=_repeated(inner, step), base=inner.base if step == inner.size else "")
        if opcode == 29:
            made.endless = True
            return made
        length = self._lengths.get(operands[1], 0)
        if length < 1:
            raise FormatError("has an array in a block of memory whose length cannot be read", kind="vulkan")
        return _sized(made, step * length)

    def _struct(self, members: list[tuple[str, int, Layout]]) -> Layout:
        end = max((offset + layout.size for _, offset, layout in members), default=0)
        align = max((_fitting(layout.align, offset) for _, offset, layout in members), default=1)
        if any(layout.endless for _, _, layout in members[:-1]):
            raise FormatError("is damaged: it has a runtime array that is not the last member of its struct", kind="vulkan")
        if members and members[-1][2].endless:
            made = Layout(0, align, element=(_common(members), 0))
            made.endless = True
            return _sized(made, end)
        size = round_up(end, align)
        return _sized(Layout(0, align, element=struct_type(size, align)), size)

    def _member(self, number: int, index: int, member: int) -> tuple[str, int, Layout]:
        found = self._module.member_decorations.get((number, index), {})
        offset = found.get(OFFSET, ())[:1]
        if not offset:
            raise FormatError("has a block of memory whose members have no offsets, so it has no layout", kind="vulkan")
        return self._module.member_names.get((number, index), ""), offset[0], self._with_matrices(member, found)

    def _with_matrices(self, number: int, found: Mapping[int, tuple[int, ...]]) -> Layout:
        """The layout of a member. That of a matrix stands at the member, also where it is an array of them."""
        arrays: list[int] = []
        inner = number
        while self._type(inner)[0] in (28, 29) and len(arrays) <= _DEEPEST:
            arrays.append(inner)
            inner = self._type(inner)[1][0]
        opcode, operands = self._type(inner)
        if opcode != 24:
            return self.of(number)
        stride = found.get(MATRIX_STRIDE, ())[:1]
        if not stride or not stride[0]:
            raise FormatError("has a matrix without a stride in a block of memory, so it has no layout", kind="vulkan")
        column, count = self.of(operands[0]), operands[1]
        lane, _, lanes = column.type.rpartition("x")
        if not lanes.isdigit() or not 2 <= count <= 4:
            raise FormatError("is damaged: it has a matrix that is none", kind="vulkan")
        if ROW_MAJOR in found:
            column, count = _vector(lane, column.size // int(lanes), count), int(lanes)
        (step,) = stride
        made = Layout(0, _fitting(column.align, step), element=_repeated(column, step), base=column.base if step == column.size else "")
        made = _sized(made, step * count)
        for array in reversed(arrays):
            made = self._array(array, made)
        return made


def _plain(name: str, size: int) -> Layout:
    return _sized(Layout(0, size, type=name, element=(name, 0), base=name), size)


def _vector(name: str, size: int, lanes: int) -> Layout:
    vector = f"{name}x{lanes}"
    return _sized(Layout(0, size * (4 if lanes == 3 else lanes), type=vector, element=(vector, 0), base=name), size * lanes)


def _sized(layout: Layout, size: int) -> Layout:
    if size > _LARGEST:
        raise FormatError("has a block of over 2**62 bytes", kind="vulkan")
    layout.size = size
    return layout


def _scalar(opcode: int, operands: tuple[int, ...]) -> str:
    if opcode == 21 and operands[0] in (8, 16, 32, 64):
        return f"{'int' if operands[1] else 'uint'}{operands[0]}"
    name = _FLOATS.get((operands[0], operands[1] if len(operands) > 1 else None)) if opcode == 22 else None
    if name is None:
        raise FormatError(f"has a number of {operands[0]} bits, which is none that devmod knows", kind="vulkan")
    return name


def _repeated(inner: Layout, step: int) -> tuple[str, int]:
    """The element type of an array whose elements begin every `step` bytes."""
    if inner.type:
        lanes = inner.type.rpartition("x")[2] if "x" in inner.type else ""
        if step == (inner.align if lanes == "3" else inner.size):
            return inner.type, 0
        if step == inner.size:
            return inner.base, 0  # three-vectors without the fourth lane
        return struct_type(step, _fitting(inner.align, step))
    if step == inner.size and inner.element:
        return inner.element, inner.element_align
    return struct_type(step, _fitting(inner.align, step))


def _fitting(align: int, offset: int) -> int:
    """The greatest power of two that is no more than `align` and divides `offset`."""
    while align > 1 and offset % align:
        align //= 2
    return align


def _common(members: list[tuple[str, int, Layout]]) -> str:
    """The scalar that a struct with a runtime array consists of, where it is one and there are no gaps; else "" (any array fits)."""
    at, base = 0, members[0][2].base
    for _, offset, layout in members:
        if not base or layout.base != base or offset != at:
            return ""
        at = offset + layout.size
    return base
