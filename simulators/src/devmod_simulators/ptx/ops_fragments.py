"""Loads and stores of matrices by a warp: wmma.load, wmma.store, ldmatrix, stmatrix; and the choice among all matrix instructions."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .decoder import Decoder, Source
from .ops_matrix import Run, multiply, places_in_rows, register_type, shape_of, values_in_register
from .ops_mbarrier import shared_offset
from .ops_memory import load, save, space_of
from .ptx_types import DTYPES, S64, U16, U32, U64, UNSIGNED, Array

if TYPE_CHECKING:
    from .lanes import Lanes
    from .ops_warp import Warps


def _fragment(decoder: Decoder, registers: int, kind: str) -> tuple[Array, Array]:
    m, n, k = shape_of(decoder)
    rows, columns = {"a": (m, k), "b": (k, n)}.get(decoder.parts[2], (m, n))
    return places_in_rows(rows, columns, registers * values_in_register(kind))


def _offsets(decoder: Decoder, stride: Source | None, places: tuple[Array, Array], size: int) -> Callable[["Lanes"], Array]:
    """Return the function that computes the offsets of a fragment's elements in bytes, for each lane and element."""
    rows, columns = places
    minor, major = (columns, rows) if decoder.has("row") else (rows, columns)
    extent = int(minor.max()) + 1

    def offsets(lanes: "Lanes") -> Array:
        step = lanes.spread(stride(lanes)).astype(S64)[:, None] if stride is not None else np.int64(extent)
        lane = lanes.column("laneid")
        return (major[lane] * step + minor[lane]) * size

    return offsets


def load_fragment(decoder: Decoder) -> Run:
    """Decode wmma.load: each lane loads its elements."""
    kind = decoder.type
    parts = decoder.vector(0)
    targets = [decoder.target(part, register_type(kind)) for part in parts]
    operand_space, address = decoder.address(1, U64)
    stride = decoder.source(2, U32) if len(decoder.operands) > 2 else None
    dtype = UNSIGNED[DTYPES[kind].itemsize] if kind != "tf32" else U32
    places = _fragment(decoder, len(parts), kind)
    fetch = load(space_of(decoder, operand_space), dtype, 1)
    offsets = _offsets(decoder, stride, places, dtype.itemsize)

    def run(lanes: "Lanes", warps: "Warps", members: Array) -> None:
        base = lanes.spread(address(lanes))
        where = offsets(lanes)
        values = np.stack(
            [lanes.spread(fetch(lanes, base + where[:, number].astype(base.dtype))[0]) for number in range(where.shape[1])], axis=1
        )
        bits = np.ascontiguousarray(values).view(register_type(kind))
        for number, target in enumerate(targets):
            target(lanes, np.ascontiguousarray(bits[:, number]))

    return run


def store_fragment(decoder: Decoder) -> Run:
    """Decode wmma.store: each lane stores its elements."""
    kind = decoder.type
    parts = decoder.vector(1)
    sources = [decoder.source(part, register_type(kind)) for part in parts]
    operand_space, address = decoder.address(0, U64)
    stride = decoder.source(2, U32) if len(decoder.operands) > 2 else None
    dtype = UNSIGNED[DTYPES[kind].itemsize]
    places = _fragment(decoder, len(parts), kind)
    put = save(space_of(decoder, operand_space), dtype, 1)
    offsets = _offsets(decoder, stride, places, dtype.itemsize)

    def run(lanes: "Lanes", warps: "Warps", members: Array) -> None:
        base = lanes.spread(address(lanes))
        where = offsets(lanes)
        bits = np.stack([lanes.spread(source(lanes)) for source in sources], axis=1)
        values = np.ascontiguousarray(bits).view(dtype)
        for number in range(where.shape[1]):
            put(lanes, base + where[:, number].astype(base.dtype), [np.ascontiguousarray(values[:, number])])

    return run


def _rows(decoder: Decoder, operand: int) -> tuple[Source, int]:
    _, address = decoder.address(operand, U64)
    count = {"x1": 1, "x2": 2, "x4": 4}[decoder.first(("x1", "x2", "x4"))]
    if not decoder.has("m8n8") or not decoder.has("b16"):
        raise decoder.unsupported()
    return address, count


def _row_addresses(lanes: "Lanes", warps: "Warps", address: Array, number: int) -> Array:
    """Return for each lane the address of its row of an 8 by 8 matrix: lane `8 * number + i` has that of row `i`."""
    table = np.zeros(warps.count * 32, U64)
    table[warps.slots] = lanes.spread(address).astype(U64)
    row = lanes.column("laneid").astype(S64) // 4 + 8 * number
    return table[(warps.slots & ~np.int64(31)) + row]


def load_matrix(decoder: Decoder) -> Run:
    """Decode ldmatrix: 8 by 8 matrices of 16-bit elements, whose rows have the addresses of eight lanes."""
    address, count = _rows(decoder, 1)
    targets = [decoder.target(part, U32) for part in decoder.vector(0)]
    transposed = decoder.has("trans")
    half, word = load("shared", U16, 1), load("shared", U32, 1)

    def run(lanes: "Lanes", warps: "Warps", members: Array) -> None:
        lane = lanes.column("laneid").astype(S64)
        where = shared_offset(address(lanes))
        for number in range(count):
            if not transposed:
                rows = _row_addresses(lanes, warps, where, number)
                targets[number](lanes, word(lanes, rows + (lane % 4 * 4).astype(U64))[0])
                continue
            # Lane i gets rows 2 * (i % 4) and the next one, of column i // 4.
            table = np.zeros(warps.count * 32, U64)
            table[warps.slots] = lanes.spread(where).astype(U64)
            first = (warps.slots & ~np.int64(31)) + 8 * number + lane % 4 * 2
            column = (lane // 4 * 2).astype(U64)
            low, high = (half(lanes, table[first + part] + column)[0].astype(U32) for part in (0, 1))
            targets[number](lanes, low | (high << U32.type(16)))

    return run


def store_matrix(decoder: Decoder) -> Run:
    """Decode stmatrix: the inverse of ldmatrix."""
    address, count = _rows(decoder, 0)
    sources = [decoder.source(part, U32) for part in decoder.vector(1)]
    if decoder.has("trans"):
        raise decoder.unsupported()
    put = save("shared", U32, 1)

    def run(lanes: "Lanes", warps: "Warps", members: Array) -> None:
        lane = lanes.column("laneid").astype(S64)
        where = shared_offset(address(lanes))
        for number in range(count):
            rows = _row_addresses(lanes, warps, where, number)
            put(lanes, rows + (lane % 4 * 4).astype(U64), [lanes.spread(sources[number](lanes))])

    return run


def decode_matrix(decoder: Decoder) -> Run:
    """Decode an instruction of this file."""
    root = decoder.parts[0]
    if root == "ldmatrix":
        return load_matrix(decoder)
    if root == "stmatrix":
        return store_matrix(decoder)
    if root == "wmma" and decoder.parts[1] == "load":
        return load_fragment(decoder)
    if root == "wmma" and decoder.parts[1] == "store":
        return store_fragment(decoder)
    return multiply(decoder)


MATRIX = ("mma", "wmma", "ldmatrix", "stmatrix")
