"""Loads and stores of matrices by a warp: wmma.load, wmma.store, ldmatrix, stmatrix; and the choice
among all matrix instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, put_all
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ops_matrix import (
    Run,
    multiply,
    places_in_rows,
    register_type,
    shape_of,
    values_in_register,
)
from devmod_simulators.ptx.ops_mbarrier import shared_offset
from devmod_simulators.ptx.ops_memory import load, save, space_of
from devmod_simulators.ptx.ptx_types import S64, U16, U32, U64, Array, DType

if TYPE_CHECKING:
    from devmod_simulators.ptx.ops_warp import Warps


def fragment_places(decoder: Decoder, count: int) -> tuple[Array, Array]:
    """Return the places of the elements of wmma.load and wmma.store, `count` for each lane: along
    a row of memory, and across.
    """
    m, n, k = shape_of(decoder)
    size = {"a": (m, k), "b": (k, n)}.get(decoder.parts[2], (m, n))
    rows, columns = places_in_rows(*size, count)
    if decoder.has("row"):
        return columns, rows
    return rows, columns


def _elements(
    decoder: Decoder, parts: list[Any], operand: int
) -> tuple[str, DType, Callable[[Lanes], list[Array]]]:
    """Return the space and the type of a fragment's elements, and the function that computes the
    addresses of each lane's ones.
    """
    minor, major = fragment_places(decoder, len(parts) * values_in_register(decoder.type))
    named, _, _ = decoder.base(operand)
    address = decoder.address(operand)
    stride = decoder.source(2, U32) if len(decoder.operands) > 2 else None
    dtype = decoder.unsigned

    def addresses(lanes: Lanes) -> list[Array]:
        step: Any = np.int64(minor.max() + 1)
        if stride is not None:
            step = lanes.spread(stride(lanes)).astype(S64)[:, None]
        base = lanes.spread(address(lanes))
        lane = lanes.column("laneid")
        offsets = ((major[lane] * step + minor[lane]) * dtype.itemsize).astype(base.dtype)
        return [base + offsets[:, number] for number in range(offsets.shape[1])]

    return space_of(decoder, named), dtype, addresses


def load_fragment(decoder: Decoder) -> Run:
    """Decode wmma.load: each lane loads its elements."""
    register = register_type(decoder.type)
    parts = decoder.vector(0)
    targets = [decoder.target(part, register) for part in parts]
    space, dtype, addresses = _elements(decoder, parts, 1)
    fetch = load(space, dtype)

    def run(lanes: Lanes, warps: "Warps", members: Array) -> None:
        values = np.stack(
            [lanes.spread(fetch(lanes, each)[0]) for each in addresses(lanes)], axis=1
        )
        put_all(lanes, targets, values.view(register).T.copy())

    return run


def store_fragment(decoder: Decoder) -> Run:
    """Decode wmma.store: each lane stores its elements."""
    parts = decoder.vector(1)
    sources = [decoder.source(part, register_type(decoder.type)) for part in parts]
    space, dtype, addresses = _elements(decoder, parts, 0)
    put = save(space, dtype)

    def run(lanes: Lanes, warps: "Warps", members: Array) -> None:
        bits = np.stack([lanes.spread(source(lanes)) for source in sources], axis=1)
        for value, each in zip(bits.view(dtype).T.copy(), addresses(lanes), strict=True):
            put(lanes, each, [value])

    return run


def _places(
    lanes: Lanes, warps: "Warps", address: Array, number: int, transposed: bool
) -> list[Array]:
    """Return for each lane the address of its word of an 8 by 8 matrix, or those of the halves of
    the word: of two rows of one column. Lane `8 * number + i` has the address of row `i`.
    """
    table = np.zeros(warps.count * 32, U64)
    table[warps.slots] = lanes.spread(address).astype(U64)
    lane = lanes.column("laneid").astype(S64)
    first = (warps.slots & ~np.int64(31)) + 8 * number
    if not transposed:
        return [table[first + lane // 4] + (lane % 4 * 4).astype(U64)]
    column = (lane // 4 * 2).astype(U64)
    return [table[first + lane % 4 * 2 + row] + column for row in range(2)]


def load_matrix(decoder: Decoder) -> Run:
    """Decode ldmatrix: 8 by 8 matrices of 16-bit elements, whose rows have the addresses of eight
    lanes.
    """
    address = decoder.address(1)
    targets = [decoder.target(part, U32) for part in decoder.vector(0)]
    transposed = decoder.has("trans")
    fetch = load("shared", U16 if transposed else U32)

    def run(lanes: Lanes, warps: "Warps", members: Array) -> None:
        where = shared_offset(address(lanes))
        for number, target in enumerate(targets):
            places = _places(lanes, warps, where, number, transposed)
            low, *high = (fetch(lanes, each)[0].astype(U32) for each in places)
            for half in high:
                low = low | half << U32.type(16)
            target(lanes, low)

    return run


def store_matrix(decoder: Decoder) -> Run:
    """Decode stmatrix: the inverse of ldmatrix."""
    address = decoder.address(0)
    sources = [decoder.source(part, U32) for part in decoder.vector(1)]
    transposed = decoder.has("trans")
    dtype = U16 if transposed else U32
    put = save("shared", dtype)

    def run(lanes: Lanes, warps: "Warps", members: Array) -> None:
        where = shared_offset(address(lanes))
        for number, source in enumerate(sources):
            value = lanes.spread(source(lanes))
            for place in _places(lanes, warps, where, number, transposed):
                put(lanes, place, [value.astype(dtype)])
                value = value >> U32.type(16)

    return run


def decode_matrix(decoder: Decoder) -> Run:
    """Decode an instruction of this file."""
    makers = {
        "ldmatrix": load_matrix,
        "stmatrix": store_matrix,
        "wmma.load": load_fragment,
        "wmma.store": store_fragment,
    }
    return makers.get(decoder.root, makers.get(".".join(decoder.parts[:2]), multiply))(decoder)


MATRIX = ("mma", "wmma", "ldmatrix", "stmatrix")
