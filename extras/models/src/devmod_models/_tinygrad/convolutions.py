"""Kernels of convolutions and of products with columns side by side, written by hand.

A thread copies the elements of the second factor that its tiles need into memory of its own, with
zeros at the borders, and the parts of a step one after the other. Its many rows then read them
without conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tinygrad.uop.ops import UOp

from devmod_models._tinygrad.products import Product, Value, plain_text, step_of

#: The lanes of a vector, the columns and the rows of a thread at most, and those of a tile.
_LANES = (4, 8, 16)
_MOST_COLUMNS = 128
_MOST_ROWS = 64
_TILE_ROWS = 8
#: The vectors of a tile: with few rows, several.
_TILE_VECTORS = 8
#: The floats of a thread for elements, and for sums.
_MOST_ELEMENTS = 4096
_MOST_SUMS = 8192
#: The products of vectors of a thread at least, and the most places that one has for that.
_LEAST_WORK = 4096
_MOST_PLACES = 16
#: The most elements between the parts of a filter, and its most columns.
_MOST_STEP = 8
_MOST_WIDTH = 32


class Convolution:
    """A product whose second factor is copied first.

    Parameters
    ----------
    product
        The product.

    Raises
    ------
    ValueError
        The second factor has other columns.
    """

    def __init__(self, product: Product) -> None:
        self._product = product
        self._axes = product.axes
        column = self._axes.column
        _, index, conditions = product.second
        self._ranges = product.ranges
        self._step = step_of(index, column) or 0
        if self._step < 1 or product.second.depends(self._axes.row):
            raise ValueError("the columns are apart")
        #: The elements of the array from one of a copy to the next.
        self._unit = 1
        if self._step > _MOST_STEP:
            self._unit = self._step
            self._step = 1
        #: The range of a filter's columns, and what an index grows by along it.
        self._filter: UOp | None = None
        self._hole = 0
        for each in self._ranges:
            step, rest = divmod(step_of(index, each) or 0, self._unit)
            length = int(each.vmax) + 1
            if rest:
                continue
            if 0 < step <= _MOST_STEP and length <= _MOST_WIDTH and self._moves(each, step):
                self._filter = each
                self._hole = step
        own = {column, self._filter}
        self._own = []
        self._common = []
        for a, b, is_true in conditions:
            ranges = {*a.ranges, *b.ranges}
            if not ranges & own:
                self._common.append((a, b, is_true))
                continue
            if ranges & {*self._ranges} - own:
                raise ValueError("a border that depends on other parts of a filter")
            self._own.append((a, b, is_true))
            for side in (a, b):
                self._multiple(side, self._filter, self._hole)
        if self._filter is None and not conditions and self._step == self._unit == 1:
            raise ValueError("nothing to copy")
        self._outer_ranges = [each for each in self._ranges if each is not self._filter]

    def _moves(self, range_: UOp, step: int) -> bool:
        """Return whether a range and the columns have the same places in each condition."""
        for a, b, _ in self._product.second.conditions:
            for side in (a, b):
                try:
                    self._multiple(side, range_, step)
                except ValueError:
                    return False
        return True

    def _multiple(self, side: UOp, range_: UOp | None, step: int) -> int:
        """Return by how much a side of a condition grows from one element to the next. Raise
        ValueError if not always by the same.
        """
        by_column = step_of(side, self._axes.column)
        by_range: int | None = 0
        if range_ is not None:
            by_range = step_of(side, range_)
        if by_column is None or by_range is None or by_column % self._step:
            raise ValueError("the border is another one")
        multiple = by_column // self._step
        if by_range != multiple * step:
            raise ValueError("the border is another one")
        return multiple

    def rendered(self, name: str, tile_rows: int = 0) -> dict[str, Any]:
        """Return the text and the launch, as `render` does. `tile_rows` is the most rows of a tile.

        Raises
        ------
        ValueError
            The value has an operator that is not elementwise.
        """
        product = self._product
        outer, rows, inner, columns = self._axes.lengths
        self._name = name
        self._width = next((each for each in _LANES if each >= columns), _LANES[-1])
        self._segments = -(-columns // _MOST_COLUMNS)
        self._length = min(-(-columns // self._segments), columns)
        self._vectors = -(-self._length // self._width)
        self._rows = -(-rows // -(-rows // _MOST_ROWS))
        height = _TILE_ROWS
        if self._vectors > 1:  # two of them have less loads of the other factor
            height //= 2
        self._height = min(tile_rows or height, self._rows)
        self._group = max(min(self._vectors, _TILE_VECTORS // self._height), 1)
        self._chains = 1
        if self._filter is not None:
            most = _TILE_VECTORS // (self._height * self._group)
            self._chains = max(min(most, int(self._filter.vmax) + 1), 1)

        # The elements of one place of the other ranges, by the parts of a step.
        reach = 0
        if self._filter is not None:
            reach = int(self._filter.vmax) * self._hole
        self._count = (self._length - 1) * self._step + reach + 1
        self._part = max(self._length, self._width) + reach // self._step
        size = self._part * self._step
        lengths = [int(each.vmax) + 1 for each in self._outer_ranges]
        block = 1
        for each in lengths[1:]:
            block *= each
        self._inner_places = block
        self._block = 1
        if lengths:
            self._block = min(max(_MOST_ELEMENTS // (block * size), 1), lengths[0])
        self._size = size
        self._elements = self._block * block * size
        self._is_whole = not lengths or self._block == lengths[0]
        if self._elements > 4 * _MOST_ELEMENTS:
            raise ValueError("the elements of a thread")
        # The last tile begins earlier, and has sums of its own.
        self._slots = -(-self._rows // self._height) * self._height
        sums = self._slots * self._vectors * self._width
        if not self._is_whole and sums > _MOST_SUMS:
            raise ValueError("the sums of a thread")

        depth = (int(self._filter.vmax) + 1 if self._filter is not None else 1) * block
        for each in lengths[:1]:
            depth *= each
        work = depth * self._rows * self._vectors
        self._places = min(max(_LEAST_WORK // work, 1), _MOST_PLACES, outer * inner)

        declared = product.declared()
        lines = [*self._start(), *self._copy(), *self._tiles(), "}"]
        body = "\n".join(f"  {each}" for each in lines)
        arguments = ", ".join(text for text, *_ in declared)
        text = f"__kernel void {name}({arguments}) {{\n{body}\n}}"
        if columns < self._width:
            text = f"{self._partial()}\n{text}"
        return {
            "grid": [self._segments, -(-rows // self._rows), -(-outer * inner // self._places)],
            "block": [1, 1, 1],
            "text": text,
            "prefix": [],
            "parameters": [[label, slot, False] for _, label, slot in declared],
        }

    def _partial(self) -> str:
        """Return the function that loads the columns of a row that has less than a vector."""
        columns = self._axes.lengths[-1]
        width = self._width
        return (
            f"float{width} {self._name}_part(const __global float* x) {{ float lanes[{width}]; "
            f"for (int i = 0; i < {width}; i++) lanes[i] = i < {columns} ? x[i] : 0.0f; "
            f"return vload{width}(0, lanes); }}"
        )

    def _start(self) -> Iterator[str]:
        """Yield the place of the thread."""
        outer, rows, inner, columns = self._axes.lengths
        last = columns - self._length
        yield f"int segment = min((int)get_global_id(0) * {self._length}, {last});"
        yield f"int first = min((int)get_global_id(1) * {self._rows}, {rows - self._rows});"
        yield f"float elements[{self._elements}];"
        if not self._is_whole:
            yield f"float sums[{self._slots * self._vectors * self._width}];"
        places = outer * inner
        yield f"int places = min(((int)get_global_id(2) + 1) * {self._places}, {places});"
        ranges: set[UOp] = set()
        for a, b, _ in self._own:
            ranges |= {*a.ranges, *b.ranges}
        is_moving = not ranges.isdisjoint((self._axes.outer, self._axes.inner))
        if not is_moving:
            yield from self._borders()
        yield f"for (int place = (int)get_global_id(2) * {self._places}; place < places; place++) {{"
        yield f"int outer = place / {inner}, inner = place % {inner};"
        if is_moving:
            yield from self._borders()

    def _borders(self) -> Iterator[str]:
        """Yield the first and the last element of a row that is in the array, those between which
        all conditions are true. Others are 0.
        """
        yield f"int least = 0, end = {self._count};"
        if self._own:
            tests = self._tests("least")
            yield f"while (least < end && !({tests})) least++;"
            tests = self._tests("(end - 1)")
            yield f"while (end > least && !({tests})) end--;"
        yield f"for (int i = 0; i < {self._elements}; i++) elements[i] = 0.0f;"

    def _tests(self, place: str) -> str:
        texts = []
        for a, b, is_true in self._own:
            sides = []
            for side in (a, b):
                multiple = self._multiple(side, self._filter, self._hole)
                text = self._text(side, {})
                sides.append(f"{text} + {multiple} * {place}")
            texts.append(f"{sides[0]} {'<' if is_true else '>='} {sides[1]}")
        return " && ".join(texts)

    def _text(self, index: UOp, terms: Mapping[UOp, str]) -> str:
        """Return the text of an index at the first column of a segment."""
        axes = self._axes
        names = {axes.outer: "outer", axes.inner: "inner", axes.column: "segment", **terms}
        if self._filter is not None:
            names[self._filter] = "0"
        return plain_text(index, names)

    def _loops(self) -> Iterator[str]:
        """Yield loops of the ranges but that of a filter's columns, in a block of the first one."""
        for number, each in enumerate(self._outer_ranges):
            length = int(each.vmax) + 1
            if number or self._is_whole:
                yield f"for (int k{number} = 0; k{number} < {length}; k{number}++) {{"
            else:
                last = f"min(block + {self._block}, {length})"
                yield f"for (int k0 = block, last = {last}; k0 < last; k0++) {{"

    def _terms(self) -> dict[UOp, str]:
        return {each: f"k{number}" for number, each in enumerate(self._outer_ranges)}

    def _element(self) -> str:
        """Return the text of the first element of a place of the outer ranges."""
        text = "0"
        for number, each in enumerate(self._outer_ranges):
            term = f"k{number}"
            if not number and not self._is_whole:
                term = "(k0 - block)"
            if not number:
                text = term
            else:
                text = f"({text} * {int(each.vmax) + 1} + {term})"
        return f"{text} * {self._size}"

    def _copy(self) -> Iterator[str]:
        """Yield the copy of the elements of a block."""
        product = self._product
        if not self._is_whole:
            length = int(self._outer_ranges[0].vmax) + 1
            yield f"for (int block = 0; block < {length}; block += {self._block}) {{"
        yield from self._loops()
        terms = self._terms()
        array = product.names[product.second.buffer]
        yield f"  int from = {self._text(product.second.index, terms)};"
        yield f"  float* to = elements + {self._element()};"
        tests = []
        for a, b, is_true in self._common:
            sides = [self._text(each, terms) for each in (a, b)]
            tests.append(f"{sides[0]} {'<' if is_true else '>='} {sides[1]}")
        if tests:
            yield f"  if ({' && '.join(tests)}) {{"
        source = f"{array}[from + i]"
        if self._unit > 1:
            source = f"{array}[from + i * {self._unit}]"
        for is_zero in (False, True):
            if is_zero and not tests:
                break
            if is_zero:
                yield "  } else {"
                source = "0.0f"
            if self._step == 1:
                yield f"    for (int i = least; i < end; i++) to[i] = {source};"
                continue
            if self._step == 2 and not is_zero:
                yield from self._pairs(array)
                continue
            yield f"    for (int part = 0; part < {self._step}; part++) {{"
            yield f"      int i = least + (part + {self._step} - least % {self._step}) % {self._step};"
            target = f"to[part * {self._part} + i / {self._step}]"
            yield f"      for (; i < end; i += {self._step}) {target} = {source};"
            yield "    }"
        if tests:
            yield "  }"
        yield "}" * len(self._outer_ranges)

    def _pairs(self, array: str) -> Iterator[str]:
        """Yield the copy of a row for a step of 2: the even elements, and the odd ones."""
        yield "    int i = least;"
        yield f"    float* one = to + least % 2 * {self._part};"
        yield f"    float* two = to + (1 - least % 2) * {self._part};"
        yield "    for (; i + 16 <= end; i += 16) {"
        yield f"      float16 pairs = vload16(0, {array} + from + i);"
        yield "      vstore8(pairs.even, 0, one + i / 2);"
        yield "      vstore8(pairs.odd, 0, two + (i + 1) / 2);"
        yield "    }"
        yield f"    for (; i < end; i++) to[i % 2 * {self._part} + i / 2] = {array}[from + i];"

    def _tiles(self) -> Iterator[str]:
        """Yield the loops of tiles, and the stores of their results."""
        yield f"for (int tile = 0; tile < {self._rows}; tile += {self._height}) {{"
        yield f"  int row = first + min(tile, {self._rows - self._height});"
        yield f"  for (int vector = 0; vector < {self._vectors}; vector += {self._group}) {{"
        last = max(self._length - self._width, 0)
        for each in range(self._group):
            yield f"    int at{each} = min((vector + {each}) * {self._width}, {last});"
        yield from (f"    {each}" for each in self._sums())
        yield "  }"
        yield "}"
        if self._is_whole:
            return
        yield "}"
        yield f"for (int slot = 0; slot < {self._slots}; slot++) {{"
        tile = f"min(slot / {self._height} * {self._height}, {self._rows - self._height})"
        yield f"  int row = first + {tile} + slot % {self._height};"
        yield f"  for (int vector = 0; vector < {self._vectors}; vector++) {{"
        yield f"    int at0 = min(vector * {self._width}, {last});"
        place = f"slot * {self._vectors} + vector"
        yield f"    float{self._width} s0_0 = vload{self._width}({place}, sums);"
        yield from (f"    {each}" for each in self._stored(0, 0))
        yield "  }"
        yield "}"

    def _sums(self) -> Iterator[str]:
        """Yield the sums of a tile over a block."""
        type_ = f"float{self._width}"
        tile = []
        for place in range(self._height):
            tile += [(place, each) for each in range(self._group)]

        def sum_of(place: int, each: int) -> str:
            vector = f"min(vector + {each}, {self._vectors - 1})"
            if not each:
                vector = "vector"
            return f"(tile + {place}) * {self._vectors} + {vector}"

        for place, each in tile:
            start = "0.0f"
            if not self._is_whole:
                start = f"0.0f; if (block) s{place}_{each} = vload{self._width}({sum_of(place, each)}, sums)"
            yield f"{type_} s{place}_{each} = {start};"
        for place, each in tile:
            for chain in range(1, self._chains):
                yield f"{type_} s{place}_{each}_{chain} = 0.0f;"
        yield from self._loops()
        yield f"const float* own = elements + {self._element()};"
        if self._filter is None:
            yield from self._taps("0", 0, "")
        elif self._chains > 1:  # a sum that waits for the last one takes longer
            for number in range(int(self._filter.vmax) + 1):
                chain = number % self._chains
                yield "{"
                yield from self._taps(
                    str(number), number * self._hole, f"_{chain}" if chain else ""
                )
                yield "}"
        else:
            yield f"for (int k = 0; k < {int(self._filter.vmax) + 1}; k++) {{"
            yield from self._taps("k", None, "")
            yield "}"
        yield "}" * len(self._outer_ranges)
        for place, each in tile:
            for chain in range(1, self._chains):
                yield f"s{place}_{each} += s{place}_{each}_{chain};"
        for place, each in tile:
            if self._is_whole:
                yield from self._stored(place, each)
            else:
                yield f"vstore{self._width}(s{place}_{each}, {sum_of(place, each)}, sums);"

    def _taps(self, k: str, offset: int | None, chain: str) -> Iterator[str]:
        """Yield the products of one column of the filter. `offset` is its distance, if it is
        known.
        """
        product = self._product
        terms = self._terms()
        if self._filter is not None:
            terms[self._filter] = k
        text = (
            f"{k} * {self._hole} % {self._step} * {self._part} + {k} * {self._hole} / {self._step}"
        )
        if offset is not None:
            text = str(offset % self._step * self._part + offset // self._step)
        elif self._step == 1:
            text = f"{k} * {self._hole}"
        for each in range(self._group):
            yield f"  float{self._width} b{each} = vload{self._width}(0, own + at{each} + {text});"
        for place in range(self._height):
            index = product.text_of(product.first.index, terms, f"(row + {place})", "0")
            yield f"  float a{place} = {product.names[product.first.buffer]}[{index}];"
            for each in range(self._group):
                total = f"s{place}_{each}{chain}"
                yield f"  {total} = a{place} * b{each} + {total};"

    def _stored(self, place: int, each: int) -> Iterator[str]:
        """Yield the store of a vector of sums, and what precedes it."""
        product = self._product
        _, rows, inner, columns = self._axes.lengths
        width = self._width
        value = Value(self, f"(row + {place})", f"s{place}_{each}", width)
        result = value.vector(product.store.src[1])
        target = product.names[product.store.src[0].src[0]]
        yield "{"
        yield f"  int column = segment + at{each};"
        for line in value.lines:
            yield f"  {line}"
        index = f"((outer * {rows} + row + {place}) * {inner} + inner) * {columns} + column"
        yield f"  __global float* y = {target} + {index};"
        if columns >= width:
            yield f"  vstore{width}({result}, 0, y);"
        else:
            yield f"  float lanes[{width}];"
            yield f"  vstore{width}({result}, 0, lanes);"
            yield f"  for (int lane = 0; lane < {columns}; lane++) y[lane] = lanes[lane];"
        yield "}"

    def operand(self, node: UOp, row: str, width: int) -> tuple[str, bool]:
        """Return the text of an array's elements, as `Product.operand` does."""
        text, is_vector = self._product.operand(node, row, width)
        if is_vector and self._axes.lengths[-1] < width:
            text = text.replace(f"vload{width}(0, ", f"{self._name}_part(")
        return text, is_vector
