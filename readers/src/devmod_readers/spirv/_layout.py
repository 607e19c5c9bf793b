"""The memory layouts of SPIR-V types, and the element type of an array that a caller passes for a block.

The element type is a scalar or vector if these are contiguous in memory, including those in nested arrays and matrices. Otherwise it is
a struct of N bytes (``uint8xN``) with its alignment. Three-vectors with a stride of 16 bytes count as contiguous, as in devmod's launch.
"""

from __future__ import annotations

from devmod_readers.spirv._module import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from devmod_readers.spirv._module import SpirvModule

ARRAY_STRIDE, MATRIX_STRIDE, ROW_MAJOR, OFFSET = 6, 7, 4, 35
_PHYSICAL = 5349
_MAX_DEPTH = 32
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
    """The memory layout of one type.

    Attributes
    ----------
    type : str
        The type of a scalar or vector; "" for any other type.
    size : int
        Its size in bytes, without a runtime array at its end.
    align : int
        Its alignment.
    element, element_align : str, int
        The element type, and the alignment of a struct; "" if the type has several.
    struct : Layout or None
        The layout of the structs that are its elements; None if the elements are no structs of known members.
    base : str
        The scalar type that fills it without gaps; "" if there is none.
    runtime_sized : bool
        Whether it ends in a runtime array.
    specialized : bool
        Whether a specialization constant changes its size; `size` uses the default.
    dims : tuple
        The length and the stride of each dimension of an array, and of a matrix as an array of columns or rows.
    innermost : Layout
        The layout of an element of all dimensions; the layout itself if there are none.
    fields : list or None
        The members of a struct.
    """

    def __init__(self, size: int, align: int, *, type: str = "", element: tuple[str, int] = ("", 0), base: str = "") -> None:  # noqa: A002
        self.size, self.align, self.type, self.base, self.runtime_sized = size, align, type, base, False
        self.specialized = False
        self.element, self.element_align = element
        self.dims: tuple[tuple[int, int], ...] = ()
        self.struct: Layout | None = None
        self.innermost = self
        self.fields: list[tuple[str, int, Layout]] | None = None

    def add_dimension(self, inner: Layout, count: int, step: int) -> Layout:
        """Make this the layout of `count` elements with a stride of `step` bytes, and return it."""
        self.dims, self.innermost = ((count, step), *inner.dims), inner.innermost
        return _with_size(self, step * count)


def struct_type(size: int, align: int) -> tuple[str, int]:
    """Return the element type of a struct and its alignment; ("", 0) if it exceeds the largest type."""
    if not 0 < size <= _LARGEST_STRUCT:
        return "", 0
    return (f"uint8x{size}" if size > 1 else "uint8"), align


def round_up(size: int, align: int) -> int:
    """Return the smallest multiple of `align` that is at least `size`."""
    return (size + align - 1) // align * align


class Layouts:
    """The layouts of a module's types."""

    def __init__(self, module: SpirvModule, lengths: Mapping[int, int], specialized: Collection[int]) -> None:
        self._module = module
        self._lengths = lengths
        #: The ids of lengths that depend on specialization constants.
        self._specialized = specialized
        self._layouts: dict[int, Layout] = {}
        self._members: dict[int, list[tuple[str, int, Layout]]] = {}
        self._declared_sizes: dict[int, int] = {}
        self._open: set[int] = set()

    def layout(self, number: int) -> Layout:
        """Return the layout of a type by its id.

        Raises
        ------
        FormatError
            The type is not allowed in a block, or has no layout.
        """
        layout = self._layouts.get(number)
        if layout is None:
            if number in self._open or len(self._open) >= _MAX_DEPTH:
                problem = "contains itself" if number in self._open else f"is nested more than {_MAX_DEPTH} levels deep"
                raise error(f"has a block of memory that {problem}")
            self._open.add(number)
            layout = self._layouts[number] = self._make_layout(number)
            self._open.discard(number)
        return layout

    def block(self, number: int) -> Layout:
        """Return the layout with the element type of a buffer of a struct type: that of the struct, or of its only member."""
        members = self.members(number)
        only = members[0] if len(members) == 1 else None
        return self.layout(number) if only is None or only[1] else only[2]

    def declared_size(self, number: int) -> int:
        """Return the bytes of a struct's members without a runtime array; 0 if they depend on a specialization constant."""
        if number not in self._declared_sizes:
            members = self.members(number)
            has_specialized_member = any(layout.specialized for _, _, layout in members)
            self._declared_sizes[number] = (
                0 if has_specialized_member else max((offset + layout.size for _, offset, layout in members), default=0)
            )
        return self._declared_sizes[number]

    def members(self, number: int) -> list[tuple[str, int, Layout]]:
        """Return the name, offset and layout of each member of a struct."""
        opcode, operands = self._type(number)
        if opcode != 30:
            raise error(f"is damaged: the type {number} of a block is not a struct")
        if number not in self._members:  # variables share types
            self._members[number] = [self._member(number, index, member) for index, member in enumerate(operands)]
        return self._members[number]

    def _type(self, number: int) -> tuple[int, tuple[int, ...]]:
        type_ = self._module.types.get(number)
        if type_ is None:
            raise error(f"is damaged: {number} is not a type")
        return type_

    def _make_layout(self, number: int) -> Layout:
        opcode, operands = self._type(number)
        if opcode in (21, 22):
            name = _scalar(opcode, operands)
            return _plain(name, operands[0] // 8)
        if opcode == 23:
            one, lanes = self.layout(operands[0]), operands[1]
            if not one.type or "x" in one.type or not 2 <= lanes <= 16:
                raise error("is damaged: it has an invalid vector")
            return _vector(one.type, one.size, lanes)
        if opcode in (28, 29):
            return self._array(number, self.layout(operands[0]))
        if opcode == 30:
            return self._struct(self.members(number))
        if opcode == 32 and operands[0] == _PHYSICAL:
            return _plain("uint64", 8)  # an address
        description = {20: "a bool", 24: "a matrix without a stride"}.get(opcode, f"a type of opcode {opcode}")
        raise error(f"has {description} in a block of memory, where that type has no layout")

    def _array(self, number: int, inner: Layout) -> Layout:
        opcode, operands = self._type(number)
        stride = self._module.decorations.get(number, {}).get(ARRAY_STRIDE, ())[:1]
        if not stride or not stride[0]:
            raise error("has an array without a stride in a block of memory; expected ArrayStride")
        if inner.runtime_sized:
            raise error("is damaged: it has an array of runtime arrays")
        (step,) = stride
        layout = Layout(
            0,
            fitting(inner.align, step),
            element=_element_of(inner, step),
            base=inner.base if step == inner.size else "",
        )
        layout.struct = inner if inner.fields is not None else inner.struct if step == inner.size else None
        layout.specialized = inner.specialized or (opcode == 28 and operands[1] in self._specialized)
        if opcode == 29:
            layout.runtime_sized = True
            return layout
        length = self._lengths.get(operands[1], 0)
        if length < 1:
            raise error("has an array of unknown length in a block of memory")
        return layout.add_dimension(inner, length, step)

    def _struct(self, members: list[tuple[str, int, Layout]]) -> Layout:
        end = max((offset + layout.size for _, offset, layout in members), default=0)
        align = max((fitting(layout.align, offset) for _, offset, layout in members), default=1)
        if any(layout.runtime_sized for _, _, layout in members[:-1]):
            raise error("is damaged: it has a runtime array that is not the last member of its struct")
        if members and members[-1][2].runtime_sized:
            layout = Layout(0, align, element=(_common(members), 0))
            layout.runtime_sized = True
            return _with_size(layout, end)
        size = round_up(end, align)
        layout = Layout(0, align, element=struct_type(size, align))
        layout.fields, layout.struct = members, layout
        layout.specialized = any(layout.specialized for _, _, layout in members)
        return _with_size(layout, size)

    def _member(self, number: int, index: int, member: int) -> tuple[str, int, Layout]:
        decorations = self._module.member_decorations.get((number, index), {})
        offset = decorations.get(OFFSET, ())[:1]
        if not offset:
            raise error("has a block of memory whose members have no offsets; expected Offset")
        return self._module.member_names.get((number, index), ""), offset[0], self._with_matrices(member, decorations)

    def _with_matrices(self, number: int, decorations: Mapping[int, tuple[int, ...]]) -> Layout:
        """Return the layout of a member. The decorations of the member apply to a matrix, also to one inside arrays."""
        arrays: list[int] = []
        inner = number
        while self._type(inner)[0] in (28, 29) and len(arrays) <= _MAX_DEPTH:
            arrays.append(inner)
            inner = self._type(inner)[1][0]
        opcode, operands = self._type(inner)
        if opcode != 24:
            return self.layout(number)
        stride = decorations.get(MATRIX_STRIDE, ())[:1]
        if not stride or not stride[0]:
            raise error("has a matrix without a stride in a block of memory; expected MatrixStride")
        column, count = self.layout(operands[0]), operands[1]
        lane, _, lanes = column.type.rpartition("x")
        if not lanes.isdigit() or not 2 <= count <= 4:
            raise error("is damaged: it has an invalid matrix")
        if ROW_MAJOR in decorations:
            column, count = _vector(lane, column.size // int(lanes), count), int(lanes)
        (step,) = stride
        layout = Layout(
            0,
            fitting(column.align, step),
            element=_element_of(column, step),
            base=column.base if step == column.size else "",
        )
        layout.add_dimension(column, count, step)
        for array in reversed(arrays):
            layout = self._array(array, layout)
        return layout


def _plain(name: str, size: int) -> Layout:
    return _with_size(Layout(0, size, type=name, element=(name, 0), base=name), size)


def _vector(name: str, size: int, lanes: int) -> Layout:
    vector = f"{name}x{lanes}"
    return _with_size(Layout(0, size * (4 if lanes == 3 else lanes), type=vector, element=(vector, 0), base=name), size * lanes)


def _with_size(layout: Layout, size: int) -> Layout:
    if size > _LARGEST:
        raise error("has a block of more than 2**62 bytes")
    layout.size = size
    return layout


def _scalar(opcode: int, operands: tuple[int, ...]) -> str:
    if opcode == 21 and operands[0] in (8, 16, 32, 64):
        return f"{'int' if operands[1] else 'uint'}{operands[0]}"
    name = _FLOATS.get((operands[0], operands[1] if len(operands) > 1 else None)) if opcode == 22 else None
    if name is None:
        raise error(f"has a number of {operands[0]} bits in an encoding that devmod does not support")
    return name


def _element_of(inner: Layout, step: int) -> tuple[str, int]:
    """Return the element type of an array with a stride of `step` bytes."""
    if inner.type:
        lanes = inner.type.rpartition("x")[2] if "x" in inner.type else ""
        if step == (inner.align if lanes == "3" else inner.size):
            return inner.type, 0
        if step == inner.size:
            return inner.base, 0  # contiguous three-vectors
        return struct_type(step, fitting(inner.align, step))
    if step == inner.size and inner.element:
        return inner.element, inner.element_align
    return struct_type(step, fitting(inner.align, step))


def fitting(align: int, offset: int) -> int:
    """Return the greatest power of two that is at most `align` and divides `offset`."""
    while align > 1 and offset % align:
        align //= 2
    return align


def _common(members: list[tuple[str, int, Layout]]) -> str:
    """Return the scalar type that fills a struct with a runtime array without gaps; "" if there is none."""
    at, base = 0, members[0][2].base
    for _, offset, layout in members:
        if not base or layout.base != base or offset != at:
            return ""
        at = offset + layout.size
    return base
