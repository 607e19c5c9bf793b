"""Products of matrices by a warp: mma, wmma, ldmatrix, stmatrix.

A fragment is spread over the 32 lanes of a warp. The layouts of mma and ldmatrix are those of the
PTX manual. PTX leaves the layouts of wmma open; here element number `n` of a matrix in rows is
element `n % e` of lane `n // e`, where a lane has `e` elements.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Source, put_all
from devmod_simulators.ptx.formats import reader
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ptx_types import (
    DTYPES,
    F32,
    F64,
    S32,
    S64,
    U8,
    U32,
    U64,
    Array,
    DType,
)

if TYPE_CHECKING:
    from devmod_simulators.ptx.ops_warp import Warps

Run = Callable[[Lanes, "Warps", Array], None]

_LANE = np.arange(32)
_GROUP = _LANE // 4
_IN_GROUP = _LANE % 4


def shape_of(decoder: Decoder) -> tuple[int, int, int]:
    """Return the numbers m, n and k of an instruction."""
    found = re.search(r"\.m(\d+)n(\d+)k(\d+)", decoder.opcode)
    if found is None:
        raise decoder.unsupported()
    m, n, k = map(int, found.groups())
    return m, n, k


def register_type(kind: str) -> DType:
    """Return the type of the registers of a fragment."""
    return U64 if kind == "f64" else U32


def values_in_register(kind: str) -> int:
    """Return how many elements a register has."""
    return register_type(kind).itemsize // DTYPES.get(kind, U8).itemsize


def elements(registers: list[Array], kind: str) -> Array:
    """Return the elements of registers as numbers: an axis for lanes and one for elements."""
    bits = np.stack(np.broadcast_arrays(*registers), axis=1)
    if kind in ("f16", "bf16", "e4m3", "e5m2"):
        return reader(kind)(bits.view(DTYPES.get(kind, U8)))
    if kind == "tf32":
        return (bits & U32.type(0xFFFFE000)).view(F32)
    values = bits.view(DTYPES[kind])
    if values.dtype.itemsize == 1:
        return values.astype(S32)
    return values


def packed(values: Array, kind: str) -> Array:
    """Return the registers of elements; the inverse of `elements`."""
    return values.astype(DTYPES[kind], order="C").view(register_type(kind)).T.copy()


def places_a(kind: str, count: int) -> tuple[Array, Array]:
    """Return the rows and columns of the elements of the left operand of mma, for each lane and
    element.
    """
    each = values_in_register(kind)
    number = np.arange(count * each)
    register = number // each
    part = number % each
    rows = _GROUP[:, None] + 8 * (register % 2)[None, :]
    columns = _IN_GROUP[:, None] * each + part + 4 * each * (register // 2)
    return rows, columns


def places_b(kind: str, count: int) -> tuple[Array, Array]:
    """Return the rows and columns of the elements of the right operand of mma."""
    each = values_in_register(kind)
    number = np.arange(count * each)
    rows = _IN_GROUP[:, None] * each + number % each + 4 * each * (number // each)
    return rows, np.repeat(_GROUP[:, None], len(number), axis=1)


def places_c(count: int) -> tuple[Array, Array]:
    """Return the rows and columns of the elements of the accumulator of mma: `count` for each
    lane.
    """
    number = np.arange(count)
    rows = _GROUP[:, None] + 8 * (number // 2)
    return rows, _IN_GROUP[:, None] * 2 + (number % 2)


def places_in_rows(rows: int, columns: int, count: int) -> tuple[Array, Array]:
    """Return the rows and columns of the elements of a fragment of wmma. A matrix smaller than the
    fragment comes several times.
    """
    number = (_LANE[:, None] * count + np.arange(count)) % (rows * columns)
    return number // columns, number % columns


def product(a: Array, b: Array, c: Array) -> Array:
    """Return the products plus a matrix for each warp. Floats are added in the order of the columns
    of the first one, with one rounding each: compiled code does the same.
    """
    if a.dtype.kind != "f":
        return np.matmul(a.astype(F64), b.astype(F64)).astype(S64) + c
    total = a[:, :, 0, None] * b[:, None, 0]
    for number in range(1, a.shape[2]):
        total += a[:, :, number, None] * b[:, None, number]
    return total.astype(c.dtype) + c


class Product:
    """The operands of mma.sync and wmma.mma.sync, with the places of their elements."""

    def __init__(self, decoder: Decoder) -> None:
        m, n, k = self.shape = shape_of(decoder)
        kinds = decoder.types
        if decoder.has("e4m3") or decoder.has("e5m2"):
            kinds = decoder.parts[-4:]
        if len(kinds) == 2 and decoder.root == "wmma":
            # wmma of halves names the accumulators alone.
            kinds = [kinds[0], "f16", "f16", kinds[1]]
        if len(kinds) != 4 or "sp" in decoder.parts or decoder.has("b1"):
            raise decoder.unsupported()
        self.kind, *operand_kinds = kinds
        self.parts = decoder.vector(0)
        a, b, c = self.operands = [
            Fragment(decoder, number, kind, rows, columns)
            for number, kind, rows, columns in zip(
                (1, 2, 3), operand_kinds, (m, k, m), (k, n, n), strict=True
            )
        ]
        if decoder.root == "wmma":
            for each in self.operands:
                each.places = places_in_rows(each.rows, each.columns, each.count)
        else:
            if not decoder.has("row") or not decoder.has("col") or (m == 8 and a.kind == "f16"):
                raise decoder.unsupported()
            a.places = places_a(a.kind, len(a.parts))
            if m == 8:
                _, columns = a.places
                a.places = np.repeat(_GROUP[:, None], columns.shape[1], axis=1), columns
            b.places = places_b(b.kind, len(b.parts))
            c.places = places_c(c.count)
        self.clamps = decoder.has("satfinite") and self.kind == "s32"


def multiply(decoder: Decoder) -> Run:
    """Decode mma.sync and wmma.mma.sync."""
    whole = Product(decoder)
    targets = [decoder.target(part, register_type(whole.kind)) for part in whole.parts]
    sources = [each.sources(decoder) for each in whole.operands]
    rows, columns = whole.operands[2].places

    def run(lanes: Lanes, warps: "Warps", members: Array) -> None:
        operands = zip(whole.operands, sources, strict=True)
        result = product(*(each.of_warps(lanes, warps, own) for each, own in operands))
        if whole.clamps:
            result = np.clip(result, -(2**31), 2**31 - 1)
        values = result[:, rows, columns].reshape(warps.count * 32, -1)[warps.slots]
        put_all(lanes, targets, packed(values, whole.kind))

    return run


class Fragment:
    """An operand of a product: its registers, and the places of their elements in the matrix."""

    places: tuple[Array, Array]

    def __init__(self, decoder: Decoder, operand: int, kind: str, rows: int, columns: int) -> None:
        self.kind = kind
        self.rows = rows
        self.columns = columns
        self.parts = decoder.vector(operand)
        #: The elements of a lane.
        self.count = len(self.parts) * values_in_register(kind)

    def sources(self, decoder: Decoder) -> list[Source]:
        """Return the functions that read the registers."""
        return [decoder.source(part, register_type(self.kind)) for part in self.parts]

    def of_warps(self, lanes: Lanes, warps: "Warps", sources: list[Source]) -> Array:
        """Return the matrix of each warp."""
        values = elements([source(lanes) for source in sources], self.kind)
        table = np.zeros((warps.count * 32, values.shape[1]), values.dtype)
        table[warps.slots] = values
        rows, columns = self.places
        result = np.zeros((warps.count, self.rows, self.columns), values.dtype)
        result[:, rows, columns] = table.reshape(warps.count, 32, -1)
        return result
