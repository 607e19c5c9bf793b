"""Moves between registers, and selection."""

from __future__ import annotations

from functools import partial

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step, operation, put_all
from devmod_simulators.ptx.formats import flush
from devmod_simulators.ptx.ops_integer import applied, compute
from devmod_simulators.ptx.ptx_types import DTYPES, PRED, UNSIGNED, Array, DType, Vector


def joined(parts: list[Array], whole: DType) -> Array:
    """Return registers of the type `whole` that have the bits of their parts, the lowest first."""
    if len(parts) == 1:
        return parts[0]
    return np.stack(np.broadcast_arrays(*parts), axis=1).view(whole).reshape(-1)


def split(value: Array, count: int) -> list[Array]:
    """Return the parts of registers, the lowest first."""
    parts = value.view(UNSIGNED[value.dtype.itemsize // count]).reshape(-1, count)
    return [*parts.T.copy()]


@operation("mov")
def _mov(decoder: Decoder) -> Step:
    destination, operand = decoder.operands
    dtype = decoder.unsigned
    if isinstance(operand, Vector):
        sources = [
            decoder.source(part, UNSIGNED[dtype.itemsize // len(operand.parts)])
            for part in operand.parts
        ]
        return applied(lambda *parts: joined(list(parts), dtype), sources, decoder.target(0, dtype))
    source = decoder.source(1, dtype)
    if isinstance(destination, Vector):
        targets = [
            decoder.target(part, UNSIGNED[dtype.itemsize // len(destination.parts)])
            for part in destination.parts
        ]
        return lambda lanes: put_all(lanes, targets, split(source(lanes), len(targets)))
    out = decoder.target(0, dtype)
    return lambda lanes: out(lanes, source(lanes))


@operation("selp")
def _selp(decoder: Decoder) -> Step:
    dtype = decoder.unsigned
    return compute(decoder, [dtype, dtype, PRED], lambda a, b, p: np.where(p, a, b))


@operation("slct")
def _slct(decoder: Decoder) -> Step:
    kind, sign = decoder.types
    dtype = UNSIGNED[DTYPES[kind].itemsize]
    flushed = partial(flush, kind="f32") if decoder.has("ftz") and sign == "f32" else np.asarray
    return compute(
        decoder, [dtype, dtype, DTYPES[sign]], lambda a, b, c: np.where(flushed(c) >= 0, a, b)
    )
