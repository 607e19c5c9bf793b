"""Kernels of products of matrices, written by hand, in the place of those of tinygrad's renderer.

A thread computes a tile: some rows of the first factor with neighbouring columns of the second one.
Its sums stay in registers, as vectors of OpenCL C. Either the second factor has its columns side by
side, or both have the elements that are summed up.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.uop.ops import AxisType, Ops, UOp
from tinygrad.uop.symbolic import uop_given_valid

from devmod_models._tinygrad.record import polynomial

#: The optimization of a kernel that one of these replaces, and those that a search tries: the rows.
NAME = "PRODUCT"
ROWS = (4, 6, 12)
#: The rows of a tile whose columns are side by side, of another one, and the columns of that.
_MOST_ROWS = 8
_FEW_ROWS = 4
_FEW_COLUMNS = 4
#: The lanes of a vector.
_LANES = (16, 8, 4)
#: The least sum. A shorter one takes less time than what is around it.
_LEAST = 8
#: That of a filter of several dimensions.
_LEAST_FILTER = 4
#: The numbers of the ranges that replace a kernel's.
_FLAT = 90
#: The most divisors of a kernel that may be the lengths of its axes.
_MOST_LENGTHS = 8
#: The quotients of an index, and the places for which each of them is computed, at most.
_MOST_QUOTIENTS = 16
_MOST_PLACES = 1 << 14
#: The threads of a block, and the number of tiles from which on it has several.
_THREADS = 8
_MANY_TILES = 128
_INDEX = (Ops.ADD, Ops.MUL, Ops.FLOORDIV, Ops.FLOORMOD, Ops.RANGE, Ops.CONST)
_NUMBERS = {
    Ops.ADD: operator.add,
    Ops.MUL: operator.mul,
    Ops.FLOORDIV: operator.floordiv,
    Ops.FLOORMOD: operator.mod,
}
_SYMBOLS = {Ops.ADD: "+", Ops.MUL: "*", Ops.FLOORDIV: "/", Ops.FLOORMOD: "%"}
#: What follows a product, element by element.
_ELEMENTWISE = (
    *(Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.NEG, Ops.MAX, Ops.WHERE),
    *(Ops.EXP2, Ops.LOG2, Ops.SQRT, Ops.RECIPROCAL),
)
_FUNCTIONS = {Ops.EXP2: "exp2", Ops.LOG2: "log2", Ops.SQRT: "sqrt"}
_OPERATORS = {Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.FDIV: "/"}
_COMPARISONS = {Ops.CMPLT: "<", Ops.CMPNE: "!="}
SUM = "float {name}(float16 v) {{ float8 a = v.lo + v.hi; float4 b = a.lo + a.hi; float2 c = b.lo + b.hi; return c.x + c.y; }}"


class _Axes(NamedTuple):
    """The axes of a result, from the outermost: parts, rows of a part, parts of a row, columns.

    Attributes
    ----------
    outer, row, inner, column
        The ranges. The two factors depend on `outer` and `inner` in any way, the first one not on
        `column`, and the second one not on `row`.
    """

    outer: Any
    row: Any
    inner: Any
    column: Any

    @property
    def lengths(self) -> list[int]:
        return [int(each.vmax) + 1 for each in self]


class _Factor(NamedTuple):
    """An array whose elements are multiplied.

    Attributes
    ----------
    buffer, index
        The array, and the index of the element.
    conditions
        Comparisons of which each must be true, or else the element is 0; each with the result that
        it must have.
    """

    buffer: UOp
    index: UOp
    conditions: Sequence[tuple[UOp, UOp, bool]]

    def map(self, function: Callable[[UOp], UOp]) -> _Factor:
        """Return the factor with other indices."""
        conditions = [(function(a), function(b), is_true) for a, b, is_true in self.conditions]
        index = function(self.index)
        if conditions:
            tests = []
            for a, b, is_true in conditions:
                test = UOp(Ops.CMPLT, src=(a, b))
                tests.append(test if is_true else test.logical_not())
            index = uop_given_valid(tests[0].uprod(*tests[1:]), index)
        return _Factor(self.buffer, index, conditions)

    def narrowed(self) -> _Factor:
        """Return the factor without quotients and remainders that its conditions decide."""
        index = self.index
        for _ in range(_MOST_QUOTIENTS):
            found = next(filter(None, map(self._decided, index.toposort())), None)
            if found is None:
                break
            index = index.substitute(found).simplify()
        conditions = [_as_in(index, each) for each in self.conditions]
        return _Factor(self.buffer, index, conditions)

    def _decided(self, node: UOp) -> dict[UOp, UOp] | None:
        """Return what takes the place of a quotient or a remainder whose quotient is the same
        number wherever all conditions are true; None for another node.
        """
        if node.op not in (Ops.FLOORDIV, Ops.FLOORMOD) or node.src[1].op is not Ops.CONST:
            return None
        ranges = [*node.ranges]
        if prod(int(each.vmax) + 1 for each in ranges) > _MOST_PLACES:
            return None
        numbers = np.indices([int(each.vmax) + 1 for each in ranges])
        values = dict(zip(ranges, numbers, strict=True))
        is_valid = np.ones(numbers.shape[1:], bool)
        for a, b, is_true in self.conditions:
            if {*a.ranges, *b.ranges} <= values.keys():
                is_valid &= (_evaluated(a, values) < _evaluated(b, values)) == is_true
        quotients = np.broadcast_to(
            _evaluated(node.src[0], values) // int(node.src[1].val), is_valid.shape
        )[is_valid]
        if not quotients.size or (quotients != quotients[0]).any():
            return None
        quotient = int(quotients[0])
        if node.op is Ops.FLOORDIV:
            return {node: UOp.const(quotient, node.dtype)}
        return {node: node.src[0] - quotient * int(node.src[1].val)}

    def depends(self, range_: UOp) -> bool:
        """Return whether the element depends on a range."""
        nodes = [self.index, *(each for a, b, _ in self.conditions for each in (a, b))]
        return any(range_ in each.ranges for each in nodes)


class Product:
    """A kernel that sums up products of two arrays.

    Parameters
    ----------
    store, reduction
        The store of the result, and the sum in its value.
    flat
        The range of the result's elements.
    factors
        The two arrays with their indices.
    axes
        The axes of the result.
    """

    def __init__(
        self, store: UOp, reduction: UOp, flat: UOp, factors: Sequence[_Factor], axes: _Axes
    ) -> None:
        self.store = store
        self._reduction = reduction
        #: The ranges that are summed up.
        self.ranges = reduction.src[1:]
        self.axes = axes
        self._flat = flat
        self.first, self.second = (each.map(self._in_axes).narrowed() for each in factors)
        #: The names of the arrays, by their parameters.
        self.names: dict[UOp, str] = {}

    def _in_axes(self, index: UOp) -> UOp:
        """Return an index of the result's elements as one of the axes."""
        return substituted(index, self._flat, self.axes)

    @property
    def is_possible(self) -> bool:
        """Whether the second factor depends on the axes as it must, and a tile can have columns."""
        if not is_plain(self.second.index):
            return False
        columns = self.axes.lengths[-1]
        if self.second.depends(self.axes.row) or columns < 2:
            return False
        if self.has_columns:
            return columns >= _LANES[-1]
        return self.sums_neighbours

    @property
    def has_columns(self) -> bool:
        """Whether the columns of the second factor are side by side, or equally far apart."""
        column = self.axes.column
        for a, b, _ in self.second.conditions:
            if step_of(a, column) is None or step_of(b, column) is None:
                return False
        step = step_of(self.second.index, column)
        if step is None or step < 1:
            return False
        return step == 1 or not self.sums_neighbours

    @property
    def sums_neighbours(self) -> bool:
        """Whether both factors have the elements that are summed up side by side."""
        ranges = self._reduction.src[1:]
        if len(ranges) != 1 or int(ranges[0].vmax) + 1 < _LANES[0] or self.second.conditions:
            return False
        return all(step_of(each.index, ranges[0]) == 1 for each in (self.first, self.second))

    def rendered(self, name: str, most_rows: int = 0) -> dict[str, Any]:
        """Return the text and the launch, as `render` does. `most_rows` is the most rows of a
        tile.

        Raises
        ------
        ValueError
            The value has an operator that is not elementwise.
        """
        outer, rows, inner, columns = self.axes.lengths
        if self.has_columns:
            height = min(most_rows or _MOST_ROWS, rows)
            width = next(each for each in (*_LANES, 2) if each <= columns)
        else:
            height = min(most_rows or _FEW_ROWS, rows)
            width = min(_FEW_COLUMNS, columns // 2 * 2)
        tiles = [-(-columns // width), -(-rows // height), outer * inner]
        threads = 1
        if prod(tiles) >= _MANY_TILES:
            threads = next(each for each in (_THREADS, 4, 2, 1) if tiles[0] % each == 0)

        declared = self.declared()
        lines = [*self._start(height, width), *self._sums(name, height, width)]
        for place in range(height):
            lines += self._end(place, height, width)
        body = "\n".join(f"  {each}" for each in lines)
        arguments = ", ".join(text for text, *_ in declared)
        text = f"__kernel void {name}({arguments}) {{\n{body}\n}}"
        if not self.has_columns:
            text = SUM.format(name=f"{name}_sum") + "\n" + text
        return {
            "grid": [tiles[0] // threads, *tiles[1:]],
            "block": [threads, 1, 1],
            "text": text,
            "prefix": [],
            "parameters": [[label, slot, False] for _, label, slot in declared],
        }

    def declared(self) -> list[tuple[str, str, int]]:
        """Name the arrays, and return their declarations, their names and their slots."""
        parameters = sorted(
            {each for each in self.store.toposort() if each.op is Ops.PARAM},
            key=lambda each: int(each.arg.slot),
        )
        declared = []
        for each in parameters:
            label = f"data{each.arg.slot}_{'_'.join(map(str, each.shape))}"
            self.names[each] = label
            constant = "const "
            if each is self.store.src[0].src[0]:
                constant = ""
            declared.append((f"{constant}__global float* {label}", label, int(each.arg.slot)))
        return declared

    def _start(self, height: int, width: int) -> Iterator[str]:
        """Yield the place of the tile. The last one of an axis begins earlier, so that it ends with
        the axis, and stores what no other tile has.
        """
        _, rows, inner, columns = self.axes.lengths
        yield f"int column = min((int)get_global_id(0) * {width}, {columns - width});"
        yield f"int row = min((int)get_global_id(1) * {height}, {rows - height});"
        if columns % width:
            yield f"int first_column = (int)get_global_id(0) * {width} - column;"
        if rows % height:
            yield f"int first_row = (int)get_global_id(1) * {height} - row;"
        yield f"int outer = (int)get_global_id(2) / {inner}, inner = (int)get_global_id(2) % {inner};"

    def _columns(self, terms: dict[UOp, str], width: int) -> Iterator[str]:
        """Yield the declaration of the second factor's elements at the columns of a tile."""
        _, index, conditions = self.second
        name = self.names[self.second.buffer]
        column = self.axes.column
        type_ = f"float{width}"

        def tests(place: str, chosen: Iterable[tuple[UOp, UOp, bool]]) -> str:
            texts = []
            for a, b, is_true in chosen:
                sides = [self.text_of(each, terms, "row", place) for each in (a, b)]
                texts.append(f"{sides[0]} {'<' if is_true else '>='} {sides[1]}")
            return " && ".join(texts)

        own = []
        common = []
        for each in conditions:
            if any(column in side.ranges for side in each[:2]):
                own.append(each)
            else:
                common.append(each)
        lanes = []
        for lane in range(width):
            place = f"(column + {lane})"
            text = f"{name}[{self.text_of(index, terms, 'row', place)}]"
            if own:
                text = f"({tests(place, own)}) ? {text} : 0.0f"
            lanes.append(text)
        loaded = f"({type_})({', '.join(lanes)})"
        if step_of(index, column) == 1:
            whole = f"vload{width}(0, {name} + {self.text_of(index, terms, 'row', 'column')})"
            if own:
                # A comparison that is true at both ends is true between them.
                ends = f"{tests('column', own)} && {tests(f'(column + {width - 1})', own)}"
                loaded = f"({ends}) ? {whole} : {loaded}"
            else:
                loaded = whole
        if common:
            loaded = f"({tests('column', common)}) ? ({loaded}) : ({type_})(0.0f)"
        yield f"  {type_} b = {loaded};"

    def _sums(self, name: str, height: int, width: int) -> Iterator[str]:
        """Yield the loops. The sums of row 2 are then in s2."""
        first = self.first.buffer
        second = self.second.buffer
        ranges = self._reduction.src[1:]
        lengths = [int(each.vmax) + 1 for each in ranges]
        terms = {each: f"k{number}" for number, each in enumerate(ranges)}
        if self.has_columns:
            for place in range(height):
                yield f"float{width} s{place} = 0.0f;"
            for term, length in zip(terms.values(), lengths, strict=True):
                yield f"for (int {term} = 0; {term} < {length}; {term}++) {{"
            yield from self._columns(terms, width)
            for place in range(height):
                index = self.text_of(self.first.index, terms, f"(row + {place})", "column")
                yield f"  s{place} = {self.names[first]}[{index}] * b + s{place};"
            yield "}" * len(lengths)
            return

        lanes = _LANES[0]
        tile = [(place, side) for place in range(height) for side in range(width)]
        for place, side in tile:
            yield f"float{lanes} s{place}_{side} = 0.0f;"
        whole = lengths[0] // lanes * lanes
        yield f"for (int k0 = 0; k0 < {whole}; k0 += {lanes}) {{"
        for place in range(height):
            index = self.text_of(self.first.index, terms, f"(row + {place})", "column")
            yield f"  float{lanes} a{place} = vload{lanes}(0, {self.names[first]} + {index});"
        for side in range(width):
            index = self.text_of(self.second.index, terms, "row", f"(column + {side})")
            yield f"  float{lanes} b{side} = vload{lanes}(0, {self.names[second]} + {index});"
            for place in range(height):
                yield f"  s{place}_{side} = a{place} * b{side} + s{place}_{side};"
        yield "}"
        for place in range(height):
            each = ", ".join(f"{name}_sum(s{place}_{side})" for side in range(width))
            yield f"float{width} s{place} = (float{width})({each});"
        if whole == lengths[0]:
            return
        yield f"for (int k0 = {whole}; k0 < {lengths[0]}; k0++) {{"
        sides = []
        for side in range(width):
            index = self.text_of(self.second.index, terms, "row", f"(column + {side})")
            sides.append(f"{self.names[second]}[{index}]")
        yield f"  float{width} b = (float{width})({', '.join(sides)});"
        for place in range(height):
            index = self.text_of(self.first.index, terms, f"(row + {place})", "column")
            yield f"  s{place} = {self.names[first]}[{index}] * b + s{place};"
        yield "}"

    def _end(self, place: int, height: int, width: int) -> Iterator[str]:
        """Yield the store of a row of the tile, and what precedes it."""
        _, rows, inner, columns = self.axes.lengths
        value = Value(self, f"(row + {place})", f"s{place}", width)
        result = value.vector(self.store.src[1])
        index = f"((outer * {rows} + row + {place}) * {inner} + inner) * {columns} + column"
        start = "{"
        if rows % height:
            start = f"if (first_row <= {place}) {{"
        yield start
        for each in value.lines:
            yield f"  {each}"
        yield f"  __global float* y = {self.names[self.store.src[0].src[0]]} + {index};"
        if columns % width == 0:
            yield f"  vstore{width}({result}, 0, y);"
        else:
            yield f"  float lanes[{width}];"
            yield f"  vstore{width}({result}, 0, lanes);"
            yield f"  for (int lane = first_column; lane < {width}; lane++) y[lane] = lanes[lane];"
        yield "}"

    def operand(self, node: UOp, row: str, width: int) -> tuple[str, bool]:
        """Return the text of an array's elements at the columns of a tile, and whether they are a
        vector.
        """
        if len(node.src) != 2 or not is_plain(node.src[1]):
            raise ValueError("an operand with a condition")
        index = self._in_axes(node.src[1])
        place = self.text_of(index, {}, row, "column")
        array = self.names[node.src[0]]
        if self.axes.column not in index.ranges:
            return f"{array}[{place}]", False
        if step_of(index, self.axes.column) != 1:
            raise ValueError(f"an operand whose columns are apart: {index.render()}")
        return f"vload{width}(0, {array} + {place})", True

    def text_of(self, index: UOp, terms: Mapping[UOp, str], row: str, column: str) -> str:
        """Return the text of an index."""
        outer, rows, inner, columns = self.axes
        names = {**terms, outer: "outer", rows: row, inner: "inner", columns: column}
        return plain_text(index, names)


class Value:
    """The texts of a value that follows a sum.

    Parameters
    ----------
    product
        Its product, or what else has the method `operand`.
    row, total, width
        The texts of the row and of the sum, and the lanes of the sum.

    Attributes
    ----------
    lines
        The declarations of its parts.
    """

    def __init__(self, product: Any, row: str, total: str, width: int) -> None:
        self.lines: list[str] = []
        self._product = product
        self._row = row
        self._total = total
        self._width = width
        self._known: dict[UOp, tuple[str, bool]] = {}

    def vector(self, node: UOp) -> str:
        """Return the text of a value in all lanes."""
        text, is_vector = self._text(node)
        if is_vector:
            return text
        return f"(float{self._width})({text})"

    def _text(self, node: UOp) -> tuple[str, bool]:
        """Return the text of a value, and whether it is a vector."""
        if node not in self._known:
            self._known[node] = self._made(node)
        return self._known[node]

    def _made(self, node: UOp) -> tuple[str, bool]:
        if node.op is Ops.REDUCE:
            return self._total, True
        if node.op is Ops.CONST:
            return number_text(node.val), False
        if node.op is Ops.CAST and node.src[0].op is Ops.CONST:
            return number_text(node.src[0].val), False
        if node.op is Ops.INDEX:
            text, is_vector = self._product.operand(node, self._row, self._width)
            return self._declared(text, is_vector), is_vector
        if node.op not in _ELEMENTWISE or not _is_float(node):
            raise ValueError(f"{node.op.name} follows the sum")
        if node.op in (Ops.WHERE, Ops.MAX):
            return self._chosen(node)
        operands = [self._text(each) for each in node.src]
        texts = [text for text, _ in operands]
        is_vector = any(each for _, each in operands)
        if node.op is Ops.NEG:
            return self._declared(f"-{texts[0]}", is_vector), is_vector
        if node.op is Ops.RECIPROCAL:
            return self._declared(f"1.0f / {texts[0]}", is_vector), is_vector
        if node.op in _FUNCTIONS:
            return self._declared(f"{_FUNCTIONS[node.op]}({texts[0]})", is_vector), is_vector
        text = f"{texts[0]} {_OPERATORS[node.op]} {texts[1]}"
        return self._declared(text, is_vector), is_vector

    def _chosen(self, node: UOp) -> tuple[str, bool]:
        """Return the text of one of two values by a comparison. A vector's is by lanes."""
        *conditions, first, second = node.src
        condition = node
        compared = (first, second)
        operator = "<"
        if conditions:
            condition = conditions[0]
            if condition.op not in _COMPARISONS or not all(map(_is_float, condition.src)):
                raise ValueError(f"{condition.op.name} follows the sum")
            compared = condition.src
            operator = _COMPARISONS[condition.op]
        else:  # the larger one
            first, second = second, first
        sides = [self._text(each) for each in compared]
        test = f"{sides[0][0]} {operator} {sides[1][0]}"
        values = [first, second]
        is_vector = any(is_one for _, is_one in sides)
        if is_vector or any(self._text(each)[1] for each in values):
            texts = list(map(self.vector, values))
            is_vector = True
        else:
            texts = [self._text(each)[0] for each in values]
        return self._declared(f"({test}) ? {texts[0]} : {texts[1]}", is_vector), is_vector

    def _declared(self, text: str, is_vector: bool) -> str:
        """Return the name of a part of the value."""
        name = f"v{len(self.lines)}"
        type_ = "float"
        if is_vector:
            type_ = f"float{self._width}"
        self.lines.append(f"{type_} {name} = {text};")
        return name


def _is_float(node: UOp) -> bool:
    """Return whether a value is a number of float32, or is one without a type of its own."""
    return node.dtype in (dtypes.float32, dtypes.weakfloat)


def product_of(sink: UOp) -> Product | None:
    """Return the product of a kernel's tree, or None if it is none that these kernels have."""
    found = structure_of(sink)
    if found is None:
        return None
    store, reduction, flat = found
    factors = list(filter(None, map(_factor, reduction.src[0].src)))
    if len(factors) < 2:
        return None
    choices = []
    indices = [each.index for each in factors]
    for factor in factors:
        indices += (side for a, b, _ in factor.conditions for side in (a, b))
    for axes in each_axes(int(flat.vmax) + 1, indices):
        _, rows, _, columns = axes.lengths
        choices.append((min(rows, _MOST_ROWS) * min(columns, _LANES[0]), axes))
    # The largest tile comes first. To simplify an index takes milliseconds.
    for _, axes in sorted(choices, key=lambda each: -each[0]):
        for first, second in (factors, factors[::-1]):
            index = substituted(first.index, flat, axes)
            if first.conditions or axes.column in index.ranges:
                continue
            product = Product(store, reduction, flat, (first, second), axes)
            if product.is_possible:
                return product
    return None


def _factor(node: UOp) -> _Factor | None:
    """Return a factor of a product; None for a computed one."""
    conditions: list[tuple[UOp, UOp, bool]] = []
    if node.op is Ops.WHERE:
        condition, node, other = node.src
        if other.op is not Ops.CONST or other.val != 0:
            return None
        for each in condition.split_uop(Ops.AND):
            is_true = True
            comparison = each
            if each.op is Ops.CMPNE and each.src[1].op is Ops.CONST and each.src[1].val is True:
                comparison = each.src[0]
                is_true = False
            if comparison.op is not Ops.CMPLT or not all(map(is_plain, comparison.src)):
                return None
            conditions.append((*comparison.src, is_true))
    if node.op is not Ops.INDEX or len(node.src) != 2:
        return None
    buffer, index = node.src
    if index.op is Ops.WHERE and conditions:
        valid = set(index.src[0].split_uop(Ops.AND))
        if not valid <= set(condition.split_uop(Ops.AND)):
            return None
        index = index.src[1]
    conditions = [_as_in(index, each) for each in conditions]
    index = _unwrapped(index, conditions)
    if not is_plain(index):
        return None
    return _Factor(buffer, index, conditions)


def _evaluated(index: UOp, values: Mapping[UOp, Any]) -> Any:
    """Return the numbers of an index, by those of its ranges."""
    if index in values:
        return values[index]
    if index.op is Ops.CONST:
        return int(index.val)
    a, b = (_evaluated(each, values) for each in index.src)
    return _NUMBERS[index.op](a, b)


def _as_in(index: UOp, condition: tuple[UOp, UOp, bool]) -> tuple[UOp, UOp, bool]:
    """Return a condition whose numbers grow as those of an index do.

    tinygrad has 0 < a + b in the place of 0 < 2 * a + b, which is the same for numbers from 0 on.
    """
    side, bound, is_less = condition
    own = polynomial(side)
    if is_less or bound.op is not Ops.CONST or bound.val != 1 or () in own:
        return condition
    total = index
    if index.op is Ops.FLOORMOD:
        total = index.src[0]
    terms = polynomial(total)
    steps = [terms.get(each, 0) for each in own]
    if any(len(each) != 1 or int(each[0].vmin) < 0 for each in own) or min(steps) < 1:
        return condition
    if any(each % min(steps) for each in steps):
        return condition
    parts = [each * (step // min(steps)) for (each,), step in zip(own, steps, strict=True)]
    return parts[0].usum(*parts[1:]), bound, is_less


def _unwrapped(index: UOp, conditions: Iterable[tuple[UOp, UOp, bool]]) -> UOp:
    """Return an index without its remainder, if that is the same where all conditions are true.
    tinygrad adds the length of an array to an index that may be below zero.
    """
    if index.op is not Ops.FLOORMOD or index.src[1].op is not Ops.CONST:
        return index
    total, length = index.src
    least = _end(total, conditions, is_most=False)
    most = _end(total, conditions, is_most=True)
    if least is None or most is None or not int(length.val) <= least <= most < 2 * int(length.val):
        return index
    return (total - length).simplify()


def _end(total: UOp, conditions: Iterable[tuple[UOp, UOp, bool]], *, is_most: bool) -> int | None:
    """Return a bound of a sum where all conditions are true: an upper or a lower one, or None."""
    terms = polynomial(total)
    result = 0
    for side, bound, is_less in conditions:
        if is_less is not is_most or bound.op is not Ops.CONST:
            continue
        own = polynomial(side)
        for each in own:
            result += _split_remainder(terms, each, is_most=is_most)
        factors = {terms.get(each, 0) // count for each, count in own.items()}
        factor = factors.pop()
        if factors or factor <= 0:
            continue
        result += factor * (int(bound.val) - is_most)
        for each, count in own.items():
            terms[each] -= factor * count
    for each, count in terms.items():
        if count < 0 or any(int(part.vmin) < 0 for part in each):
            return None
        ends = (int(part.vmax) if is_most else int(part.vmin) for part in each)
        result += count * prod(ends)
    return result


def _split_remainder(terms: dict[Any, int], wanted: tuple[UOp, ...], *, is_most: bool) -> int:
    """Make a remainder by a multiple of a number one by the number, and return a bound of the rest.

    x % 150 is x % 30 and a multiple of 30 up to 120.
    """
    if len(wanted) != 1 or wanted[0].op is not Ops.FLOORMOD or wanted in terms:
        return 0
    number, step = wanted[0].src
    for each in terms:
        if len(each) != 1 or each[0].op is not Ops.FLOORMOD or each[0].src[0] is not number:
            continue
        if step.op is Ops.CONST and each[0].src[1].op is Ops.CONST:
            rest = int(each[0].src[1].val) - int(step.val)
            if rest % int(step.val) == 0:
                terms[wanted] = terms.pop(each)
                return rest * terms[wanted] * is_most
    return 0


def structure_of(sink: UOp, *, has_floats: bool = True) -> tuple[UOp, UOp, UOp] | None:
    """Return the store of a kernel, its only sum, and the range of the result's elements; None for
    others. With `has_floats`, all arrays are of float32.
    """
    if len(sink.src) != 1 or sink.src[0].op is not Ops.END:
        return None
    store, *ranges = sink.src[0].src
    if store.op is not Ops.STORE or store.src[0].op is not Ops.INDEX or not ranges:
        return None
    target, index = store.src[0].src
    if target.op is not Ops.PARAM or any(each.src[0].op is not Ops.CONST for each in ranges):
        return None
    if len(list(index.split_uop(Ops.ADD))) != len(ranges):
        return None

    # One range of all elements in the place of one for each axis.
    flat = UOp.range(prod(int(each.vmax) + 1 for each in ranges), _FLAT, AxisType.WEAK)
    places = {}
    stride = 1
    for each in sorted(ranges, key=lambda each: step_of(index, each) or 0):
        if step_of(index, each) != stride:
            return None
        length = int(each.vmax) + 1
        places[each] = flat // stride % length
        stride *= length
    store = store.substitute(places)
    target = store.src[0].src[0]
    nodes = store.toposort()
    for each in nodes:
        if each.op is Ops.PARAM and each.dtype != dtypes.float32 and has_floats:
            return None
        if each.op is Ops.PARAM and each.addrspace is AddrSpace.ALU:
            return None
        if each.op is Ops.RANGE and each.src[0].op is not Ops.CONST:
            return None
        if each.op is Ops.INDEX and each is not store.src[0] and each.src[0] is target:
            return None
    reductions = [each for each in nodes if each.op is Ops.REDUCE]
    if len(reductions) != 1 or reductions[0].arg[0] is not Ops.ADD:
        return None
    if reductions[0].src[0].op is not Ops.MUL:
        return None
    if not _is_long(reductions[0].src[1:]):
        return None
    return store, reductions[0], flat


def plain_text(index: UOp, names: Mapping[UOp, str]) -> str:
    """Return the text of an index, by the names of its ranges."""
    if index.op is Ops.CONST:
        return str(index.val)
    if index in names:
        return names[index]
    operands = [plain_text(each, names) for each in index.src]
    return f"({f' {_SYMBOLS[index.op]} '.join(operands)})"


def _is_long(ranges: Sequence[UOp]) -> bool:
    """Return whether a sum is worth a kernel of its own."""
    least = _LEAST
    if len(ranges) > 1:
        least = _LEAST_FILTER
    return prod(int(each.vmax) + 1 for each in ranges) >= least


def is_plain(index: UOp) -> bool:
    """Return whether an index has sums, products, and divisions of numbers from 0 on alone."""
    for each in index.toposort():
        if each.op not in _INDEX or (each.op is Ops.CONST and not isinstance(each.val, int)):
            return False
        if each.op in (Ops.FLOORDIV, Ops.FLOORMOD) and int(each.src[0].vmin) < 0:
            return False
    return True


def each_axes(total: int, indices: Iterable[UOp]) -> Iterator[_Axes]:
    """Yield ways to split a result into axes, by the divisors in indices."""
    found = {1, total}
    for index in indices:
        for each in index.toposort():
            if each.op in (Ops.FLOORDIV, Ops.FLOORMOD) and each.src[1].op is Ops.CONST:
                found.add(int(each.src[1].val))
    lengths = sorted(each for each in found if total % each == 0)
    if len(lengths) > _MOST_LENGTHS:
        return
    made: Callable[..., UOp] = partial(UOp.range, axis_type=AxisType.WEAK)
    for outer in lengths:
        for middle in lengths:
            for columns in lengths:
                if outer % middle or middle % columns:
                    continue
                yield _Axes(
                    made(total // outer, _FLAT + 1),
                    made(outer // middle, _FLAT + 2),
                    made(middle // columns, _FLAT + 3),
                    made(columns, _FLAT + 4),
                )


def substituted(index: UOp, flat: UOp, axes: _Axes) -> UOp:
    """Return an index of the result's elements as one of axes."""
    _, rows, inner, columns = axes.lengths
    place = ((axes.outer * rows + axes.row) * inner + axes.inner) * columns + axes.column
    return index.substitute({flat: place}).simplify()


def step_of(index: UOp, range_: UOp) -> int | None:
    """Return by how much an index grows along a range; None if not always by the same."""
    step = 0
    for each in index.split_uop(Ops.ADD):
        if each is range_:
            step += 1
        elif range_ in each.ranges:
            if each.op is not Ops.MUL or each.src[1].op is not Ops.CONST:
                return None
            own = step_of(each.src[0], range_)
            if own is None:
                return None
            step += own * int(each.src[1].val)
    return step


def number_text(value: Any) -> str:
    """Return a number as a constant of float."""
    number = float(value)
    if number != number:
        return "NAN"
    if number in (float("inf"), float("-inf")):
        return f"({number!r})".replace("inf", "INFINITY")
    return f"{number!r}f"
