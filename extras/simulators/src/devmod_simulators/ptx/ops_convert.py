"""Conversion of values: cvt, and addresses: cvta, isspacep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step, operation
from devmod_simulators.ptx.exact import round_to_odd
from devmod_simulators.ptx.formats import flush, reader, step, writer
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.memory import CLUSTER_SHIFT, FUNCTION_PARAMETERS, WINDOW_SHIFT, WINDOWS
from devmod_simulators.ptx.ops_float import with_modifiers
from devmod_simulators.ptx.ops_integer import clamped, compute
from devmod_simulators.ptx.ops_memory import space_of
from devmod_simulators.ptx.ptx_types import (
    DTYPES,
    F32,
    F64,
    FLOATS,
    PRED,
    REGISTERS,
    U32,
    U64,
    UNSIGNED,
    Array,
    DType,
)

_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@operation("cvt")
def _cvt(decoder: Decoder) -> Step:
    if decoder.has("pack"):
        return _cvt_pack(decoder)
    result, kind = decoder.types
    source = REGISTERS[kind]
    target = REGISTERS[result]
    integral = _INTEGRAL.get(decoder.first(_INTEGRAL))
    if result not in FLOATS and kind not in FLOATS:
        if decoder.has("sat"):
            return compute(decoder, [source], lambda a: clamped(a, target), target)
        return compute(decoder, [source], lambda a: a.astype(target), target)
    if result not in FLOATS:
        function = _float_to_integer(decoder, kind, target, integral or np.trunc)
        return compute(decoder, [source], function, target)
    if kind not in FLOATS:
        return compute(decoder, [source], _integer_to_float(decoder, result), target)
    if kind == "f32" and result.endswith("x2"):
        function = with_modifiers(decoder, [kind, kind], result, _halves)
        return compute(decoder, [F32, F32], function, target)
    function = with_modifiers(decoder, [kind], result, integral or (lambda a: a))
    return compute(decoder, [source], function, target)


def _halves(high: Array, low: Array) -> Array:
    return np.stack(np.broadcast_arrays(low, high), axis=1)


def _float_to_integer(
    decoder: Decoder, kind: str, target: DType, integral: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    read = reader(kind)
    limits = np.iinfo(target)
    # NaN converts to zero from and to 32 bits and less, else to the highest bit alone.
    nan = 1 << (8 * target.itemsize - 1)
    if target.itemsize < 8 and kind != "f64":
        nan = 0
    invalid = np.array([nan], UNSIGNED[target.itemsize]).view(target)[0]
    ftz = decoder.has("ftz") and kind == "f32"
    high = float(limits.max)
    if target.itemsize < 8:
        # As a float64, the greatest integer of 64 bits is one more already.
        high += 1

    def convert(a: Array) -> Array:
        value = read(a)
        if ftz:
            value = flush(value, kind)
        value = integral(value.astype(F64))
        above = value >= high
        below = value < limits.min
        safe = np.where(above | below | np.isnan(value), 0, value)
        number = np.where(above, target.type(limits.max), safe.astype(target))
        number = np.where(below, target.type(limits.min), number)
        return np.where(np.isnan(value), invalid, number)

    return convert


def _integer_to_float(decoder: Decoder, result: str) -> Callable[[Array], Array]:
    mode = decoder.rounding
    target = REGISTERS[result]
    if decoder.has("sat"):
        # All others are 0 or less, or 1 or more.
        write = writer(result)
        return lambda a: write((a > 0).astype(F64)).view(target)
    if mode == "rn" and result in ("f32", "f64"):
        # The processor rounds to nearest.
        return lambda a: a.astype(target)

    write = writer(result, mode)

    def convert(a: Array) -> Array:
        near = a.astype(F64)
        # The significand of a longdouble has at least 64 bits.
        error = np.sign(a.astype(np.longdouble) - near).astype(F64)
        if result == "f64":
            return step(near, error, mode)
        return write(round_to_odd(near, error)).view(target)

    return convert


def _cvt_pack(decoder: Decoder) -> Step:
    """Decode cvt.pack.sat: two integers saturated to 16, 8, 4 or 2 bits."""
    result, source = decoder.types[:2]
    small = DTYPES[result]
    bits = 8 * small.itemsize

    def saturated(a: Array) -> Array:
        return clamped(a, small).view(UNSIGNED[small.itemsize]).astype(U32)

    def run(a: Array, b: Array, *rest: Array) -> Array:
        value = saturated(b) | (saturated(a) << U32.type(bits))
        if rest:
            value = value | (rest[0] << U32.type(2 * bits))
        return value

    types = [DTYPES[source], DTYPES[source], U32][: len(decoder.operands) - 1]
    return compute(decoder, types, run, U32)


@operation("cvta")
def _cvta(decoder: Decoder) -> Step:
    space = space_of(decoder, "")
    window = np.uint64(WINDOWS[space])
    if not window:
        return compute(decoder, [U64], lambda a: a)
    if decoder.has("to"):
        return compute(decoder, [U64], lambda a: a - window)
    if space != "param":
        return compute(decoder, [U64], lambda a: a + window)
    mark = np.uint64(FUNCTION_PARAMETERS)
    local = np.uint64(WINDOWS["local"] - FUNCTION_PARAMETERS)
    return compute(decoder, [U64], lambda a: np.where(a >= mark, a + local, a + window))


@operation("isspacep")
def _isspacep(decoder: Decoder) -> Step:
    space = space_of(decoder, "")
    window = np.uint64(WINDOW_SHIFT)
    if space == "global":
        return compute(decoder, [U64], lambda a: a < np.uint64(WINDOWS["shared"]), PRED)
    # No address is const.
    wanted = ~np.uint64(0)
    if space != "const":
        wanted = np.uint64(WINDOWS[space] >> WINDOW_SHIFT)
    return compute(decoder, [U64], lambda a: a >> window == wanted, PRED)


@operation("mapa")
def _mapa(decoder: Decoder) -> Step:
    dtype: Any = decoder.unsigned
    low = dtype.type((1 << CLUSTER_SHIFT) - 1)
    keep = dtype.type(0) if dtype == U32 else ~dtype.type((1 << WINDOW_SHIFT) - 1)

    def run(address: Array, rank: Array) -> Array:
        return (address & (low | keep)) | (
            (rank.astype(dtype) + dtype.type(1)) << dtype.type(CLUSTER_SHIFT)
        )

    return compute(decoder, [dtype, U32], run)


@operation("getctarank")
def _getctarank(decoder: Decoder) -> Step:
    dtype: Any = decoder.unsigned
    a = decoder.source(1, dtype)
    out = decoder.target(0, U32)

    def run(lanes: Lanes) -> None:
        rank = ((a(lanes) >> dtype.type(CLUSTER_SHIFT)) & dtype.type(0xFF)).astype(U32)
        out(lanes, np.where(rank == 0, lanes.column("cluster_ctarank"), rank - U32.type(1)))

    return run
