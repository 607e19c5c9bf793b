"""Floating-point arithmetic, and the instructions that exist for integers and floats alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step, operation
from devmod_simulators.ptx.exact import (
    PRODUCT,
    QUOTIENT,
    ROOT,
    exact_sum,
    fused,
    fused_narrow,
    once,
    round_to_odd,
    two_sum,
)
from devmod_simulators.ptx.formats import (
    LARGEST,
    SMALLEST,
    any_nan,
    flush,
    narrow,
    reader,
    writer,
)
from devmod_simulators.ptx.lanes import NARROW
from devmod_simulators.ptx.ops_integer import (
    add_or_subtract,
    compute,
    minimum_or_maximum,
    multiply,
    multiply_add,
    quotient,
)
from devmod_simulators.ptx.ptx_types import (
    F32,
    F64,
    PRED,
    REGISTERS,
    U64,
    Array,
)

#: Of float64, the bits that float32 lacks, these without the first one, and that one.
_DROPPED_BITS = U64.type((1 << 29) - 1)
_LAST_BITS = U64.type((1 << 28) - 1)
_MIDDLE = U64.type(1 << 28)


def arithmetic(decoder: Decoder, number: int, function: Callable[..., Array]) -> Step:
    """Return the step of an instruction with `number` operands of one float type, or with narrower
    ones before the last: add.f32.f16 and its kin.
    """
    kind = decoder.type
    dtypes = [REGISTERS[kind]] * number
    if len(decoder.types) == 2:
        result = decoder.types[0]
        dtypes[-1] = REGISTERS[result]
        kinds = [kind] * (number - 1) + [result]
        function = with_modifiers(decoder, kinds, result, function)
        return compute(decoder, dtypes, function, REGISTERS[result])
    if kind in ("f32", "f64") and decoder.modifiers.isdisjoint(("ftz", "sat", "relu")):
        scalars = function is _fused_f32
        return compute(decoder, dtypes, function, scalars=scalars)
    return compute(decoder, dtypes, with_modifiers(decoder, [kind] * number, kind, function))


def with_modifiers(
    decoder: Decoder, kinds: list[str], result: str, function: Callable[..., Array]
) -> Callable[..., Array]:
    """Return a function that computes values of a float type from those of others: flush, compute,
    saturate, round.
    """
    ftz = decoder.has("ftz")
    saturating = decoder.has("sat")
    finite = decoder.has("satfinite")
    relu = decoder.has("relu")
    target = REGISTERS[result]
    has_one_type = set(kinds) == {result}
    is_plain = has_one_type and result in ("f32", "f64")
    base = result.removesuffix("x2")
    # Of halves, arithmetic alone flushes: cvt only float32.
    reads = [_flushing_reader(kind, ftz and (has_one_type or kind == "f32")) for kind in kinds]
    read = reader(result) if ftz and (has_one_type or base == "f32") else None
    write = writer(result, decoder.rounding)
    largest = LARGEST.get(base, np.inf)

    def run(*values: Array) -> Array:
        if not is_plain or ftz:
            values = tuple(fetch(each) for fetch, each in zip(reads, values, strict=True))
        value = function(*values)
        if saturating:
            zero = value.dtype.type(0)
            value = np.minimum(np.where(value > 0, value, zero), value.dtype.type(1))
        if relu:
            value = np.where(value <= 0, value.dtype.type(0), value)
        if finite:
            value = np.clip(value, -largest, largest)
        if not is_plain:
            value = write(value).view(target)
        if read is not None:
            value = write(flush(read(value), base)).view(target)
        return value

    return run


def _flushing_reader(kind: str, flushes: bool) -> Callable[[Array], Array]:
    read = reader(kind)
    base = kind.removesuffix("x2")
    if not flushes or base not in SMALLEST:
        return read
    return lambda value: flush(read(value), base)


def _base(decoder: Decoder) -> str:
    """Return the type in which an instruction computes: that of one number of a pair."""
    return decoder.types[0].removesuffix("x2")


def _fused(decoder: Decoder) -> Callable[[Array, Array, Array], Array]:
    """Return the function for a * b + c with one rounding."""
    kind = _base(decoder)
    mode = decoder.rounding
    if kind == "f64":
        return once(kind, mode, fused(mode))
    if kind == "f32" and mode == "rn":
        return _fused_f32
    function = fused_narrow(mode)
    if kind == "f32":
        return lambda a, b, c: narrow(function(a, b, c), mode)
    return function


def _fused_f32(a: Array, b: Array, c: Array) -> Array:
    """Return float32 values of a * b + c, rounded to nearest."""
    if a.size + b.size + c.size <= NARROW:
        return _piece_of_fused_f32(a, b, c)
    # In pieces whose float64 stays in the cache, and which no call of the system allocates.
    result = np.empty(np.broadcast_shapes(a.shape, b.shape, c.shape), F32)
    for start in range(0, len(result), NARROW):
        piece = slice(start, start + NARROW)
        operands = [each[piece] if each.ndim and len(each) > 1 else each for each in (a, b, c)]
        result[piece] = _piece_of_fused_f32(*operands)
    return result


def _piece_of_fused_f32(a: Array, b: Array, c: Array) -> Array:
    product = a.astype(F64) * b.astype(F64)
    total = product + c.astype(F64)
    # Rounded twice, to 53 and to 24 bits, a sum is only wrong if the first result is in the middle
    # of two float32, whose last 28 bits are zeros then: also if they are subnormal.
    bits = total.view(U64)
    if not (bits & _LAST_BITS).all():
        is_middle = bits & _DROPPED_BITS == _MIDDLE
        is_middle |= (np.abs(total) < SMALLEST["f32"]) & (total != 0)
        if is_middle.any():
            total = round_to_odd(*two_sum(product, c.astype(F64)))
    return total.astype(F32)


@operation("add", "sub")
def _add(decoder: Decoder) -> Step:
    if not decoder.is_float:
        return add_or_subtract(decoder)
    mode = decoder.rounding
    kind = _base(decoder)
    subtract = decoder.root == "sub"
    if mode == "rn" or kind not in ("f32", "f64"):
        return arithmetic(decoder, 2, np.subtract if subtract else np.add)
    function = once(kind, mode, exact_sum(mode))
    if subtract:
        return arithmetic(decoder, 2, lambda a, b: function(a, -b))
    return arithmetic(decoder, 2, function)


@operation("mul")
def _mul(decoder: Decoder) -> Step:
    if not decoder.is_float:
        return multiply(decoder)
    mode = decoder.rounding
    kind = _base(decoder)
    if mode == "rn" or kind not in ("f32", "f64"):
        return arithmetic(decoder, 2, np.multiply)
    return arithmetic(decoder, 2, once(kind, mode, PRODUCT))


@operation("fma", "mad")
def _fma(decoder: Decoder) -> Step:
    if not decoder.is_float:
        return multiply_add(decoder)
    return arithmetic(decoder, 3, _fused(decoder))


@operation("div")
def _div(decoder: Decoder) -> Step:
    if not decoder.is_float:
        return compute(decoder, [decoder.dtype] * 2, quotient(decoder.dtype))
    mode = decoder.rounding
    if mode == "rn":
        return arithmetic(decoder, 2, np.divide)
    return arithmetic(decoder, 2, once(decoder.type, mode, QUOTIENT))


@operation("sqrt")
def _sqrt(decoder: Decoder) -> Step:
    mode = decoder.rounding
    if mode == "rn":
        return arithmetic(decoder, 1, np.sqrt)
    return arithmetic(decoder, 1, once(decoder.type, mode, ROOT))


def _approximate(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return `function` with the low half of its float64 result cleared, as the approximations of
    hardware have it.
    """
    mask = np.uint64(0xFFFFFFFF00000000)
    return lambda a: (function(a).view(U64) & mask).view(F64)


@operation("rcp")
def _rcp(decoder: Decoder) -> Step:
    mode = decoder.rounding
    kind = decoder.type
    function: Callable[[Array], Array] = np.reciprocal
    if decoder.has("approx") and kind == "f64":
        function = _approximate(np.reciprocal)
    elif mode != "rn":
        divide = once(kind, mode, QUOTIENT)
        function = lambda a: divide(np.ones(1), a)  # noqa: E731
    return arithmetic(decoder, 1, function)


def _inverse_root(a: Array) -> Array:
    return (1.0 / np.sqrt(a.astype(F64))).astype(a.dtype)


@operation("rsqrt")
def _rsqrt(decoder: Decoder) -> Step:
    function: Callable[[Array], Array] = _inverse_root
    if decoder.type == "f64" and decoder.has("ftz"):
        function = _approximate(function)
    return arithmetic(decoder, 1, function)


for _name, _function in {
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}.items():
    operation(_name)(lambda decoder, function=_function: arithmetic(decoder, 1, function))  # type: ignore[misc]


def _signed_minimum(a: Array, b: Array) -> Array:
    """Return the smaller number; a number is smaller than NaN, and -0 than +0."""
    result = np.fmin(a, b)
    zeros = (a == 0) & (b == 0)
    if not zeros.any():
        return result
    is_negative = zeros & (np.signbit(a) | np.signbit(b))
    return np.where(is_negative, -result.dtype.type(0), result)


def _signed_maximum(a: Array, b: Array) -> Array:
    return -_signed_minimum(-a, -b)


@operation("min", "max")
def _extreme(decoder: Decoder) -> Step:
    larger = decoder.root == "max"
    if not decoder.is_float:
        return minimum_or_maximum(decoder, np.maximum if larger else np.minimum)
    extreme = _signed_maximum if larger else _signed_minimum
    propagates = decoder.has("NaN")
    signs = decoder.has("xorsign")

    def function(a: Array, b: Array) -> Array:
        if signs:
            result = extreme(np.abs(a), np.abs(b))
        else:
            result = extreme(a, b)
        if propagates:
            result = np.where(any_nan(a, b), a.dtype.type(np.nan), result)
        if signs:
            sign = np.where(np.signbit(a) ^ np.signbit(b), -1, 1).astype(a.dtype)
            result = np.copysign(result, sign)
        return result

    if len(decoder.operands) == 4:
        magnitude: Callable[[Array], Array] = np.abs if decoder.has("abs") else np.asarray

        def of_three(a: Array, b: Array, c: Array) -> Array:
            return function(function(magnitude(a), magnitude(b)), magnitude(c))

        return arithmetic(decoder, 3, of_three)
    return arithmetic(decoder, 2, function)


def _sign_bits(decoder: Decoder, function: Callable[[Array, Any], Array]) -> Step:
    """Decode neg and abs of floats: they change the sign bit alone."""
    kind = decoder.type
    dtype = decoder.unsigned
    mask = dtype.type(1 << 8 * dtype.itemsize - 1)
    if kind.endswith("x2"):
        mask |= mask >> dtype.type(4 * dtype.itemsize)
    base = kind.removesuffix("x2")
    if decoder.has("ftz") and base in SMALLEST:
        read = reader(kind)
        write = writer(kind)
        return compute(
            decoder, [dtype], lambda a: function(write(flush(read(a), base)).view(dtype), mask)
        )
    return compute(decoder, [dtype], lambda a: function(a, mask))


@operation("neg")
def _neg(decoder: Decoder) -> Step:
    if decoder.is_float:
        return _sign_bits(decoder, np.bitwise_xor)
    return compute(decoder, [decoder.dtype], np.negative)


@operation("abs")
def _abs(decoder: Decoder) -> Step:
    if decoder.is_float:
        return _sign_bits(decoder, lambda a, mask: a & ~mask)
    return compute(decoder, [decoder.dtype], np.abs)


operation("copysign")(
    lambda decoder: compute(decoder, [decoder.dtype] * 2, lambda a, b: np.copysign(b, a))
)


@operation("testp")
def _testp(decoder: Decoder) -> Step:
    smallest = SMALLEST[decoder.type]
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= smallest),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < smallest),
    }
    return compute(decoder, [decoder.dtype], tests[decoder.first(tests)], PRED)
