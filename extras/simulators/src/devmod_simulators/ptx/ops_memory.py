"""Loads, stores and copies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Source, Step, operation, put_all
from devmod_simulators.ptx.lanes import NARROW, Lanes
from devmod_simulators.ptx.memory import (
    CLUSTER_SHIFT,
    FUNCTION_PARAMETERS,
    HEAP,
    WINDOW_SHIFT,
    WINDOWS,
    Access,
    place_of,
    stepped,
    store,
    window_of,
)
from devmod_simulators.ptx.ptx_types import REGISTERS, S64, U8, U64, Array, DType

# Where to change: an instruction of PTX that uses memory
#   here: or `ops_copy.py`, `ops_atomic.py` and `ops_texture.py` there
#   also: `extras/simulators/src/devmod_simulators/ptx/checked.py` (`_PLAIN`, `_MEMORY`): the
#     sanitizer checks it
#   tests: `tests/test_two_places.py`, `extras/simulators/tests/ptx/test_sanitize.py`
#: A function that returns a view of memory and the indices of elements there.
Locate = Callable[[Lanes, Array, Access], tuple[Array, Array]]


def locate_global(lanes: Lanes, address: Array, access: Access) -> tuple[Array, Array]:
    """Locate elements in global memory."""
    arena = lanes.frame.execution.arena
    if address.dtype is not U64:
        address = address.astype(U64)
    if int(address[0]) >= HEAP and arena.heap is not None:
        arena = arena.heap
    return arena.locate(lanes, address, access)


def locate_shared(lanes: Lanes, address: Array, access: Access) -> tuple[Array, Array]:
    """Locate elements in shared memory, of the lane's own block or of another one of its
    cluster.
    """
    execution = lanes.frame.execution
    shared = execution.shared
    pieces = lanes.column("shared")
    if place_of(shared, lanes, address).high >> CLUSTER_SHIFT:
        address = stepped(address, access.step)
        access = Access(access.kind, access.dtype, access.count)
        rank = (address >> address.dtype.type(CLUSTER_SHIFT)).astype(S64) - 1
        others = math.prod(execution.launch.cluster)
        # An index below 0 is no address of another block.
        is_other = (rank >= 0) & (rank < others)
        own = lanes.column("block")
        block = np.where(is_other, own // others * others + rank, own)
        pieces = block * shared.stride
        offset = address & address.dtype.type((1 << CLUSTER_SHIFT) - 1)
        address = np.where(is_other, offset, address)
    return shared.locate(lanes, address, access, pieces)


def locate_local(lanes: Lanes, address: Array, access: Access) -> tuple[Array, Array]:
    """Locate elements in local memory."""
    local = lanes.frame.execution.local
    return local.locate(lanes, address, access, lanes.lanes * local.stride)


def locate_param(lanes: Lanes, address: Array, access: Access) -> tuple[Array, Array]:
    """Locate elements of parameters: of the kernel, or of device functions, which are in local
    memory.
    """
    if int(address.max()) >= FUNCTION_PARAMETERS:
        return locate_local(lanes, address - address.dtype.type(FUNCTION_PARAMETERS), access)
    return lanes.frame.execution.parameters.locate(lanes, address, access)


LOCATE: dict[str, Locate] = {
    "global": locate_global,
    "const": locate_global,
    "shared": locate_shared,
    "local": locate_local,
    "param": locate_param,
}


def locator(space: str) -> Locate | None:
    """Return the function that locates the elements of one instruction and remembers what it finds
    for few lanes; None for generic addresses.
    """
    locate = LOCATE.get(space)
    if locate is None or space not in ("global", "shared"):
        return locate

    def find(lanes: Lanes, address: Array, access: Access) -> tuple[Array, Array]:
        known = lanes.found.get(find)
        if known is not None and known[0] is address:
            place: tuple[Array, Array] = known[1]
            return place
        execution = lanes.frame.execution
        window = execution.windows.get(find)
        found = None
        if window is not None:
            found = window(lanes, address)
        if found is None:
            found = locate(lanes, address, access)
            # The heap's bytes are another array when it has grown.
            if lanes.count > NARROW or execution.checks or int(address[0]) >= HEAP:
                return found
            memory = execution.arena if space == "global" else execution.shared
            window = window_of(memory, address.dtype, access)
            execution.windows[find] = window
        lanes.found[find] = address, found
        return found

    return find


#: The positions of all lanes.
EVERY = slice(None)
_WINDOWS = {
    WINDOWS[space] >> WINDOW_SHIFT: (LOCATE[space], WINDOWS[space])
    for space in ("shared", "local", "param")
}


def by_window(
    lanes: Lanes, address: Array, action: Callable[[Lanes, Array, Locate, Any], None]
) -> None:
    """Call `action` for the lanes of each space that generic addresses are in, with the addresses
    there and the lanes' positions.
    """
    low = int(address.min())
    high = int(address.max())
    if high < HEAP:
        action(lanes, address, locate_global, EVERY)
        return
    if low >> WINDOW_SHIFT == high >> WINDOW_SHIFT:
        locate, start = _WINDOWS.get(low >> WINDOW_SHIFT, (locate_global, 0))
        action(lanes, address - np.uint64(start), locate, EVERY)
        return
    window = address >> np.uint64(WINDOW_SHIFT)
    for value in np.unique(window):
        positions = np.flatnonzero(window == value)
        locate, start = _WINDOWS.get(int(value), (locate_global, 0))
        there = address[positions] - np.uint64(start)
        action(lanes.select(positions, []), there, locate, positions)


def space_of(decoder: Decoder, operand_space: str) -> str:
    """Return the space that an instruction names, or that of its operand in local memory; "" for
    generic addresses.
    """
    for part in decoder.parts[1:]:
        named, _, _ = part.partition("::")
        if named in WINDOWS:
            return named
    if operand_space in ("local", "param"):
        return operand_space
    return ""


def load(
    space: str, dtype: DType, count: int = 1, step: int = 0, locate_here: Locate | None = None
) -> Callable[[Lanes, Array], list[Array]]:
    """Return the function that loads vectors of `count` elements, `step` bytes behind the addresses
    that it gets.
    """
    access = Access("read", dtype, count, step)

    def fetch(lanes: Lanes, address: Array, locate: Locate) -> list[Array]:
        view, index = locate(lanes, address, access)
        if count == 1:
            return [view.take(index)]
        return [view[number:].take(index) for number in range(count)]

    if space:
        here = locate_here or LOCATE[space]
        return lambda lanes, address: fetch(lanes, address, here)

    def generic(lanes: Lanes, address: Array) -> list[Array]:
        result: list[Array] = []

        def part(some: Lanes, there: Array, locate: Locate, positions: Any) -> None:
            nonlocal result
            values = fetch(some, there, locate)
            if positions is EVERY:
                result = values
                return
            if not result:
                result = [np.zeros(lanes.count, dtype) for _ in range(count)]
            for whole, value in zip(result, values, strict=True):
                whole[positions] = value

        by_window(lanes, address, part)
        return result

    return generic


def read_bytes(lanes: Lanes, address: int, size: int) -> bytes:
    """Return the bytes at a generic address, as the first lane reads them."""
    part = lanes.select(np.zeros(size, int), [])
    return load("", U8)(part, np.uint64(address) + np.arange(size, dtype=U64))[0].tobytes()


def save(
    space: str, dtype: DType, count: int = 1, step: int = 0, locate_here: Locate | None = None
) -> Callable[[Lanes, Array, list[Array]], None]:
    """Return the function that stores vectors of `count` elements, `step` bytes behind the
    addresses that it gets.
    """
    access = Access("write", dtype, count, step)

    def put(lanes: Lanes, address: Array, values: list[Array], locate: Locate) -> None:
        lanes.frame.execution.stored = values
        view, index = locate(lanes, address, access)
        for number, value in enumerate(values):
            store(view[number:] if number else view, index, value)

    if space:
        here = locate_here or LOCATE[space]
        return lambda lanes, address, values: put(lanes, address, values, here)

    def generic(lanes: Lanes, address: Array, values: list[Array]) -> None:
        def part(some: Lanes, there: Array, locate: Locate, positions: Any) -> None:
            chosen = []
            for value in values:
                chosen.append(value if len(value) == 1 else value[positions])
            put(some, there, chosen, locate)

        by_window(lanes, address, part)

    return generic


def operand_of(decoder: Decoder, operand: int) -> tuple[str, Source, int]:
    """Return the space of an address operand, "" for generic ones, the function that computes it,
    and the constant that comes to it.
    """
    named, base, step = decoder.base(operand)
    space = space_of(decoder, named)
    if space:
        return space, base, step
    return space, lambda lanes: stepped(base(lanes).astype(U64, copy=False), step), 0


def used_parts(decoder: Decoder, parts: list[Any]) -> int:
    """Return how many parts of a vector a kernel needs, from the first one on.

    NVIDIA's compilers widen a load of three elements to four where that stays in an aligned piece
    of 16 bytes, which no GPU faults. Nothing else names the register that takes the fourth, and its
    memory may be behind the end of an array.
    """
    used = len(parts)
    while used > 1 and not decoder.is_used(parts[used - 1]):
        used -= 1
    return used


@operation("ld", "ldu")
def _ld(decoder: Decoder) -> Step:
    space, address, step = operand_of(decoder, 1)
    parts = decoder.vector(0)
    dtype = REGISTERS[decoder.type]
    parts = parts[: used_parts(decoder, parts)]
    targets = [decoder.target(part, dtype) for part in parts]
    if space == "param" and len(parts) == 1:
        place = decoder.parameter(1)
        if place is not None and place % dtype.itemsize == 0:
            number = place // dtype.itemsize
            (target,) = targets
            return lambda lanes: target(
                lanes, lanes.frame.execution.parameters.view(dtype)[number : number + 1]
            )
    fetch = load(space, dtype, len(parts), step, locator(space))
    if len(parts) == 1:
        (out,) = targets
        return lambda lanes: out(lanes, fetch(lanes, address(lanes))[0])
    return lambda lanes: put_all(lanes, targets, fetch(lanes, address(lanes)))


@operation("st")
def _st(decoder: Decoder) -> Step:
    space, address, step = operand_of(decoder, 0)
    parts = decoder.vector(1)
    dtype = decoder.unsigned
    sources = [decoder.source(part, dtype) for part in parts]
    put = save(space, dtype, len(parts), step, locator(space))
    return lambda lanes: put(lanes, address(lanes), [source(lanes) for source in sources])
