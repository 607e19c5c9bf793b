"""Moves between registers, and selection."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .decoder import Decoder, operation
from .formats import flush
from .guards import Step
from .ptx_types import DTYPES, PRED, UNSIGNED, Array, DType, Vector

if TYPE_CHECKING:
    from .lanes import Lanes


def joined(parts: list[Array], whole: DType) -> Array:
    """Return registers of the type `whole` that have the bits of their parts, the lowest first."""
    if len(parts) == 1:
        return parts[0]
    return np.stack(np.broadcast_arrays(*parts), axis=1).view(whole).reshape(-1)


def split(value: Array, count: int) -> list[Array]:
    """Return the parts of registers, the lowest first."""
    parts = np.ascontiguousarray(value).view(UNSIGNED[value.dtype.itemsize // count]).reshape(-1, count)
    return [parts[:, number].copy() for number in range(count)]


@operation("mov")
def _mov(decoder: Decoder) -> Step:
    decoder.count(2)
    target, source = decoder.operands
    dtype = decoder.dtype if decoder.type == "pred" else UNSIGNED[decoder.dtype.itemsize]
    if isinstance(source, Vector):
        return _pack(decoder, list(source.parts), dtype)
    if isinstance(target, Vector):
        return _unpack(decoder, list(target.parts), dtype)
    a, out = decoder.source(1, dtype), decoder.target(0, dtype)
    return lambda lanes: out(lanes, a(lanes))


def _pack(decoder: Decoder, parts: list[Any], whole: DType) -> Step:
    sources = [decoder.source(part, UNSIGNED[whole.itemsize // len(parts)]) for part in parts]
    out = decoder.target(0, whole)
    return lambda lanes: out(lanes, joined([source(lanes) for source in sources], whole))


def _unpack(decoder: Decoder, parts: list[Any], whole: DType) -> Step:
    source = decoder.source(1, whole)
    targets = [decoder.target(part, UNSIGNED[whole.itemsize // len(parts)]) for part in parts]

    def run(lanes: "Lanes") -> None:
        for target, value in zip(targets, split(source(lanes), len(parts)), strict=True):
            target(lanes, value)

    return run


@operation("selp")
def _selp(decoder: Decoder) -> Step:
    decoder.count(4)
    dtype = UNSIGNED[decoder.dtype.itemsize]
    a, b, p, out = decoder.source(1, dtype), decoder.source(2, dtype), decoder.source(3, PRED), decoder.target(0, dtype)
    return lambda lanes: out(lanes, np.where(p(lanes), a(lanes), b(lanes)))


@operation("slct")
def _slct(decoder: Decoder) -> Step:
    decoder.count(4)
    kind, sign = decoder.types
    dtype = UNSIGNED[DTYPES[kind].itemsize]
    a, b, c, out = decoder.source(1, dtype), decoder.source(2, dtype), decoder.source(3, DTYPES[sign]), decoder.target(0, dtype)
    ftz = decoder.has("ftz")

    def run(lanes: "Lanes") -> None:
        value = c(lanes)
        if ftz and sign == "f32":
            value = flush(value)
        out(lanes, np.where(value >= 0, a(lanes), b(lanes)))

    return run
