"""Arrays that are larger than a kind binds, in parts.

A kernel with a loop over the rows of such an array becomes one for each part. Another one has all
parts that it may reach, and chooses the part of each element.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tinygrad.codegen.simplify import pm_flatten_range
from tinygrad.dtype import AddrSpace
from tinygrad.engine import realize
from tinygrad.uop.ops import Ops, UOp, _substitute, graph_rewrite

from devmod_models._tinygrad.record import accesses, replaced

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from devmod_models._tinygrad.record import Recording

#: Parts have a multiple of these rows, so that loops over them can be unrolled.
_ROWS = 64


class _Parts(NamedTuple):
    """The parts of an array: the elements of a row, the rows of each part but the last one, and
    their buffers.
    """

    row: int
    rows: int
    buffers: list[UOp]


def in_parts(recording: Recording, most: int) -> Recording:
    """Return a recording whose constants, states and temporaries have at most `most` bytes each:
    larger ones are in parts. Inputs and outputs are those of the caller, and stay as they are.
    """
    known = {each.buffer for each in (*recording.inputs, *recording.outputs)}
    found: dict[UOp, _Parts] = {}

    def calls_of(call: UOp) -> list[UOp]:
        buffers = realize.get_call_arg_uops(call)
        for buffer in buffers:
            size = buffer.max_numel() * buffer.dtype.itemsize
            if size > most and buffer not in known:
                found[buffer] = _divide(recording, buffer, _rows(call, buffer), most)
            known.add(buffer)
        if found.keys().isdisjoint(buffers):
            return [call]
        return [_call(call, found, loop) for loop in _loops_over_parts(call, found)]

    return recording._replace(calls=replaced(recording.calls, calls_of))


def _loops(call: UOp) -> list[UOp]:
    """Return the loops of a fixed length around all that a kernel does."""
    result = []
    for end in call.src[0].src:
        for each in end.src[1:]:
            if each.op is Ops.RANGE and each.src[0].op is Ops.CONST:
                result.append(each)
    return result


def _row(index: UOp, row: int) -> UOp:
    """Return the number of the row of `row` elements in which an element is."""
    return (index.get_idx() // row).simplify()


def _rows(call: UOp, buffer: UOp) -> int:
    """Return the number of rows of an array without a name: the length of a loop that goes over
    equal runs of its elements. Without one, each element is a row.
    """
    size: int = buffer.max_numel()
    for own, node in accesses(call.src[0], realize.get_call_arg_uops(call)):
        for loop in _loops(call):
            length = int(loop.vmax) + 1
            if own is buffer and _row(node.src[1], size // length) is loop:
                return length
    return size


def _divide(recording: Recording, buffer: UOp, rows: int, most: int) -> _Parts:
    """Return the parts of an array, and add them to a recording. An array without a row that fits
    has no name of the model.
    """
    size = buffer.dtype.itemsize
    array = recording.held.get(buffer)
    if array is not None:
        rows = array.shape[0]
    row = buffer.max_numel() // rows
    if row * size > most:
        array = None
        rows = buffer.max_numel()
        row = 1
    length = most // (row * size)
    if length > _ROWS:
        length -= length % _ROWS

    parts = _Parts(row, length, [])
    for first in range(0, rows, length):
        count = min(length, rows - first)
        part = _part(buffer, first * row, count * row)
        if array is not None:
            name = recording.names.take(f"{array.name}_{len(parts.buffers)}")
            shape = (count, *array.shape[1:])
            recording.held[part] = array._replace(buffer=part, name=name, shape=shape)
        for buffers in (recording.states, recording.fixed):
            if buffer in buffers:
                buffers.add(part)
        recording.parts[part] = parts.buffers
        parts.buffers.append(part)
    if array is not None:
        names = [recording.held[each].name for each in parts.buffers]
        recording.names.renamed[array.original or array.name] = ", ".join(names)
    return parts


def _part(buffer: UOp, first: int, count: int) -> UOp:
    """Return a buffer for some elements of another one, with their values if it has some."""
    if not buffer.is_realized:
        return UOp.new_buffer("CPU", count, buffer.dtype)
    view = buffer.buffer.view(count, buffer.dtype, first * buffer.dtype.itemsize)
    return UOp.from_buffer(view.ensure_allocated())


def _loops_over_parts(call: UOp, found: Mapping[UOp, _Parts]) -> Iterator[dict[UOp, UOp]]:
    """Yield for each part what replaces a loop over the rows of an array; {} alone if a kernel has
    no such loop.
    """
    loops = _loops(call)
    for buffer, node in accesses(call.src[0], realize.get_call_arg_uops(call)):
        if buffer not in found:
            continue
        parts = found[buffer]
        loop = _row(node.src[1], parts.row)
        count = int(loop.vmax) + 1
        step = 1
        # tinygrad has merged loops: a row is (loop // step) % count.
        if loop.op is Ops.FLOORMOD:
            loop = loop.src[0]
        if loop.op is Ops.FLOORDIV and loop.src[1].op is Ops.CONST:
            step = loop.src[1].val
            loop = loop.src[0]
        if loop not in loops or (loop.vmax + 1) % (count * step):
            continue
        around = _part_of_loop(loop, 0, (loop.vmax + 1) // (count * step))
        within = _part_of_loop(loop, 2, step)
        for first in range(0, count, parts.rows):
            rows = _part_of_loop(loop, 1, min(parts.rows, count - first))
            yield {loop: (around * count + rows + first) * step + within}
        return
    yield {}


def _part_of_loop(loop: UOp, number: int, length: int) -> UOp:
    """Return a loop of another length."""
    if length == 1:
        return UOp.const(0)
    *numbers, kind = loop.arg
    return loop.replace(src=(UOp.const(length),), arg=(*numbers, number, kind))


def _call(call: UOp, found: Mapping[UOp, _Parts], loop: dict[UOp, UOp]) -> UOp:
    """Return a call whose kernel has parts of arrays, and a loop replaced by another one."""
    buffers = [*realize.get_call_arg_uops(call)]
    numbers = [each for each in call.src[1:] if each.is_bound_var]
    tree = graph_rewrite(call.src[0], _substitute + pm_flatten_range, loop, bottom_up=True)
    tree = tree.substitute(_changes(tree, found, buffers))
    own: dict[UOp, UOp] = {}
    for node in tree.toposort():
        if node.op is Ops.PARAM and node.addrspace is AddrSpace.GLOBAL:
            own[node] = node.replace(arg=replace(node.arg, slot=len(own)))
    used = [buffers[each.arg.slot] for each in own]
    return call.replace(src=(tree.substitute(own, walk=True), *used, *numbers))


def _changes(tree: UOp, found: Mapping[UOp, _Parts], buffers: list[UOp]) -> dict[UOp, UOp]:
    """Return what replaces loads and stores. `buffers` gets the parts."""
    elements: dict[UOp, list[tuple[UOp, UOp]]] = {}
    changes: dict[UOp, UOp] = {}
    for buffer, node in accesses(tree, [*buffers]):
        if buffer in found:
            elements[node] = _elements(node, found[buffer], buffers)
            *others, (_, changes[node]) = elements[node]
            for is_reached, element in reversed(others):
                changes[node] = is_reached.where(element, changes[node])
    for node in tree.toposort():
        if node.op is Ops.STORE and node.src[0] in elements:
            value = node.src[1]
            changes[node] = UOp.group(*[each.store(value) for _, each in elements[node.src[0]]])
    return changes


def _elements(node: UOp, parts: _Parts, buffers: list[UOp]) -> list[tuple[UOp, UOp]]:
    """Return the elements that an access may reach, one of each part, with whether it is in the
    part or in one before. `buffers` gets the parts.
    """
    parameter = node.src[0]
    index = node.src[1]
    row = _row(index, parts.row)
    result = []
    for number, buffer in enumerate(parts.buffers):
        begin = number * parts.rows
        end = begin + parts.rows
        if row.vmin >= end or row.vmax < begin:
            continue
        if buffer not in buffers:
            buffers.append(buffer)
        own = parameter.replace(
            src=buffer.src, arg=replace(parameter.arg, slot=buffers.index(buffer))
        )
        is_within = index.get_valid() & (row >= begin) & (row < end)
        place = (index.get_idx() - begin * parts.row).valid(is_within).simplify()
        result.append((row < end, own.index(place)))
    return result
