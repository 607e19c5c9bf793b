"""Conversion of values: cvt, and addresses: cvta, isspacep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step, operation
from devmod_simulators.ptx.formats import flush, narrow, pack, step, unpack
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.memory import CLUSTER_SHIFT, FUNCTION_PARAMETERS, WINDOW_SHIFT, WINDOWS
from devmod_simulators.ptx.ops_float import bits_type
from devmod_simulators.ptx.ops_integer import compute
from devmod_simulators.ptx.ops_memory import space_of
from devmod_simulators.ptx.ptx_types import (
    DTYPES,
    F32,
    F64,
    PRED,
    S64,
    U32,
    U64,
    UNSIGNED,
    Array,
    DType,
)

_FLOATS = {"f16", "bf16", "f32", "f64", "tf32"}
_PAIRS = {"f16x2", "bf16x2", "e4m3x2", "e5m2x2"}
_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@operation("cvt")
def _cvt(decoder: Decoder) -> Step:
    if "pack" in decoder.parts:
        return _cvt_pack(decoder)
    result, kind = decoder.types
    if result in _PAIRS or kind in _PAIRS:
        return _cvt_pair(decoder, result, kind)
    target = _register_type(result)
    source = F32 if kind == "tf32" else _register_type(kind)
    return compute(decoder, [source], conversion(decoder, result, kind, target), target)


def _register_type(kind: str) -> DType:
    """Return the NumPy type in which registers give values of a type."""
    if kind in _FLOATS:
        dtype: DType = bits_type(kind)
        return dtype
    return DTYPES[kind]


def conversion(decoder: Decoder, result: str, kind: str, target: DType) -> Callable[[Array], Array]:
    """Return the function that converts between two types."""
    if kind in _FLOATS and result in _FLOATS:
        return _float_to_float(decoder, result, kind, target)
    if kind in _FLOATS:
        return _float_to_integer(decoder, kind, target)
    if result in _FLOATS:
        return _integer_to_float(decoder, result, kind, target)
    if not decoder.has("sat"):
        return lambda a: a.astype(target)
    limits = np.iinfo(target)

    def clamp(a: Array) -> Array:
        low = max(limits.min, np.iinfo(a.dtype).min)
        high = min(limits.max, np.iinfo(a.dtype).max)
        return np.clip(a, a.dtype.type(low), a.dtype.type(high)).astype(target)

    return clamp


def _float_to_float(
    decoder: Decoder, result: str, kind: str, target: DType
) -> Callable[[Array], Array]:
    mode = decoder.first(("rn", "rz", "rm", "rp", "rna"), "rn")
    integral = next((function for name, function in _INTEGRAL.items() if decoder.has(name)), None)
    ftz = decoder.has("ftz")
    saturating = decoder.has("sat")
    relu = decoder.has("relu")

    def convert(a: Array) -> Array:
        value = unpack(kind, a)
        if ftz and value.dtype == F32:
            value = flush(value)
        if integral is not None:
            value = integral(value)
        if saturating:
            value = np.where(
                np.isnan(value),
                value.dtype.type(0),
                np.clip(value, value.dtype.type(0), value.dtype.type(1)),
            )
        if relu:
            value = np.where(value < 0, value.dtype.type(0), value)
        packed = pack(result, value, mode)
        if ftz and result == "f32":
            packed = flush(packed)
        return packed.view(target)

    return convert


def _float_to_integer(decoder: Decoder, kind: str, target: DType) -> Callable[[Array], Array]:
    integral = next(
        (function for name, function in _INTEGRAL.items() if decoder.has(name)), np.trunc
    )
    limits = np.iinfo(target)
    # NaN converts to zero from and to 32 bits and less, else to the highest bit alone.
    nan = 1 << (8 * target.itemsize - 1)
    if target.itemsize < 8 and kind != "f64":
        nan = 0
    invalid = np.array([nan], UNSIGNED[target.itemsize]).view(target)[0]
    ftz = decoder.has("ftz")
    high = float(limits.max)
    if target.itemsize < 8:
        # As a float64, the greatest integer of 64 bits is one more already.
        high += 1

    def convert(a: Array) -> Array:
        value = unpack(kind, a)
        if ftz:
            value = flush(value)
        value = integral(value.astype(F64))
        above = value >= high
        below = value < limits.min
        safe = np.where(above | below | np.isnan(value), 0, value)
        number = _to_u64(safe) if target == U64 else safe.astype(target)
        number = np.where(above, target.type(limits.max), number)
        number = np.where(below, target.type(limits.min), number)
        return np.where(np.isnan(value), invalid, number)

    return convert


def _to_u64(a: Array) -> Array:
    large = a >= 2.0**63
    low = np.where(large, a - 2.0**63, a).astype(S64).view(U64)
    return np.where(large, low + np.uint64(1 << 63), low)


def _integer_to_float(
    decoder: Decoder, result: str, kind: str, target: DType
) -> Callable[[Array], Array]:
    mode = decoder.first(("rn", "rz", "rm", "rp"), "rn")
    size = DTYPES[kind].itemsize

    if mode == "rn" and result in ("f32", "f64"):
        # The processor rounds to nearest.
        return lambda a: a.astype(target)

    def convert(a: Array) -> Array:
        if size < 8:
            return pack(result, a.astype(F64), mode).view(target)
        near = a.astype(F64)
        exact = np.array(
            [(int(x) > int(y)) - (int(x) < int(y)) for x, y in zip(a, near, strict=True)]
        )
        if result == "f64":
            return step(near, exact, mode)
        odd = narrow(near, mode if result == "f32" else "odd", exact)
        return pack(result, odd, mode).view(target)

    return convert


def _cvt_pair(decoder: Decoder, result: str, kind: str) -> Step:
    """Decode conversions to and from pairs of small floats."""
    mode = decoder.first(("rn", "rz"), "rn")
    relu = decoder.has("relu")

    def finish(value: Array) -> Array:
        if relu:
            value = np.where(value < 0, value.dtype.type(0), value)
        return pack(result, value, mode)

    def run_pair(a: Array, b: Array) -> Array:
        high = unpack(kind, a)
        low = unpack(kind, b)
        return finish(np.stack(np.broadcast_arrays(low, high), axis=1))

    target = UNSIGNED[DTYPES[result].itemsize]
    if kind == "f32":
        return compute(decoder, [F32, F32], run_pair, target)
    return compute(decoder, [bits_type(kind)], lambda a: finish(unpack(kind, a)), target)


def _cvt_pack(decoder: Decoder) -> Step:
    """Decode cvt.pack.sat: two integers saturated to 16, 8, 4 or 2 bits."""
    result, source = decoder.types[:2]
    small = DTYPES[result]
    limits = np.iinfo(small)
    bits = 8 * small.itemsize

    def saturated(a: Array) -> Array:
        value = np.clip(a.astype(S64), limits.min, limits.max).astype(small)
        return value.view(UNSIGNED[small.itemsize]).astype(U32)

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
    dtype: Any = UNSIGNED[decoder.dtype.itemsize]
    low = dtype.type((1 << CLUSTER_SHIFT) - 1)
    keep = dtype.type(0) if dtype == U32 else ~dtype.type((1 << WINDOW_SHIFT) - 1)

    def run(address: Array, rank: Array) -> Array:
        return (address & (low | keep)) | (
            (rank.astype(dtype) + dtype.type(1)) << dtype.type(CLUSTER_SHIFT)
        )

    return compute(decoder, [dtype, U32], run)


@operation("getctarank")
def _getctarank(decoder: Decoder) -> Step:
    dtype: Any = UNSIGNED[decoder.dtype.itemsize]
    a = decoder.source(1, dtype)
    out = decoder.target(0, U32)

    def run(lanes: Lanes) -> None:
        rank = ((a(lanes) >> dtype.type(CLUSTER_SHIFT)) & dtype.type(0xFF)).astype(U32)
        out(lanes, np.where(rank == 0, lanes.column("cluster_ctarank"), rank - U32.type(1)))

    return run
