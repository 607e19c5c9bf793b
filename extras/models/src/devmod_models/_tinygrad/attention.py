"""Kernels of attention, written by hand, in the place of four of tinygrad's: the scores, the
largest score of a row, the sum of its exponentials, and the product by the values.

A thread computes some rows alone: their scores in the array that the first kernel had for them,
then their weights in the same place, then their results. No thread waits for another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.engine import realize
from tinygrad.uop.ops import AxisType, Ops, UOp

from devmod_models._tinygrad.products import (
    SUM,
    Value,
    each_axes,
    is_plain,
    number_text,
    plain_text,
    step_of,
    structure_of,
    substituted,
)
from devmod_models._tinygrad.record import Calls, Recording, Repeat, each_call, effects, polynomial

#: The rows of a thread at most, and of a tile; the lanes of a vector.
_MOST_ROWS = 32
_TILE_ROWS = 8
_LANES = 16
#: The least and the largest head, whose keys are in a thread's memory.
_LEAST_HEAD = 4
_MOST_HEAD = 256
#: The largest factor of all keys: a larger one may make them infinite.
_MOST_SCALE = 2.0**32
#: The number of the range of a row's scores.
_SCORES = 95
#: Slots that no kernel has.
_FREE_SLOTS = 1 << 20
_LETTERS = "0123456789abcdef"
_TYPES = {
    dtypes.float32: "float",
    dtypes.weakfloat: "float",
    dtypes.int32: "int",
    dtypes.weakint: "int",
    dtypes.int64: "long",
    dtypes.uint8: "uchar",
    dtypes.int8: "char",
    dtypes.bool: "bool",
}
_OPERATORS = {
    Ops.ADD: "{} + {}",
    Ops.SUB: "{} - {}",
    Ops.MUL: "{} * {}",
    Ops.FDIV: "{} / {}",
    Ops.CMPLT: "{} < {}",
    Ops.CMPNE: "{} != {}",
    Ops.CMPEQ: "{} == {}",
    Ops.AND: "{} & {}",
    Ops.OR: "{} | {}",
    Ops.XOR: "{} ^ {}",
    Ops.WHERE: "{} ? {} : {}",
    Ops.NEG: "-{}",
    Ops.RECIPROCAL: "1.0f / {}",
    Ops.EXP2: "exp2({})",
    Ops.LOG2: "log2({})",
    Ops.SQRT: "sqrt({})",
}


class Attention:
    """Four kernels as one.

    Parameters
    ----------
    sink
        The four, in one tree.

    Raises
    ------
    ValueError
        They are no attention that this kernel has.
    """

    def __init__(self, sink: UOp) -> None:
        scores, largest, sums, result = sink.src
        found = structure_of(UOp.sink(result), has_floats=False)
        if found is None:
            raise ValueError("the result is no product")
        self._result, total, flat = found
        (self._place,) = total.src[1:]
        self._count = _length(self._place)  # the scores of a row
        self._values, self._scratch, index, self._log = self._weights(total)
        self._rows_total = self._check_softmax(largest.src[0], sums.src[0])
        self._head, rest = divmod(_length(flat), self._rows_total)
        if rest or not _LEAST_HEAD <= self._head <= _MOST_HEAD:
            raise ValueError("the size of a head")

        found = structure_of(UOp.sink(scores), has_floats=False)
        if found is None:
            raise ValueError("the scores are no product")
        store, _, own = found
        if (
            store.src[0].src[0] is not self._scratch
            or _length(own) != self._rows_total * self._count
        ):
            raise ValueError("the scores are other ones")
        self._column = UOp.range(self._count, _SCORES, AxisType.WEAK)
        for axes in self._choices(flat, index):
            self._axes = axes
            self._row = substituted(index, flat, axes)
            self._flat = flat
            place = self._row * self._count + self._column
            self._scores = store.substitute({own: place})
            self._values_index = substituted(self._values.src[1], flat, axes)
            if self._is_possible():
                break
        else:
            raise ValueError("no axes")
        #: The names of the arrays, by their parameters.
        self.names: dict[UOp, str] = {}

    # -- What the kernels are.

    def _weights(self, total: UOp) -> tuple[UOp, UOp, UOp, float]:
        """Return the node of the values, the array of the scores, the index of a row, and the
        factor of the exponents, by the sum of the result.
        """
        leaves = _leaves(total.src[0])
        exponents = [each for each in leaves if each.op is Ops.EXP2]
        inverses = [each for each in leaves if each.op is Ops.RECIPROCAL]
        others = [each for each in leaves if each.op is Ops.INDEX]
        if not len(exponents) == len(inverses) == len(others) == 1 or len(leaves) != 3:
            raise ValueError("the weights are no softmax")
        if total.dtype != dtypes.float32:
            raise ValueError("the weights are no softmax")
        score, self._largest, log = _exponent(exponents[0])
        if log <= 0:  # the exponential of what lies beside a row, -INFINITY, is 0
            raise ValueError("the exponents grow with smaller scores")
        inverse = inverses[0].src[0]
        if inverse.op is not Ops.INDEX or not is_plain(others[0].src[1]):
            raise ValueError("the weights are no softmax")
        row = self._largest.src[1]
        self._sum = inverse
        if inverse.src[1] is not row or not _is_score(score, row, self._place):
            raise ValueError("the weights are those of other rows")
        return others[0], score.src[0], row, log

    def _check_softmax(self, largest: UOp, sums: UOp) -> int:
        """Return the number of rows. Raise ValueError if the second and the third kernel are not
        those of the softmax.
        """
        value = largest.src[1]
        if value.op is not Ops.REDUCE or value.arg[0] is not Ops.MAX:
            raise ValueError("no largest score")
        self._check_row(largest, self._largest, value, value.src[0])
        value = sums.src[1]
        if value.op is not Ops.REDUCE or value.arg[0] is not Ops.ADD:
            raise ValueError("no sum of exponentials")
        score, most, log = _exponent(value.src[0])
        self._check_row(sums, self._sum, value, score)
        same = most.src[1] is sums.src[0].src[1] and log == self._log
        if most.src[0] is not self._largest.src[0] or not same:
            raise ValueError("exponentials of other rows")
        return int(self._largest.src[0].max_numel())

    def _check_row(self, store: UOp, use: UOp, value: UOp, score: UOp) -> None:
        """Raise ValueError if a kernel does not reduce each row to an element of an array."""
        target, row = store.src[0].src
        ranges = value.src[1:]
        if target is not use.src[0] or len(ranges) != 1 or score.op is not Ops.INDEX:
            raise ValueError("another array")
        if score.src[0] is not self._scratch or _length(ranges[0]) != self._count:
            raise ValueError("other scores")
        if not _is_score(score, row, ranges[0]) or not _is_dense(row, target.max_numel()):
            raise ValueError("other rows")

    def _choices(self, flat: UOp, index: UOp) -> list[Any]:
        """Return the axes of the result, those with the most rows first."""
        choices = []
        for axes in each_axes(_length(flat), [index, self._values.src[1]]):
            if axes.lengths[-1] == self._head:
                choices.append(axes)
        return sorted(choices, key=lambda each: -min(each.lengths[1], _MOST_ROWS))

    def _is_possible(self) -> bool:
        """Return whether a thread has whole rows, which share keys and values."""
        axes = self._axes
        if axes.column in self._row.ranges or not _is_dense(self._row, self._rows_total):
            return False
        index = self._values_index
        if axes.row in index.ranges or step_of(index, axes.column) != 1 or not is_plain(index):
            return False
        reductions = [each for each in self._scores.toposort() if each.op is Ops.REDUCE]
        (self._dot,) = reductions
        if len(self._dot.src) != 2 or self._dot.dtype != dtypes.float32:
            return False
        self._part = self._dot.src[1]
        if _length(self._part) > _MOST_HEAD:
            return False
        self._scale = 1.0
        queries: list[UOp] = []
        keys: list[UOp] = []
        for each in _leaves(self._dot.src[0]):
            ranges = _simplified_ranges(each)
            if each.op is Ops.CONST:
                self._scale *= float(each.val)
            elif self._column not in ranges:
                queries.append(each)
            elif axes.row not in ranges:
                keys.append(each)
            else:
                return False
        if not queries or not keys or not 1 / _MOST_SCALE < abs(self._scale) < _MOST_SCALE:
            return False
        self._queries = _product(queries)
        self._keys = _product(keys)
        return True

    # -- The text.

    def rendered(self, name: str, tile_rows: int = 0) -> dict[str, Any]:
        """Return the text and the launch, as `render` does. `tile_rows` is the most rows of a tile.

        Raises
        ------
        ValueError
            An operator or an element type is none of these kernels.
        """
        outer, rows, inner, _ = self._axes.lengths
        blocks = -(-rows // _MOST_ROWS)
        self._height = min(tile_rows or _TILE_ROWS, rows)
        result = self._result.src[0].src[0]
        written = (result, self._scratch)
        used: set[UOp] = set()
        for store in (self._result.src[1], self._scores.src[1]):
            used |= {each for each in store.toposort() if each.op is Ops.PARAM}
        used -= {self._largest.src[0], self._sum.src[0]}
        used |= {*written}
        declared = []
        for each in sorted(used, key=lambda each: int(each.arg.slot)):
            label = f"data{each.arg.slot}_{'_'.join(map(str, each.shape))}"
            self.names[each] = label
            constant = ""
            if each not in written:
                constant = "const "
            text = f"{constant}__global {type_of(each)}* {label}"
            declared.append((text, label, each.arg.slot))

        place = "(int)get_global_id(1)"
        lines = [
            f"int outer = {place} / {inner}, inner = {place} % {inner};",
            f"int first = (int)get_global_id(0) * {rows} / {blocks};",
            f"int end = ((int)get_global_id(0) + 1) * {rows} / {blocks};",
            *self._each_score(name),
            *self._exponentials(name),
            *self._products(),
        ]
        body = "\n".join(f"  {each}" for each in lines)
        arguments = ", ".join(text for text, *_ in declared)
        text = f"{_helpers(name)}__kernel void {name}({arguments}) {{\n{body}\n}}"
        return {
            "grid": [blocks, outer * inner, 1],
            "block": [1, 1, 1],
            "text": text,
            "prefix": [],
            "parameters": [[label, slot, False] for _, label, slot in declared],
        }

    def _text(self, index: UOp, **terms: str) -> str:
        """Return the text of an index. `terms` are those of its ranges, if not their names."""
        axes = self._axes
        names = {
            axes.outer: "outer",
            axes.inner: "inner",
            axes.row: terms.get("row", "row"),
            axes.column: terms.get("column", "column"),
            self._column: terms.get("column", "column"),
            self._part: terms.get("k", "k"),
            self._place: terms.get("k", "k"),
        }
        index = index.simplify()
        if not is_plain(index):
            raise ValueError(f"the index {index.render()}")
        return plain_text(index, names)

    def _score(self, row: str) -> str:
        """Return the text of the scores of a row."""
        scratch = self.names[self._scratch]
        return f"{scratch} + {self._text(self._row, row=row)} * {self._count}"

    def _each_score(self, name: str) -> Iterator[str]:
        """Yield the computation of the scores."""
        head = _length(self._part)
        is_array = self._queries.op is Ops.INDEX and is_plain(self._queries.src[1].simplify())
        if not is_array:
            yield f"float queries[{min(self._axes.lengths[1], _MOST_ROWS) * head}];"
            yield f"for (int row = first; row < end; row++) for (int k = 0; k < {head}; k++) {{"
            yield from self._assigned(
                self._queries, f"queries[(row - first) * {head} + k]", "column"
            )
            yield "}"
        has_vectors = False
        if self._keys.op is Ops.INDEX and is_plain(self._keys.src[1].simplify()):
            has_vectors = step_of(self._keys.src[1].simplify(), self._column) == 1
        if not has_vectors:
            yield f"float keys[{head * _LANES}];"
        yield from _tiles(self._count)
        if not has_vectors:
            yield from (f"  {each}" for each in self._turned_keys(name, head))
        yield from (f"  {each}" for each in self._row_tiles())
        yield f"    for (int k = 0; k < {head}; k++) {{"
        if has_vectors:
            keys = f"{self.names[self._keys.src[0]]} + {self._text(self._keys.src[1])}"
            yield f"      float{_LANES} b = vload{_LANES}(0, {keys});"
        else:
            yield f"      float{_LANES} b = vload{_LANES}(k, keys);"
        if self._scale != 1.0:  # not of the sum, which it may keep finite
            yield f"      b *= {number_text(self._scale)};"
        for place in range(self._height):
            element = f"queries[(row + {place} - first) * {head} + k]"
            if is_array:
                index = self._text(self._queries.src[1], row=f"(row + {place})")
                element = f"{self.names[self._queries.src[0]]}[{index}]"
            yield f"      s{place} = {element} * b + s{place};"
        yield "    }"
        for place in range(self._height):
            value = _Lanes(self, f"(row + {place})", f"s{place}", _LANES)
            result = value.vector(self._scores.src[1])
            yield "    {"
            yield from (f"      {each}" for each in value.lines)
            scores = self._score(f"(row + {place})")
            yield f"      vstore{_LANES}({result}, 0, {scores} + column);"
            yield "    }"
        yield "  }"
        yield "}"

    def _turned_keys(self, name: str, head: int) -> Iterator[str]:
        """Yield what makes keys columns of one array."""
        whole = 0
        if self._keys.op is Ops.INDEX and is_plain(self._keys.src[1].simplify()):
            index = self._keys.src[1]
            if step_of(index.simplify(), self._part) == 1:
                whole = head // _LANES * _LANES
        if whole:
            array = self.names[self._keys.src[0]]
            yield f"for (int k = 0; k < {whole}; k += {_LANES}) {{"
            for lane in range(_LANES):
                place = self._text(index, column=f"(column + {lane})")
                yield f"  float{_LANES} a{lane} = vload{_LANES}(0, {array} + {place});"
            letters = "abcde"
            for before, after in pairwise(letters):
                for lane in range(_LANES // 2):
                    pair = f"{before}{lane}, {before}{lane + _LANES // 2}"
                    yield f"  float{_LANES} {after}{2 * lane} = {name}_low({pair});"
                    yield f"  float{_LANES} {after}{2 * lane + 1} = {name}_high({pair});"
            for lane in range(_LANES):
                yield f"  vstore{_LANES}(e{lane}, k + {lane}, keys);"
            yield "}"
        if whole < head:
            yield (
                f"for (int k = {whole}; k < {head}; k++) for (int lane = 0; lane < {_LANES}; lane++) {{"
            )
            yield from self._assigned(self._keys, f"keys[k * {_LANES} + lane]", "(column + lane)")
            yield "}"

    def _assigned(self, node: UOp, target: str, column: str) -> Iterator[str]:
        """Yield the assignment of a computed element."""
        scalars = _Scalars(self, "row", column)
        text = scalars.text(node)
        yield from (f"  {each}" for each in scalars.lines)
        yield f"  {target} = {text};"

    def _exponentials(self, name: str) -> Iterator[str]:
        """Yield the weights: exponentials of the scores in their place, divided by the row's sum.
        Products of undivided ones with large values would be infinite.
        """
        count = self._count
        log = number_text(self._log)
        lanes = f"float{_LANES}"
        yield "for (int row = first; row < end; row++) {"
        yield f"  __global float* scores = {self._score('row')};"
        yield f"  {lanes} most = -INFINITY;"
        yield f"  {_tiles_text(count)} {{"
        yield f"    {lanes} v = vload{_LANES}(0, scores + column);"
        yield "    most = (most < v) ? v : most;"
        yield "  }"
        yield f"  float largest = {name}_largest(most);"
        yield f"  {lanes} total = 0.0f;"
        whole = count // _LANES * _LANES
        yield f"  for (int k = 0; k < {whole}; k += {_LANES}) {{"
        yield f"    {lanes} v = exp2((vload{_LANES}(0, scores + k) - largest) * {log});"
        yield "    total += v;"
        yield f"    vstore{_LANES}(v, 0, scores + k);"
        yield "  }"
        rest = count - whole
        if rest:
            yield f"  float last[{_LANES}];"
            yield f"  for (int k = 0; k < {_LANES}; k++) last[k] = -INFINITY;"
            yield f"  for (int k = 0; k < {rest}; k++) last[k] = scores[{whole} + k];"
            yield f"  {lanes} v = exp2((vload{_LANES}(0, last) - largest) * {log});"
            yield "  total += v;"
            yield f"  vstore{_LANES}(v, 0, last);"
            yield f"  for (int k = 0; k < {rest}; k++) scores[{whole} + k] = last[k];"
        yield f"  float part = 1.0f / {name}_sum(total);"
        yield f"  for (int k = 0; k < {whole}; k += {_LANES}) {{"
        yield f"    vstore{_LANES}(vload{_LANES}(0, scores + k) * part, 0, scores + k);"
        yield "  }"
        if rest:
            yield f"  for (int k = {whole}; k < {count}; k++) scores[k] *= part;"
        yield "}"

    def _products(self) -> Iterator[str]:
        """Yield the products by the values."""
        _, rows, inner, head = self._axes.lengths
        self._width = next(each for each in (_LANES, 8, 4) if each <= head)
        array = self.names[self._values.src[0]]
        yield from _tiles(head, self._width)
        yield from (f"  {each}" for each in self._row_tiles(self._width))
        for place in range(self._height):
            scores = self._score(f"(row + {place})")
            yield f"    const __global float* p{place} = {scores};"
        yield f"    for (int k = 0; k < {self._count}; k++) {{"
        index = self._text(self._values_index)
        yield f"      float{self._width} b = vload{self._width}(0, {array} + {index});"
        for place in range(self._height):
            yield f"      s{place} = p{place}[k] * b + s{place};"
        yield "    }"
        result = self.names[self._result.src[0].src[0]]
        for place in range(self._height):
            row = f"(row + {place})"
            value = _Lanes(self, row, f"s{place}", self._width)
            text = value.vector(self._result.src[1])
            yield "    {"
            yield from (f"      {each}" for each in value.lines)
            index = f"((outer * {rows} + {row}) * {inner} + inner) * {head} + column"
            yield f"      vstore{self._width}({text}, 0, {result} + {index});"
            yield "    }"
        yield "  }"
        yield "}"

    def _row_tiles(self, width: int = _LANES) -> Iterator[str]:
        """Yield the start of a loop of tiles of rows. The last one begins earlier, and so computes
        some rows again.
        """
        yield f"for (int place = first; place < end; place += {self._height}) {{"
        yield f"  int row = min(place, end - {self._height});"
        for place in range(self._height):
            yield f"  float{width} s{place} = 0.0f;"

    def operand(self, node: UOp, row: str, width: int) -> tuple[str, bool]:
        """Return the text of an array's elements at the columns of a tile, and whether they are a
        vector.
        """
        index = self.in_axes(node.src[1])
        if len(node.src) != 2 or not is_plain(index) or node.src[0].dtype != dtypes.float32:
            raise ValueError("an operand with a condition")
        array = self.names[node.src[0]]
        column = self._axes.column
        if self._column in index.ranges:
            column = self._column
        text = self._text(index, row=row)
        if column not in index.ranges:
            return f"{array}[{text}]", False
        if step_of(index, column) != 1:
            raise ValueError(f"an operand whose columns are apart: {index.render()}")
        return f"vload{width}(0, {array} + {text})", True

    def in_axes(self, index: UOp) -> UOp:
        """Return an index of the result's elements as one of the axes."""
        return substituted(index, self._flat, self._axes)

    def index_text(self, index: UOp, row: str, column: str) -> str:
        """Return the text of an index or a range."""
        return self._text(self.in_axes(index), row=row, column=column)


class _Lanes(Value):
    """The texts of a value whose vectors may be made of single elements."""

    def _made(self, node: UOp) -> tuple[str, bool]:
        lines = [*self.lines]
        known = {**self._known}
        try:
            return super()._made(node)
        except ValueError:
            self.lines[:] = lines
            self._known = known
        scalars = _Scalars(self._product, self._row, "(column + lane)")
        text = scalars.text(node)
        array = f"lanes{len(self.lines)}"
        self.lines.append(f"float {array}[{self._width}];")
        self.lines.append(f"for (int lane = 0; lane < {self._width}; lane++) {{")
        self.lines += (f"  {each}" for each in scalars.lines)
        self.lines.append(f"  {array}[lane] = {text};")
        self.lines.append("}")
        return self._declared(f"vload{self._width}(0, {array})", True), True


class _Scalars:
    """The texts of a value of one element.

    Parameters
    ----------
    attention
        The kernel.
    row, column
        The texts of the row and the column.

    Attributes
    ----------
    lines
        The declarations of its parts.
    """

    def __init__(self, attention: Any, row: str, column: str) -> None:
        self.lines: list[str] = []
        self._attention = attention
        self._row = row
        self._column = column
        self._known: dict[UOp, str] = {}

    def text(self, node: UOp) -> str:
        """Return the text of a value."""
        if node not in self._known:
            self._known[node] = self._made(node)
        return self._known[node]

    def _made(self, node: UOp) -> str:
        if node.op is Ops.CONST:
            return self._constant(node)
        if node.dtype == dtypes.weakint:
            return str(self._attention.index_text(node, self._row, self._column))
        type_ = type_of(node)
        if node.op is Ops.INDEX and len(node.src) == 2:
            text = self._loaded(node)
        elif node.op is Ops.CAST:
            text = f"({type_})({self.text(node.src[0])})"
        elif node.op is Ops.MAX:
            one, two = map(self.text, node.src)
            text = f"{one} < {two} ? {two} : {one}"
        elif node.op in _OPERATORS:
            text = _OPERATORS[node.op].format(*map(self.text, node.src))
        else:
            raise ValueError(f"{node.op.name} in a value")
        name = f"e{len(self.lines)}"
        self.lines.append(f"{type_} {name} = {text};")
        return name

    def _loaded(self, node: UOp) -> str:
        """Return the text of an array's element, which is read if its condition is true."""
        buffer, index = node.src
        array = self._attention.names[buffer]
        if index.op is not Ops.WHERE:
            return f"{array}[{self.text(index)}]"
        condition, place, _ = index.src
        return f"{self.text(condition)} ? {array}[{self.text(place)}] : 0"

    def _constant(self, node: UOp) -> str:
        if isinstance(node.val, (bool, int)):
            return str(int(node.val))
        return f"({number_text(node.val)})"


def with_attention(recording: Recording) -> Calls:
    """Return the calls of a recording with one in the place of the four of an attention."""
    kept = {each.buffer for each in (*recording.inputs, *recording.outputs)}
    kept |= recording.states | recording.held.keys()
    known = effects(each_call(recording.calls))
    users: dict[UOp, list[UOp]] = {}
    for call in known:
        for each in set(realize.get_call_arg_uops(call)):
            users.setdefault(each, []).append(call)

    def fused(calls: Calls) -> Calls:
        result = [*calls]
        for call in calls:
            if isinstance(call, Repeat):
                result[result.index(call)] = call._replace(calls=fused(call.calls))
                continue
            own = _group(call, users, known, kept)
            if not own or any(result.count(each) != 1 for each in own):
                continue
            between = result[result.index(own[0]) : result.index(call)]
            if _are_independent(own, between, known):
                joined = merged(own)
                known[joined] = set().union(*map(known.__getitem__, own))
                result[result.index(call)] = joined
                for each in own[:-1]:
                    result.remove(each)
        return result

    return fused(recording.calls)


def _group(
    call: UOp, users: Mapping[UOp, list[UOp]], known: Mapping[UOp, set[UOp]], kept: set[UOp]
) -> list[UOp]:
    """Return the four calls of an attention whose last one is given; no calls if there are none.
    Nothing else may use the arrays between them.
    """
    tree = call.src[0]
    if len(tree.src) != 1:
        return []
    buffers = realize.get_call_arg_uops(call)
    exponents = [each for each in tree.toposort() if each.op is Ops.EXP2]
    inverses = [each for each in tree.toposort() if each.op is Ops.RECIPROCAL]
    try:
        score, largest, _ = _exponent(*exponents)
        (inverse,) = inverses
    except (TypeError, ValueError):
        return []
    if inverse.src[0].op is not Ops.INDEX:
        return []
    parts = []
    for each in (score, largest, inverse.src[0]):
        if each.src[0].op is not Ops.PARAM:
            return []
        parts.append(buffers[each.src[0].arg.slot])
    calls = []
    for each in parts:
        writers = [own for own in users[each] if each in known[own]]
        if each in kept or each.is_realized or len(writers) != 1:
            return []
        calls += writers
    calls.append(call)
    for each in parts:
        if any(own not in calls for own in users[each]):
            return []
    if len(set(calls)) != len(calls):
        return []
    try:
        Attention(merged(calls).src[0]).rendered("f")
    except ValueError:
        return []
    return calls


def _are_independent(
    own: Sequence[UOp], between: Sequence[UOp | Repeat], known: Mapping[UOp, set[UOp]]
) -> bool:
    """Return whether other calls between some write none of their arrays."""
    used = set[UOp]().union(*map(realize.get_call_arg_uops, own))
    written = set[UOp]()
    for call in each_call(between):
        if call not in own:
            written |= known[call]
    return written.isdisjoint(used)


def merged(calls: Sequence[UOp]) -> UOp:
    """Return calls as one, whose tree has all of theirs."""
    buffers: dict[UOp, int] = {}
    ends = []
    numbers: dict[UOp, None] = {}
    for call in reversed(calls):
        own = realize.get_call_arg_uops(call)
        for each in own:
            buffers.setdefault(each, len(buffers))
        # A slot that is replaced may be the new one of another array: the first ones are free.
        free = {}
        final = {}
        for each in call.src[0].toposort():
            if each.op is Ops.PARAM and each.addrspace is not AddrSpace.ALU:
                slot = buffers[own[each.arg.slot]]
                free[each] = each.replace(arg=replace(each.arg, slot=slot + _FREE_SLOTS))
                final[free[each]] = each.replace(arg=replace(each.arg, slot=slot))
        ends += [each.substitute(free).substitute(final) for each in call.src[0].src]
        numbers |= dict.fromkeys(each for each in call.src[1:] if each.is_bound_var)
    last = calls[-1]
    tree = last.src[0].replace(src=tuple(reversed(ends)))
    return last.replace(src=(tree, *buffers, *numbers))


def type_of(node: UOp) -> str:
    """Return the type of a value in OpenCL C."""
    if node.dtype not in _TYPES:
        raise ValueError(f"the element type {node.dtype.name}")
    return _TYPES[node.dtype]


def _exponent(*nodes: UOp) -> tuple[UOp, UOp, float]:
    """Return the score, the largest one and the factor of exp2((score - largest) * factor)."""
    (node,) = nodes
    if node.op is not Ops.EXP2 or node.src[0].op is not Ops.MUL:
        raise ValueError("no exponential")
    difference, factor = node.src[0].src
    if difference.op is not Ops.ADD or factor.op is not Ops.CONST:
        raise ValueError("no exponential")
    score, negative = difference.src
    if score.op is not Ops.INDEX or negative.op is not Ops.MUL:
        raise ValueError("no exponential")
    largest, sign = negative.src
    if largest.op is not Ops.INDEX or sign.op is not Ops.CONST or sign.val != -1:
        raise ValueError("no exponential")
    return score, largest, float(factor.val)


def _leaves(node: UOp) -> list[UOp]:
    """Return the factors of a product."""
    if node.op is not Ops.MUL:
        return [node]
    return [leaf for each in node.src for leaf in _leaves(each)]


def _product(factors: Sequence[UOp]) -> UOp:
    result, *others = factors
    for each in others:
        result = result * each
    return result


def _simplified_ranges(node: UOp) -> set[UOp]:
    """Return the ranges on which the indices of a value depend."""
    if node.dtype == dtypes.weakint:
        return {*node.simplify().ranges}
    return set[UOp]().union(*map(_simplified_ranges, node.src))


def _length(range_: UOp) -> int:
    return int(range_.vmax) + 1


def _is_score(score: UOp, row: UOp, place: UOp) -> bool:
    """Return whether an index is that of a place in a row."""
    return polynomial(score.src[1]) == polynomial(row * _length(place) + place)


def _is_dense(index: UOp, count: int) -> bool:
    """Return whether the ranges of an index give each number below another one once."""
    stride = 1
    ranges = sorted(index.ranges, key=lambda each: step_of(index, each) or 0)
    for each in ranges:
        if step_of(index, each) != stride:
            return False
        stride *= _length(each)
    return bool(stride == count and int(index.vmax) == count - 1)


def _tiles_text(length: int, width: int = _LANES) -> str:
    """Return a loop of the columns of vectors. The last one ends with the axis."""
    return (
        f"for (int tile = 0, column = 0; tile < {-(-length // width)}; "
        f"tile++, column = min(tile * {width}, {length - width}))"
    )


def _tiles(length: int, width: int = _LANES) -> Iterator[str]:
    yield f"{_tiles_text(length, width)} {{"


def _helpers(name: str) -> str:
    """Return the functions of a kernel."""
    half = _LANES // 2
    texts = [SUM.format(name=f"{name}_sum")]
    for label, start in (("low", 0), ("high", half)):
        lanes = []
        for each in range(start, start + half):
            lanes += [f"a.s{_LETTERS[each]}", f"b.s{_LETTERS[each]}"]
        texts.append(
            f"float{_LANES} {name}_{label}(float{_LANES} a, float{_LANES} b) "
            f"{{ return (float{_LANES})({', '.join(lanes)}); }}"
        )
    texts.append(
        f"float {name}_largest(float16 v) {{ float8 a = fmax(v.lo, v.hi); float4 b = fmax(a.lo, a.hi); "
        "float2 c = fmax(b.lo, b.hi); return fmax(c.x, c.y); }"
    )
    return "\n".join([*texts, ""])
