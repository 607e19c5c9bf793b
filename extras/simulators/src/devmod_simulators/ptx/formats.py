"""Floating-point formats: unpacking to types that NumPy computes with, packing, rounding,
flushing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from devmod_simulators.ptx.ptx_types import (
    DTYPES,
    F16,
    F32,
    F64,
    U8,
    U16,
    U32,
    Array,
    DType,
)

#: The smallest numbers that are not subnormal.
SMALLEST = {
    "f16": np.float32(2.0**-14),
    "bf16": np.float32(2.0**-126),
    "f32": np.float32(2.0**-126),
    "f64": np.float64(2.0**-1022),
}
#: The largest finite numbers of types that `cvt.satfinite` converts to.
LARGEST = {"f16": 65504.0, "bf16": (2 - 2.0**-7) * 2.0**127, "tf32": (2 - 2.0**-10) * 2.0**127}
LARGEST["ue8m0"] = 2.0**127

#: Types of 8, 6 and 4 bits: the bits of the exponent and of the mantissa, and the bias.
MINIFLOATS = {
    "e4m3": (4, 3, 7),
    "e5m2": (5, 2, 15),
    "e3m2": (3, 2, 3),
    "e2m3": (2, 3, 1),
    "e2m1": (2, 1, 1),
}

#: The NaN of all results of 16 bits.
_NAN_F16 = np.array(0x7FFF, np.uint16).view(F16)


def flush(a: Array, kind: str) -> Array:
    """Return values with those that are subnormal numbers of `kind` as zeros of their sign."""
    return np.where(np.abs(a) < SMALLEST[kind], np.copysign(a.dtype.type(0), a), a)


def any_nan(a: Array, b: Array) -> Array:
    """Return where one of two values is NaN."""
    return np.isnan(a) | np.isnan(b)


def reader(kind: str) -> Callable[[Array], Array]:
    """Return the function that gives values of a PTX type as float32 or float64. Types of two
    numbers give two columns.
    """
    base = kind.removesuffix("x2")
    if kind == "e2m1x2":
        read = reader(base)
        return lambda a: read(np.stack([a & U8.type(15), a >> U8.type(4)], axis=-1))
    if base != kind:
        read = reader(base)
        half = f"u{DTYPES[kind].itemsize // 2}"
        return lambda a: read(np.ascontiguousarray(a).view(half).reshape(-1, 2))
    if kind == "f64":
        return lambda a: a.view(F64)
    if kind in ("f32", "tf32"):
        return lambda a: a.view(F32)
    if kind == "f16":
        return lambda a: a.view(F16).astype(F32)
    if kind == "bf16":
        return lambda a: (a.view(U16).astype(U32) << U32.type(16)).view(F32)
    return _minifloats(kind).__getitem__


def writer(kind: str, mode: str = "rn") -> Callable[[Array], Array]:
    """Return the function that gives float32 or float64 values as a PTX type; the inverse of
    `reader`.
    """
    base = kind.removesuffix("x2")
    if kind == "e2m1x2":
        write = writer(base)
        shifts = np.array([0, 4], U8)
        return lambda a: np.bitwise_or.reduce(write(a) << shifts, axis=-1)
    if base != kind:
        write = writer(base, mode)
        whole = f"u{DTYPES[kind].itemsize}"
        return lambda a: np.ascontiguousarray(write(a)).view(whole).reshape(-1)
    if kind == "tf32":
        return lambda a: shortened(a, 13, mode) & U32.type(0xFFFFE000)
    if kind == "bf16":
        return lambda a: (shortened(a, 16, mode) >> U32.type(16)).astype(U16)
    if kind == "ue8m0":
        return partial(_to_scale, mode)
    if kind in MINIFLOATS:
        return partial(_to_minifloat, kind)
    dtype = DTYPES[kind]
    if kind == "f16":
        return lambda a: np.where(np.isnan(a), _NAN_F16, narrow(a, mode, F16))
    if mode == "rn" or kind == "f64":
        return lambda a: a.astype(dtype, copy=False)
    return lambda a: narrow(a, mode, dtype)


def shortened(a: Array, dropped: int, mode: str) -> Array:
    """Return the bits of float32 of float values, of which the lowest ones are to drop."""
    bits = narrow(a, "odd").view(U32)
    half = 1 << dropped - 1
    up: Any = U32.type(0)
    if mode in ("rm", "rp"):
        away = (bits >> U32.type(31) != 0) == (mode == "rm")
        up = np.where(away, U32.type(2 * half - 1), up)
    elif mode == "rna":
        up = U32.type(half)
    elif mode == "rn":
        up = U32.type(half - 1) + (bits >> U32.type(dropped) & U32.type(1))
    return np.where(np.isnan(a), U32.type(0x7FFFFFFF), bits + up)


def step(near: Array, sign: Array, mode: str) -> Array:
    """Return the directed rounding of values whose nearest numbers are `near` and whose errors have
    the signs `sign`.
    """
    dtype = near.dtype
    infinity = dtype.type(np.inf)
    if mode == "rp":
        return np.where(sign > 0, np.nextafter(near, infinity), near)
    if mode == "rm":
        return np.where(sign < 0, np.nextafter(near, -infinity), near)
    outside = (near > 0) & (sign < 0) | (near < 0) & (sign > 0)
    return np.where(outside, np.nextafter(near, dtype.type(0)), near)


def narrow(a: Array, mode: str, dtype: DType = F32, error: Array | None = None) -> Array:
    """Return float values as float32 or float16. `error` has the signs of the values' own errors.
    Mode `odd` keeps a sticky last bit of a float32.
    """
    near = a.astype(dtype, copy=False)
    if mode == "rn" or near is a:
        return near
    difference = np.sign(a - near.astype(F64))
    if error is not None:
        difference = np.where(difference == 0, np.sign(error), difference)
    if mode != "odd":
        return step(near, difference, mode)
    toward_zero = step(near, difference, "rz")
    inexact = (difference != 0) & np.isfinite(a)
    return np.where(inexact, toward_zero.view(U32) | U32.type(1), near.view(U32)).view(F32)


def _minifloats(kind: str) -> Array:
    """Return the float32 value of each code of a type of 8, 6 or 4 bits. The bits above are
    ignored.
    """
    codes = np.arange(256)
    if kind == "ue8m0":
        return np.where(codes == 255, np.nan, np.exp2(codes - 127.0)).astype(F32)
    exponent_bits, mantissa_bits, bias = MINIFLOATS[kind]
    sign = 1 << exponent_bits + mantissa_bits
    size = codes & (sign - 1)
    exponent = size >> mantissa_bits
    mantissa = (size & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    values = np.ldexp(mantissa + (exponent > 0), np.maximum(exponent, 1) - bias)
    if kind == "e4m3":
        values[size == 127] = np.nan
    if kind == "e5m2":
        values[size == 124] = np.inf
        values[size > 124] = np.nan
    return np.where(codes & sign, -values, values).astype(F32)


def _to_minifloat(kind: str, a: Array) -> Array:
    """Return the codes of float values, rounded to nearest even and saturated. NaN is the greatest
    number of types that lack it.
    """
    sign = 1 << sum(MINIFLOATS[kind][:2])
    table = _minifloats(kind)[:sign]
    finite = table[np.isfinite(table)].astype(F64)
    middle = (finite[1:] + finite[:-1]) / 2
    size = np.abs(a).astype(F64)
    low = np.searchsorted(middle, size, side="left")  # ties go down ...
    tie = np.isin(size, middle)
    low = np.where(tie & (low & 1 == 1), low + 1, low)  # ... unless that code is odd
    code = np.minimum(low, len(finite) - 1) | np.where(np.signbit(a), sign, 0)
    return np.where(np.isnan(a), sign - 1, code).astype(U8)


def _to_scale(mode: str, a: Array) -> Array:
    """Return the exponents of float values, without their signs: rounded down, or (rp) up."""
    bits = np.abs(a).astype(F32).view(U32)
    exponent = bits >> U32.type(23)
    # The least number is 2**-127, of which smaller ones have the code too.
    is_above = (bits & U32.type(0x7FFFFF) != 0) & (bits > 0x400000) & (bits < 0x7F800000)
    return np.where(is_above & (mode == "rp"), exponent + U32.type(1), exponent).astype(U8)
