"""Kernels of products of matrices and of convolutions for GPUs, written by hand, in OpenCL C, CUDA
C++ and WGSL.

A block of threads computes a tile of the result. For some elements of the sum at a time, it copies
the rows of the first factor and the columns of the second one into memory that it shares. Each
thread computes a few rows by a few columns of the tile in registers. A factor may be any value,
such as an element inside of a border, or an integer minus its zero point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.uop.ops import AxisType, Ops, UOp

from devmod_models._tinygrad.products import each_axes, number_text, step_of, substituted
from devmod_models._tinygrad.record import expression, identifier, polynomial

#: The optimization of a kernel that one of these replaces. The rows and columns of a tile follow.
NAME = "TILES"
#: The numbers of the ranges that replace a kernel's.
_FLAT = 90
#: The elements of a sum that are copied at a time.
_DEPTH = 16
#: The rows and the columns of a thread.
_ROWS = 4
_COLUMNS = 4


class Size(NamedTuple):
    """The rows and the columns of a tile."""

    rows: int
    columns: int

    @property
    def threads(self) -> int:
        return self.rows * self.columns // (_ROWS * _COLUMNS)

    def __str__(self) -> str:
        return f"{NAME} {self.rows} {self.columns}"


#: The tiles, the largest first.
SIZES = (Size(64, 64), Size(64, 32), Size(32, 64), Size(32, 32), Size(16, 64), Size(64, 16))
#: The threads that each device of a kind has in a block.
_MOST_THREADS = {"vulkan": 128}
#: The blocks that each kind has in a dimension of a grid.
_MOST_BLOCKS = 65535
#: The fewest blocks for which a larger tile is better, and the part of a tile that is not wasted.
_BLOCKS = 32
_USED = 0.7
#: The least rows, columns and elements of a sum of a kernel that has tiles without a search.
_LEAST = 16


class Language(NamedTuple):
    """What differs between languages.

    Attributes
    ----------
    types
        The names of the element types of values.
    stored
        Those of arrays.
    array, number
        The declaration of an array by its type, its name, and its place among the parameters, as
        two texts, the second one for one that is written; and of an integer.
    variable, loop, chosen
        The text of a variable by its type, its name and its value; of a loop by its variable, its
        first number, its end and its step; of one of two values by a condition.
    cast
        The text of a cast by the type and the value.
    shared, barrier
        The declaration of an array of a block by its type, its name and its length; and what waits
        for the other threads.
    numbers
        The declaration of an array of a thread by its type, its length, its name and its values.
    kernel
        The text of a kernel by its name, its threads, its parameters, its shared arrays and its
        lines.
    separator
        What is between parameters.
    """

    types: Mapping[Any, str]
    stored: Mapping[Any, str]
    array: tuple[str, str]
    number: str
    variable: str
    loop: str
    chosen: str
    cast: str
    shared: str
    barrier: str
    numbers: str
    kernel: str
    separator: str


_C_TYPES = {
    dtypes.float32: "float",
    dtypes.int32: "int",
    dtypes.uint32: "uint",
    dtypes.int16: "short",
    dtypes.uint16: "ushort",
    dtypes.int8: "char",
    dtypes.uint8: "uchar",
    dtypes.bool: "bool",
}
#: A value of float16 is one of float: not each device computes in float16, and a pointer to it is
#: all that each compiler has.
_OPENCL = Language(
    types={**_C_TYPES, dtypes.float16: "float"},
    stored={**_C_TYPES, dtypes.float16: "half", dtypes.bool: "uchar"},
    array=("const __global {0}* {1}", "__global {0}* {1}"),
    number="const int {0}",
    variable="{0} {1} = {2};",
    loop="for (int {0} = {1}; {0} < {2}; {0} += {3}) {{",
    chosen="(({0}) ? ({1}) : ({2}))",
    cast="(({0})({1}))",
    shared="__local {0} {1}[{2}];",
    barrier="barrier(CLK_LOCAL_MEM_FENCE);",
    numbers="{0} {2}[{1}] = {{{3}}};",
    kernel="__kernel void __attribute__((reqd_work_group_size({1}, 1, 1))) {0}({2}) {{\n{3}\n"
    "int place_x = get_group_id(0), place_y = get_group_id(1), place_z = get_group_id(2);\n"
    "int lane = get_local_id(0);\n{4}\n}}",
    separator=", ",
)
_CUDA_TYPES = {
    **_C_TYPES,
    dtypes.uint32: "unsigned int",
    dtypes.uint16: "unsigned short",
    dtypes.int8: "signed char",
    dtypes.uint8: "unsigned char",
}
_CUDA = _OPENCL._replace(
    types=_CUDA_TYPES,
    stored=_CUDA_TYPES,
    array=("const {0}* {1}", "{0}* {1}"),
    shared="__shared__ {0} {1}[{2}];",
    barrier="__syncthreads();",
    kernel='extern "C" __global__ void __launch_bounds__({1}) {0}({2}) {{\n{3}\n'
    "int place_x = blockIdx.x, place_y = blockIdx.y, place_z = blockIdx.z;\n"
    "int lane = threadIdx.x;\n{4}\n}}",
)
_WGSL_TYPES = {dtypes.float32: "f32", dtypes.int32: "i32", dtypes.uint32: "u32"}
_WGSL = Language(
    types={**_WGSL_TYPES, dtypes.bool: "bool"},
    stored=_WGSL_TYPES,
    array=(
        "@group(0) @binding({2}) var<storage,read> {1}: array<{0}>;",
        "@group(0) @binding({2}) var<storage,read_write> {1}: array<{0}>;",
    ),
    number="@group(0) @binding({1}) var<uniform> {0}: i32;",
    variable="var {1}: {0} = {2};",
    loop="for (var {0}: i32 = {1}; {0} < {2}; {0} += {3}) {{",
    chosen="select({2}, {1}, {0})",
    cast="{0}({1})",
    shared="var<workgroup> {1}: array<{0}, {2}>;",
    barrier="workgroupBarrier();",
    numbers="var {2} = array<{0}, {1}>({3});",
    kernel="{2}\n{3}\n@compute @workgroup_size({1}) fn {0}(@builtin(workgroup_id) group: vec3<u32>, "
    "@builtin(local_invocation_id) local: vec3<u32>) {{\n"
    "let place_x = i32(group.x);\nlet place_y = i32(group.y);\nlet place_z = i32(group.z);\n"
    "let lane = i32(local.x);\n{4}\n}}",
    separator="\n",
)
_BINARY = {
    Ops.ADD: "({0} + {1})",
    Ops.SUB: "({0} - {1})",
    Ops.MUL: "({0} * {1})",
    Ops.FDIV: "({0} / {1})",
    Ops.CMPLT: "({0} < {1})",
    Ops.CMPNE: "({0} != {1})",
    Ops.CMPEQ: "({0} == {1})",
    Ops.AND: "({0} & {1})",
    Ops.OR: "({0} | {1})",
    Ops.XOR: "({0} ^ {1})",
    Ops.NEG: "(-{0})",
    Ops.RECIPROCAL: "(1.0f / {0})",
    Ops.EXP2: "exp2({0})",
    Ops.LOG2: "log2({0})",
    Ops.SQRT: "sqrt({0})",
    Ops.SIN: "sin({0})",
    Ops.TRUNC: "trunc({0})",
}
_INDEX = {Ops.ADD: "+", Ops.MUL: "*", Ops.FLOORDIV: "/", Ops.FLOORMOD: "%"}


def language_of(kind: str, *, is_opencl_c: bool) -> Language:
    """Return the language of a kind."""
    if kind == "webgpu":
        return _WGSL
    return _OPENCL if is_opencl_c else _CUDA


class Scalars:
    """The texts of values, each of one element.

    Parameters
    ----------
    language
        The language.
    arrays
        The names of the arrays, by their parameters.
    names
        The texts of values and ranges that are known.

    Attributes
    ----------
    lines
        The declarations of their parts.
    """

    def __init__(
        self, language: Language, arrays: Mapping[UOp, str], names: Mapping[UOp, str]
    ) -> None:
        self.lines: list[str] = []
        self._language = language
        self._arrays = arrays
        self._known = {**names}

    def text(self, node: UOp) -> str:
        """Return the text of a value, or of an index.

        Raises
        ------
        ValueError
            The language does not have it.
        """
        if node not in self._known:
            if node.dtype == dtypes.weakint:
                return self._index(node)
            self._known[node] = self._made(node)
        return self._known[node]

    def _index(self, node: UOp) -> str:
        if node.op is Ops.CONST and isinstance(node.val, int):
            return str(node.val)
        if node.op is Ops.PARAM and node.addrspace is AddrSpace.ALU:
            return str(identifier(node.expr))
        if node.op not in _INDEX:
            raise ValueError(f"{node.op.name} in an index")
        operands = [*map(self.text, node.src)]
        if node.op in (Ops.FLOORDIV, Ops.FLOORMOD) and int(node.src[0].vmin) < 0:
            if node.op is Ops.FLOORDIV:
                raise ValueError("a quotient of a number below 0")
            # These languages round a quotient to zero.
            return "(({0} % {1} + {1}) % {1})".format(*operands)
        return f"({f' {_INDEX[node.op]} '.join(operands)})"

    def _type(self, node: UOp) -> str:
        dtype = node.dtype
        if dtype == dtypes.weakfloat:
            dtype = dtypes.float32
        if dtype not in self._language.types:
            raise ValueError(f"the element type {dtype.name}")
        return self._language.types[dtype]

    def _made(self, node: UOp) -> str:
        if node.op is Ops.CONST:
            return self._constant(node)
        type_ = self._type(node)
        language = self._language
        if node.op is Ops.CAST and node.src[0].op is Ops.CONST:
            return self._constant(node.src[0].cast(node.dtype).simplify())
        if node.op is Ops.CAST:
            text = language.cast.format(type_, self.text(node.src[0]))
        elif node.op is Ops.INDEX:
            text = self._loaded(node)
        elif node.op is Ops.WHERE:
            text = language.chosen.format(*map(self.text, node.src))
        elif node.op is Ops.MAX:
            one, two = map(self.text, node.src)
            text = language.chosen.format(f"{one} < {two}", two, one)
        elif node.op in _BINARY:
            text = _BINARY[node.op].format(*map(self.text, node.src))
        else:
            raise ValueError(f"{node.op.name} in a value")
        name = f"e{len(self.lines)}"
        self.lines.append(language.variable.format(type_, name, text))
        return name

    def _loaded(self, node: UOp) -> str:
        """Return the text of an array's element. One outside of a border is the first element,
        which the value does not have.
        """
        buffer, index = node.src
        place = ""
        if index.op is Ops.WHERE:
            condition, index, _ = index.src
            place = self._language.chosen.format(self.text(condition), self.text(index), "0")
        elif node.src[0].op is not Ops.PARAM:
            raise ValueError("an element of another value")
        return self.element(buffer, place or self.text(index))

    def element(self, buffer: UOp, place: str) -> str:
        """Return the text of an array's element."""
        if buffer.dtype == dtypes.float16:
            return f"vload_half({place}, {self._arrays[buffer]})"
        return f"{self._arrays[buffer]}[{place}]"

    def _constant(self, node: UOp) -> str:
        value = node.val
        if isinstance(value, bool):
            return str(value).lower()
        if node.dtype in dtypes.floats or node.dtype == dtypes.weakfloat:
            text = number_text(value)
            if self._language is _WGSL and ("NAN" in text or "INFINITY" in text):
                raise ValueError("a constant that is not finite")
            return text
        if not isinstance(value, int):
            raise ValueError("a constant without a type")
        return str(value)


class Tiles:
    """A kernel that sums up products of two values.

    Parameters
    ----------
    sink
        The kernel's tree.

    Raises
    ------
    ValueError
        It is none that these kernels have.
    """

    def __init__(self, sink: UOp) -> None:
        self._store, reduction, self._flat = _structure(sink)
        product = reduction.src[0]
        # What tinygrad multiplies in float16 it sums up in float32.
        if product.op is Ops.CAST:
            product = product.src[0]
        if product.op is not Ops.MUL:
            raise ValueError("no product")
        self._reduction = reduction
        self._ranges = reduction.src[1:]
        self._lengths = [_length(each) for each in self._ranges]
        self._rows, self._columns, self._sum = self._best(*product.src)
        self._type = reduction.dtype
        if self._type not in (dtypes.float32, dtypes.int32):
            raise ValueError(f"sums of {self._type.name}")

    def _best(self, one: UOp, two: UOp) -> tuple[UOp, UOp, int]:
        """Choose the axes, and return the factors of the rows and of the columns, and the number of
        elements of a sum.
        """
        indices = []
        for each in (*one.toposort(), *two.toposort()):
            if each.dtype == dtypes.weakint:
                indices.append(each)
        choices = []
        for axes in _each_axes(self._flat.src[0], indices):
            rows, columns = (int(each.vmax) + 1 for each in (axes.row, axes.column))
            choices.append((min(rows, _LEAST * 4) * min(columns, _LEAST * 4), axes))
        for _, axes in sorted(choices, key=lambda each: -each[0]):
            for first, second in ((one, two), (two, one)):
                ranges = [self._ranges_of(each, axes) for each in (first, second)]
                if axes.column not in ranges[0] and axes.row not in ranges[1]:
                    self.axes = axes
                    return self.in_axes(first), self.in_axes(second), prod(self._lengths)
        raise ValueError("no axes")

    def _ranges_of(self, node: UOp, axes: Any) -> set[UOp]:
        """Return the ranges on which a value depends."""
        if node.dtype == dtypes.weakint:
            return {*substituted(node, self._flat, axes).ranges}
        return set[UOp]().union(*(self._ranges_of(each, axes) for each in node.src))

    def in_axes(self, node: UOp) -> UOp:
        """Return a value whose indices are those of the axes."""
        if node.dtype == dtypes.weakint:
            if node.op is Ops.FLOORMOD and node.src[1].op is not Ops.CONST:
                return self._within(node)
            if node.op is Ops.WHERE:  # the index of an element inside of a border
                condition, index, other = node.src
                return UOp(
                    Ops.WHERE,
                    node.dtype,
                    src=(self.in_axes(condition), self.in_axes(index), other),
                )
            return substituted(node, self._flat, self.axes)
        return node.replace(src=tuple(map(self.in_axes, node.src)))

    def _within(self, node: UOp) -> UOp:
        """Return a remainder by a length that a call chooses; without it, if it changes nothing."""
        total, length = (substituted(each, self._flat, self.axes) for each in node.src)
        if is_below(total, length):
            return total
        return substituted(node, self._flat, self.axes)

    @property
    def is_open(self) -> bool:
        """Whether a call chooses the number of rows, or of the outermost parts."""
        return self._flat.src[0].op is not Ops.CONST

    @property
    def is_worth(self) -> bool:
        """Whether a tile is not mostly beside the result."""
        rows, columns = (int(each.vmax) + 1 for each in (self.axes.row, self.axes.column))
        return min(rows, columns, self._sum) >= _LEAST

    def size(self, kind: str) -> Size:
        """Return the tile: the largest one of which the result has enough and that is not mostly
        beside it, or else the one that is the least beside it.
        """
        outer, rows, inner, columns = (int(each.vmax) + 1 for each in self.axes)
        sizes = sizes_of(kind)
        parts = []
        for each in sizes:
            tall, wide = -(-rows // each.rows), -(-columns // each.columns)
            parts.append(rows * columns / (tall * each.rows * wide * each.columns))
            if tall * wide * outer * inner >= _BLOCKS and parts[-1] >= _USED:
                return each
        return sizes[parts.index(max(parts))]

    def rendered(self, name: str, kind: str, language: Language, size: Size) -> dict[str, Any]:
        """Return the text and the launch, as `render` does."""
        self._language = language
        self._size = size
        outer, rows, inner, columns = (each.src[0] for each in self.axes)
        parameters = [each for each in self._store.toposort() if each.op is Ops.PARAM]
        arrays = [each for each in parameters if each.addrspace is not AddrSpace.ALU]
        arrays.sort(key=lambda each: int(each.arg.slot))
        target = self._store.src[0].src[0]
        self._arrays = {}
        declared: list[str] = []
        listed: list[list[Any]] = []
        for each in arrays:
            label = f"data{each.arg.slot}_{'_'.join(map(str, each.shape))}"
            self._arrays[each] = label
            if each.dtype not in language.stored:
                raise ValueError(f"the element type {each.dtype.name}")
            form = language.array[each is target]
            declared.append(form.format(language.stored[each.dtype], label, len(declared)))
            listed.append([label, each.arg.slot, False])
        for label in sorted({identifier(each.expr) for each in parameters if each not in arrays}):
            declared.append(language.number.format(label, len(declared)))
            listed.append([label, -1, label])

        own = language.types[self._type]
        shared = [
            language.shared.format(own, f"{name}_a", size.rows * _DEPTH),
            language.shared.format(own, f"{name}_b", size.columns * _DEPTH),
        ]
        lines = [*self._start(), *self._sums(name), *self._end()]
        joined = language.separator.join(declared)
        body = "\n".join(lines)
        text = language.kernel.format(name, size.threads, joined, "\n".join(shared), body)
        tiles = [_blocks(columns, size.columns), _blocks(rows, size.rows), outer * inner]
        if max(int(each.vmax) for each in tiles) > _MOST_BLOCKS:
            raise ValueError("a grid of too many blocks")
        return {
            "grid": [expression(each.simplify()) for each in tiles],
            "block": [size.threads, 1, 1],
            "text": text,
            "prefix": [],
            "parameters": listed,
            "optimizations": str(size),
        }

    def _let(self, name: str, text: str) -> str:
        return self._language.variable.format(self._language.types[dtypes.int32], name, text)

    def _scalars(self, names: Mapping[UOp, str]) -> Scalars:
        axes = self.axes
        known = {axes.outer: "outer_place", axes.inner: "inner_place", **names}
        return Scalars(self._language, self._arrays, known)

    def _start(self) -> Iterator[str]:
        """Yield the place of the tile, and the thread's in it."""
        size = self._size
        length = self._scalars({}).text(self.axes.inner.src[0])
        yield self._let("first_column", f"place_x * {size.columns}")
        yield self._let("first_row", f"place_y * {size.rows}")
        yield self._let("outer_place", f"place_z / {length}")
        yield self._let("inner_place", f"place_z % {length}")
        yield self._let("own_column", f"lane % {size.columns // _COLUMNS}")
        yield self._let("own_row", f"lane / {size.columns // _COLUMNS}")
        for row in range(_ROWS):
            for column in range(_COLUMNS):
                yield self._language.variable.format(
                    self._language.types[self._type], f"s{row}_{column}", self._zero
                )

    @property
    def _zero(self) -> str:
        return "0.0f" if self._type == dtypes.float32 else "0"

    def _sums(self, name: str) -> Iterator[str]:
        """Yield the loop that copies parts of the factors, and sums up their products."""
        language = self._language
        size = self._size
        type_ = language.types[self._type]
        yield language.loop.format("k", "0", self._sum, _DEPTH)
        yield from self._copy(f"{name}_a", self._rows, self.axes.row, "first_row", size.rows)
        yield from self._copy(
            f"{name}_b", self._columns, self.axes.column, "first_column", size.columns
        )
        yield language.barrier
        yield language.loop.format("depth", "0", _DEPTH, 1)
        steps = (size.rows // _ROWS, size.columns // _COLUMNS)
        for row in range(_ROWS):
            place = f"depth * {size.rows} + own_row + {row * steps[0]}"
            yield language.variable.format(type_, f"a{row}", f"{name}_a[{place}]")
        for column in range(_COLUMNS):
            place = f"depth * {size.columns} + own_column + {column * steps[1]}"
            yield language.variable.format(type_, f"b{column}", f"{name}_b[{place}]")
        for row in range(_ROWS):
            for column in range(_COLUMNS):
                own = f"s{row}_{column}"
                yield f"{own} = a{row} * b{column} + {own};"
        yield "}"
        yield language.barrier
        yield "}"

    def _copy(self, array: str, value: UOp, range_: UOp, first: str, count: int) -> Iterator[str]:
        """Yield the copy of a factor. Neighbouring threads have the elements that are side by side:
        those of the sum, or the rows or columns.
        """
        language = self._language
        sums_neighbours = False
        for each in value.toposort():
            if each.op is Ops.INDEX and each.dtype != dtypes.weakint:
                index = each.src[1].src[1] if each.src[1].op is Ops.WHERE else each.src[1]
                sums_neighbours = step_of(index, self._ranges[-1]) == 1
        yield language.loop.format("i", "lane", count * _DEPTH, self._size.threads)
        if sums_neighbours:
            depth, place = f"i % {_DEPTH}", f"i / {_DEPTH}"
        else:
            depth, place = f"i / {count}", f"i % {count}"
        yield self._let("own_depth", depth)
        yield self._let("own_place", place)
        yield self._let("element", "k + own_depth")
        yield self._let("at", f"{first} + own_place")
        yield language.variable.format(language.types[self._type], "copied", self._zero)
        names = {range_: "at"}
        rest = self._sum
        for number, (each, length) in enumerate(zip(self._ranges, self._lengths, strict=True)):
            rest //= length
            names[each] = f"k{number}"
        scalars = self._scalars(names)
        end = scalars.text(range_.src[0])
        yield f"if (element < {self._sum} && at < {end}) {{"
        rest = self._sum
        for number, length in enumerate(self._lengths):
            rest //= length
            yield self._let(f"k{number}", f"element / {rest} % {length}")
        result = scalars.text(value)
        yield from scalars.lines
        yield f"copied = {language.cast.format(language.types[self._type], result)};"
        yield "}"
        yield f"{array}[own_depth * {count} + own_place] = copied;"
        yield "}"

    def _end(self) -> Iterator[str]:
        """Yield the stores of the tile, and what precedes them."""
        language = self._language
        size = self._size
        axes = self.axes
        sums = [f"s{row}_{column}" for row in range(_ROWS) for column in range(_COLUMNS)]
        yield language.numbers.format(
            language.types[self._type], len(sums), "sums", ", ".join(sums)
        )
        yield language.loop.format("i", "0", len(sums), 1)
        yield self._let("row", f"first_row + own_row + i / {_COLUMNS} * {size.rows // _ROWS}")
        columns = f"i % {_COLUMNS} * {size.columns // _COLUMNS}"
        yield self._let("column", f"first_column + own_column + {columns}")
        names = {axes.row: "row", axes.column: "column", self._total: "sums[i]"}
        scalars = self._scalars(names)
        ends = [scalars.text(each.src[0]) for each in (axes.row, axes.column)]
        yield f"if (row < {ends[0]} && column < {ends[1]}) {{"
        text = scalars.text(self._result)
        yield from scalars.lines
        target = self._store.src[0].src[0]
        place = f"((outer_place * {ends[0]} + row) * {scalars.text(axes.inner.src[0])} + inner_place) * {ends[1]} + column"
        if target.dtype == dtypes.float16:
            yield f"vstore_half({text}, {place}, {self._arrays[target]});"
        else:
            yield f"{self._arrays[target]}[{place}] = {language.cast.format(language.stored[target.dtype], text)};"
        yield "}"
        yield "}"

    @property
    def _result(self) -> UOp:
        """The value of an element, with `_total` in the place of its sum."""
        return self.in_axes(self._store.src[1].substitute({self._reduction: self._total}))

    @property
    def _total(self) -> UOp:
        return UOp.range(1 << 20, _FLAT + 8, AxisType.WEAK).cast(self._type)


def is_below(total: UOp, length: UOp) -> bool:
    """Return whether an index is below a length that a call chooses, whatever that is."""
    last = {each: each.src[0] - 1 for each in total.ranges}
    rest = polynomial(length - total.substitute(last))
    is_growing = min(polynomial(total).values(), default=0) > 0
    return is_growing and rest.keys() == {()} and rest[()] > 0


def sizes_of(kind: str) -> Sequence[Size]:
    """Return the tiles that each device of a kind has the threads for."""
    return [each for each in SIZES if each.threads <= _MOST_THREADS.get(kind, 256)]


def _structure(sink: UOp) -> tuple[UOp, UOp, UOp]:
    """Return the store of a kernel, its only sum, and the range of the result's elements, which may
    have a length that a call chooses.
    """
    if len(sink.src) != 1 or sink.src[0].op is not Ops.END:
        raise ValueError("several results")
    store, *ranges = sink.src[0].src
    if store.op is not Ops.STORE or store.src[0].op is not Ops.INDEX or not ranges:
        raise ValueError("no store")
    target, index = store.src[0].src
    if target.op is not Ops.PARAM or len([*index.split_uop(Ops.ADD)]) != len(ranges):
        raise ValueError("another index of the result")
    if len(ranges) == 1:
        flat = ranges[0]
        if index is not flat:
            raise ValueError("another index of the result")
    else:
        flat, store = _flattened(store, index, ranges)
    nodes = store.toposort()
    for each in nodes:
        if each.op is Ops.INDEX and each is not store.src[0] and each.src[0] is target:
            raise ValueError("an array that is changed in place")
    reductions = [each for each in nodes if each.op is Ops.REDUCE]
    if len(reductions) != 1 or reductions[0].arg[0] is not Ops.ADD:
        raise ValueError("no sum")
    if any(each.src[0].op is not Ops.CONST for each in reductions[0].src[1:]):
        raise ValueError("a sum of a length that a call chooses")
    return store, reductions[0], flat


def _flattened(store: UOp, index: UOp, ranges: Sequence[UOp]) -> tuple[UOp, UOp]:
    """Return one range of all elements in the place of one for each axis, and the store by it. A
    call may choose the length of the outermost axis.
    """
    ordered = sorted(ranges, key=lambda each: step_of(index, each) or 0)
    if any(each.src[0].op is not Ops.CONST for each in ordered[:-1]):
        raise ValueError("inner axes of lengths that a call chooses")
    stride = prod(map(_length, ordered[:-1]))
    flat = UOp.range((ordered[-1].src[0] * stride).simplify(), _FLAT, AxisType.WEAK)
    places = {ordered[-1]: flat // stride}
    if step_of(index, ordered[-1]) != stride:
        raise ValueError("gaps in the result")
    stride = 1
    for each in ordered[:-1]:
        if step_of(index, each) != stride:
            raise ValueError("gaps in the result")
        places[each] = flat // stride % _length(each)
        stride *= _length(each)
    return flat, store.substitute(places)


def _each_axes(total: UOp, indices: Sequence[UOp]) -> Iterator[Any]:
    """Yield ways to split a result into axes. If a call chooses its length, the rows or the
    outermost axis have that.
    """
    if total.op is Ops.CONST:
        yield from each_axes(int(total.val), indices)
        return
    made: Callable[..., UOp] = partial(UOp.range, axis_type=AxisType.WEAK)
    factor = int(total.const_factor())
    rest = (total // factor).simplify()
    for axes in each_axes(factor, indices):
        if int(axes.outer.vmax) == 0 and int(axes.row.vmax) == 0:
            yield axes._replace(row=made(rest, _FLAT + 2))
        elif int(axes.outer.vmax) == 0:
            yield axes._replace(outer=made(rest, _FLAT + 1))


def _blocks(length: UOp, size: int) -> UOp:
    """Return the number of tiles along an axis."""
    return (length + (size - 1)) // size


def _length(range_: UOp) -> int:
    return int(range_.vmax) + 1
