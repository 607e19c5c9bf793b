"""Bits of integers: counts, fields, permutations, dot products of bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step, operation
from devmod_simulators.ptx.ops_integer import compute
from devmod_simulators.ptx.ptx_types import S32, S64, U8, U32, U64, Array


def _lanes_of(array: Array, signed: bool, kind: str) -> Array:
    dtype = f"i{kind}" if signed else f"u{kind}"
    return array.view(dtype).reshape(len(array), -1).astype(S64)


@operation("dp4a", "dp2a")
def _dot(decoder: Decoder) -> Step:
    signed_a, signed_b = (kind.startswith("s") for kind in decoder.types[:2])
    four = decoder.root == "dp4a"
    half = slice(2, 4) if decoder.has("hi") else slice(0, 2)

    def run(a: Array, b: Array, c: Array) -> Array:
        x = _lanes_of(a, signed_a, "1" if four else "2")
        y = _lanes_of(b, signed_b, "1")
        if not four:
            y = y[:, half]
        return (np.sum(x * y, axis=1) + c).astype(U32)

    return compute(decoder, [U32, U32, U32], run)


def population(a: Array) -> Array:
    """Return the number of bits that are set."""
    if hasattr(np, "bitwise_count"):  # NumPy 2
        return np.bitwise_count(a).astype(U32)
    return np.unpackbits(np.ascontiguousarray(a).view(U8).reshape(len(a), -1), axis=1).sum(
        axis=1, dtype=U32
    )


def smear(a: Array) -> Array:
    """Return `a` with every bit below its highest one set."""
    width = 8 * a.dtype.itemsize
    shift = 1
    while shift < width:
        a = a | (a >> a.dtype.type(shift))
        shift *= 2
    return a


def leading_zeros(a: Array) -> Array:
    """Return the number of leading zeros."""
    return U32.type(8 * a.dtype.itemsize) - population(smear(a))


@operation("bfind")
def _bfind(decoder: Decoder) -> Step:
    dtype = decoder.dtype
    unsigned = decoder.unsigned
    top = U32.type(8 * dtype.itemsize - 1)
    shift = decoder.has("shiftamt")

    def run(a: Array) -> Array:
        if dtype.kind == "i":
            a = np.where(a < 0, ~a, a)
        a = a.view(unsigned)
        zeros = leading_zeros(a)
        return np.where(a == 0, U32.type(0xFFFFFFFF), zeros if shift else top - zeros)

    return compute(decoder, [dtype], run, U32)


_REVERSED = np.array([int(f"{value:08b}"[::-1], 2) for value in range(256)], U8)


def reverse_bits(a: Array) -> Array:
    """Return the bits in reverse order."""
    size = a.dtype.itemsize
    table = _REVERSED[np.ascontiguousarray(a).view(U8).reshape(-1, size)]
    return np.ascontiguousarray(table[:, ::-1]).view(a.dtype).reshape(-1)


operation("popc")(lambda decoder: compute(decoder, [decoder.unsigned], population, U32))
operation("clz")(lambda decoder: compute(decoder, [decoder.unsigned], leading_zeros, U32))
operation("brev")(lambda decoder: compute(decoder, [decoder.unsigned], reverse_bits))


@operation("bfe")
def _bfe(decoder: Decoder) -> Step:
    dtype = decoder.dtype
    width = 8 * dtype.itemsize
    unsigned = decoder.unsigned
    byte = np.uint32(255)

    def run(a: Array, position: Array, length: Array) -> Array:
        start = (position & byte).astype(unsigned)
        count = (length & byte).astype(unsigned)
        end = np.minimum(start + count, unsigned.type(width))
        count = np.where(end > start, end - start, unsigned.type(0))
        top = unsigned.type(width - 1)
        left = (a.view(unsigned) << (unsigned.type(width) - end)).view(dtype)
        inside = left >> (unsigned.type(width) - np.maximum(count, unsigned.type(1))).astype(dtype)
        beyond = dtype.type(0)
        if dtype.kind == "i":
            beyond = a >> top.astype(dtype)
        return np.where((length & byte) == 0, dtype.type(0), np.where(start > top, beyond, inside))

    return compute(decoder, [dtype, U32, U32], run)


@operation("bfi")
def _bfi(decoder: Decoder) -> Step:
    dtype = decoder.unsigned
    byte = np.uint32(255)

    def run(a: Array, b: Array, c: Array, d: Array) -> Array:
        start = (c & byte).astype(dtype)
        count = (d & byte).astype(dtype)
        mask = ~(~np.zeros(1, dtype) << count) << start
        return (b & ~mask) | ((a << start) & mask)

    return compute(decoder, [dtype, dtype, U32, U32], run)


@operation("bmsk")
def _bmsk(decoder: Decoder) -> Step:
    wrap = decoder.has("wrap")

    def run(start: Array, count: Array) -> Array:
        if wrap:
            start = start & U32.type(31)
            count = count & U32.type(31)
        return ~(~np.zeros(1, U32) << count) << start

    return compute(decoder, [U32, U32], run)


@operation("szext")
def _szext(decoder: Decoder) -> Step:
    dtype = decoder.dtype
    wrap = decoder.has("wrap")

    def run(a: Array, count: Array) -> Array:
        if wrap:
            count = count & U32.type(31)
        else:
            count = np.minimum(count, U32.type(32))
        shift = (U32.type(32) - count).astype(dtype)
        return np.where(count == 0, dtype.type(0), (a << shift) >> shift)

    return compute(decoder, [dtype, U32], run)


#: The byte that a mode of prmt takes, by the selector's lowest bits and the byte of the result.
_PERMUTATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "f4e": lambda selector, place: selector + place,
    "b4e": lambda selector, place: selector - place,
    "rc8": lambda selector, place: selector,
    "ecl": np.maximum,
    "ecr": np.minimum,
    "rc16": lambda selector, place: selector % 2 * 2 + place % 2,
}


@operation("prmt")
def _prmt(decoder: Decoder) -> Step:
    permutation = _PERMUTATIONS.get(decoder.first(_PERMUTATIONS))

    def run(a: Array, b: Array, selector: Array) -> Array:
        both = (b.astype(U64) << np.uint64(32)) | a
        result = np.zeros(1, U32)
        for place in np.arange(4, dtype=U32):
            if permutation is not None:
                nibble = permutation(selector & U32.type(3), place)
            else:
                nibble = (selector >> U32.type(4) * place) & U32.type(15)
            byte = (both >> ((nibble & U32.type(7)) * U32.type(8)).astype(U64)).astype(U8)
            if permutation is None:
                sign = np.where(byte > 127, np.uint8(255), np.uint8(0))
                byte = np.where((nibble & U32.type(8)) != 0, sign, byte)
            result = result | (byte.astype(U32) << U32.type(8) * place)
        return result

    return compute(decoder, [U32, U32, U32], run)


@operation("fns")
def _fns(decoder: Decoder) -> Step:
    def find(mask: int, base: int, offset: int) -> int:
        step = -1 if offset < 0 else 1
        wanted = max(abs(offset), 1)
        place = int(base)
        while 0 <= place < 32:
            if mask >> place & 1:
                wanted -= 1
                if not wanted:
                    return place
            elif offset == 0:
                return 0xFFFFFFFF
            place += step
        return 0xFFFFFFFF

    return compute(decoder, [U32, U32, S32], np.vectorize(find, otypes=[U32]))
