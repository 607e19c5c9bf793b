"""Atomic operations: atom and red. Lanes that hit one address act one after the other, in the order
of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step, operation, put_all
from devmod_simulators.ptx.formats import reader, writer
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.memory import Access
from devmod_simulators.ptx.ops_integer import REDUCTIONS
from devmod_simulators.ptx.ops_memory import EVERY, Locate, by_window, locator, operand_of
from devmod_simulators.ptx.ptx_types import DTYPES, FLOATS, UNSIGNED, Array, DType

Update = Callable[[Any, Any], Any]


def _increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def _packed(kind: str, function: Update) -> Update:
    read = reader(kind)
    write = writer(kind)
    return lambda old, value: write(function(read(old), read(value))).view(old.dtype)


_UPDATES: dict[str, Update] = {
    **REDUCTIONS,
    "exch": lambda old, value: value,
    "inc": _increment,
    "dec": _decrement,
}
_FLOAT_UPDATES: dict[str, Update] = {
    "add": np.add,
    "min": np.fmin,
    "max": np.fmax,
}


def apply(
    view: Array, index: Array, value: Array, update: Update, wanted: bool, kind: str
) -> Array | None:
    """Update memory and return the old values where they are wanted."""
    if not wanted and isinstance(update, np.ufunc):
        update.at(view, index, value)
        return None
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    fresh = np.empty(len(ordered), bool)
    fresh[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    starts = np.flatnonzero(fresh)
    if len(starts) == len(index):
        old = view[index]
        view[index] = update(old, value)
        return old
    result = np.empty(len(index), view.dtype)
    lengths = np.diff(np.append(starts, len(index)))
    values = value[order]
    if kind == "exch":
        result[1:] = values[:-1]
        result[starts] = view[ordered[starts]]
        view[ordered[starts]] = values[starts + lengths - 1]
    elif isinstance(update, np.ufunc) and len(starts) <= lengths.max():
        # Few addresses, many lanes each: accumulate along each address.
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            place = ordered[start]
            chain = update.accumulate(
                np.concatenate([view[place : place + 1], values[start : start + length]])
            )
            result[start : start + length] = chain[:-1]
            view[place] = chain[-1]
    else:
        # Few lanes for each address: round by round.
        for number in range(int(lengths.max())):
            now = starts[lengths > number] + number
            old = view[ordered[now]]
            result[now] = old
            view[ordered[now]] = update(old, values[now])
    back = np.empty_like(result)
    back[order] = result
    return back


def compare_and_swap(view: Array, index: Array, expected: Array, value: Array) -> Array:
    """Swap where the memory has the expected value, and return the old values."""
    if len(np.unique(index)) == len(index):
        old = view[index]
        equal = old == expected
        view[index[equal]] = value[equal]
        return old
    current: dict[int, Any] = {}
    old_values = []
    for place, wanted, new in zip(index.tolist(), expected.tolist(), value.tolist(), strict=True):
        if place not in current:
            current[place] = view[place].item()
        now = current[place]
        old_values.append(now)
        if now == wanted:
            current[place] = new
    view[list(current)] = list(current.values())
    return np.array(old_values, view.dtype)


@operation("atom", "red")
def _atom(decoder: Decoder) -> Step:
    returns = decoder.root == "atom"
    position = 1 if returns else 0
    name = decoder.first(("add", "min", "max", "and", "or", "xor", "exch", "inc", "dec", "cas"))
    kind = decoder.type
    space, address, step = operand_of(decoder, position)
    dtype, update = _form(name, kind)
    destinations = decoder.vector(0) if returns else []
    returns = any(map(decoder.is_used, destinations))
    parts = decoder.vector(position + 1)
    sources = [decoder.source(part, dtype) for part in parts]
    swap = decoder.source(position + 2, dtype) if name == "cas" else None
    targets = [decoder.target(part, dtype) for part in destinations] if returns else []
    access = Access("atomic access", dtype, len(parts), step)
    locate_here = locator(space)

    def run(lanes: Lanes) -> None:
        where = lanes.spread(address(lanes))
        values = [lanes.spread(source(lanes)) for source in sources]
        others = lanes.spread(swap(lanes)) if swap is not None else None
        olds = [np.empty(lanes.count, dtype) for _ in values]

        def part(some: Lanes, there: Array, locate: Locate, positions: Any) -> None:
            view, index = locate(some, there, access)
            for number, value in enumerate(values):
                if others is not None:
                    olds[number][positions] = compare_and_swap(
                        view, index + number, value[positions], others[positions]
                    )
                    continue
                old = apply(view, index + number, value[positions], update, returns, name)
                if old is not None:
                    olds[number][positions] = old

        if locate_here is not None:
            part(lanes, where, locate_here, EVERY)
        else:
            by_window(lanes, where, part)
        put_all(lanes, targets, olds)

    return run


def _form(name: str, kind: str) -> tuple[DType, Update]:
    """Return the type of the memory's elements and the function of an atomic operation."""
    if name in ("cas", "exch"):
        return UNSIGNED[DTYPES[kind].itemsize], _UPDATES["exch"]
    if kind in ("f32", "f64"):
        return DTYPES[kind], _FLOAT_UPDATES[name]
    if kind in FLOATS:
        return UNSIGNED[DTYPES[kind].itemsize], _packed(kind, _FLOAT_UPDATES[name])
    return DTYPES[kind], _UPDATES[name]
