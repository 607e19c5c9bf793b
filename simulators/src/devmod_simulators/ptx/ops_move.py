"""Moves between registers, and selection."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .decoder import Decoder, operation
from .formats import flush
from .guards import Step
from .ptx_types import DTYPES, PRED, U64, UNSIGNED, Vector

if TYPE_CHECKING:
    from .lanes import Lanes


@operation("mov")
def _mov(decoder: Decoder) -> Step:
    decoder.count(2)
    target, source = decoder.operands
    if decoder.type == "b128":
        return _mov_wide(decoder)
    if isinstance(source, Vector):
        return _pack(decoder, list(source.parts))
    if isinstance(target, Vector):
        return _unpack(decoder, list(target.parts))
    dtype = decoder.dtype if decoder.type == "pred" else UNSIGNED[decoder.dtype.itemsize]
    a, out = decoder.source(1, dtype), decoder.target(0, dtype)
    return lambda lanes: out(lanes, a(lanes))


def _pack(decoder: Decoder, parts: list[Any]) -> Step:
    whole = UNSIGNED[decoder.dtype.itemsize]
    size = whole.itemsize // len(parts)
    sources = [decoder.source(part, UNSIGNED[size]) for part in parts]
    out = decoder.target(0, whole)

    def run(lanes: "Lanes") -> None:
        value = sources[0](lanes).astype(whole)
        for number, source in enumerate(sources[1:], 1):
            value = value | (source(lanes).astype(whole) << whole.type(8 * size * number))
        out(lanes, value)

    return run


def _unpack(decoder: Decoder, parts: list[Any]) -> Step:
    whole = UNSIGNED[decoder.dtype.itemsize]
    size = whole.itemsize // len(parts)
    source = decoder.source(1, whole)
    targets = [decoder.target(part, UNSIGNED[size]) for part in parts]

    def run(lanes: "Lanes") -> None:
        value = source(lanes)
        for number, target in enumerate(targets):
            target(lanes, (value >> whole.type(8 * size * number)).astype(UNSIGNED[size]))

    return run


def _mov_wide(decoder: Decoder) -> Step:
    target, source = decoder.operands
    wide = DTYPES["b128"]
    if isinstance(source, Vector):
        low, high = (decoder.source(part, U64) for part in source.parts)
        out = decoder.target(0, wide)

        def join(lanes: "Lanes") -> None:
            first, second = np.broadcast_arrays(low(lanes), high(lanes))
            value = np.empty(len(first), wide)
            value["low"], value["high"] = first, second
            out(lanes, value)

        return join
    whole = decoder.source(1, wide)
    if isinstance(target, Vector):
        outs = [decoder.target(part, U64) for part in target.parts]

        def part(lanes: "Lanes") -> None:
            value = whole(lanes)
            for out, name in zip(outs, ("low", "high"), strict=True):
                out(lanes, value[name].copy())

        return part
    copy = decoder.target(0, wide)
    return lambda lanes: copy(lanes, whole(lanes))


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
