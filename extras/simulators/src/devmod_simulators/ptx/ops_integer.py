"""Integer arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Source, Step, Target, fits, operation
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ptx_types import (
    S16,
    S32,
    S64,
    U16,
    U32,
    U64,
    UNSIGNED,
    Array,
    DType,
    Function,
    Integer,
    Register,
)

_HALVES: dict[str, DType] = {"u16x2": U16, "s16x2": S16}
_WIDER: dict[DType, DType] = {U16: U32, U32: U64, S16: S32, S32: S64}

REDUCTIONS: dict[str, Any] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def applied(function: Callable[..., Any], sources: list[Source], out: Target) -> Step:
    """Return the step that computes a destination of operands."""
    if len(sources) == 1:
        (only,) = sources
        return lambda lanes: out(lanes, function(only(lanes)))
    if len(sources) == 2:
        first, second = sources
        return lambda lanes: out(lanes, function(first(lanes), second(lanes)))
    if len(sources) == 3:
        first, second, third = sources
        return lambda lanes: out(lanes, function(first(lanes), second(lanes), third(lanes)))
    return lambda lanes: out(lanes, function(*[source(lanes) for source in sources]))


def of_two(decoder: Decoder, dtype: DType, function: Callable[..., Any]) -> Step:
    """Return the step of an instruction with two registers, or a register and a literal: one call
    of NumPy.
    """
    target, first, second = decoder.operands
    literal = None
    if not isinstance(second, Register):
        literal = decoder.constant(second, dtype).reshape(())
    out = target.number
    a = first.number
    b = getattr(second, "number", 0)

    def run(lanes: Lanes) -> None:
        r = lanes.r
        x = r[a]
        if x.dtype is not dtype:
            x = x.view(dtype)
        if literal is not None:
            r[out] = function(x, literal)
            return
        y = r[b]
        if y.dtype is not dtype:
            y = y.view(dtype)
        # NumPy takes three times as long with an array of one element as with a scalar.
        if len(x) > len(y):
            y = y[..., 0]
        elif len(x) < len(y):
            x = x[..., 0]
        r[out] = function(x, y)

    return run


def compute(
    decoder: Decoder,
    dtypes: list[DType],
    function: Callable[..., Any],
    result: DType | None = None,
    scalars: bool = False,
) -> Step:
    """Return the step of an instruction whose operands have the types `dtypes`; the result has the
    first one, unless `result` is given. With `scalars`, the function takes literals as such.
    """
    shape: tuple[int, ...] = (1,)
    has_register = isinstance(decoder.operands[1], Register)
    if scalars and has_register:
        shape = ()
    sources = [decoder.source(number, dtype, shape) for number, dtype in enumerate(dtypes, 1)]
    types = [result or dtypes[0], *dtypes]
    out = decoder.target(0, types[0])
    is_one_call = isinstance(function, np.ufunc) and len(dtypes) == 2
    if is_one_call and has_register and all(map(fits, decoder.operands, types)):
        return of_two(decoder, dtypes[0], function)
    return applied(function, sources, out)


def clamped(value: Array, dtype: DType) -> Array:
    """Return integers as those of another type, which has the nearest one for each."""
    own = np.iinfo(value.dtype)
    limits = np.iinfo(dtype)
    low = max(own.min, limits.min)
    high = min(own.max, limits.max)
    return np.clip(value, value.dtype.type(low), value.dtype.type(high)).astype(dtype)


def saturated(function: Callable[..., Any], dtype: DType) -> Callable[[Array, Array], Array]:
    """Return a function of two integers whose results are the nearest numbers of their type."""
    return lambda a, b: clamped(function(a.astype(S64), b.astype(S64)), dtype)


def pairs(function: Callable[..., Any], dtype: DType) -> Callable[..., Array]:
    """Return a function of 32-bit integers that applies `function` to both halves."""
    return lambda *values: (
        function(*(value.view(dtype).reshape(-1, 2) for value in values))
        .astype(dtype)
        .view(U32)
        .reshape(-1)
    )


def usual_type(decoder: Decoder) -> DType:
    """Return the type of an instruction whose sign does not matter that most others give their
    operands: a register then needs no other view. Only integers of 32 bits have a sign.
    """
    if decoder.type in ("b32", "s32"):
        return S32
    return decoder.unsigned


def carry(function: Function) -> int:
    """Return the number of the register that holds the carry flag of a function."""
    if function.carry is None:
        function.carry = len(function.registers)
        function.registers.append(U32)
    return function.carry


def with_carry(decoder: Decoder, a: Source, b: Source) -> Step:
    """Return the step of an addition or subtraction that reads or writes the carry flag."""
    root = decoder.root
    subtract = root.startswith("sub")
    flag_in = root.endswith("c")
    flag_out = decoder.has("cc")
    dtype = decoder.unsigned
    number = carry(decoder.function)
    out = decoder.target(0, dtype)
    if flag_in:
        decoder.reads.add(number)
    if flag_out:
        decoder.writes.add(number)

    def run(lanes: Lanes) -> None:
        x = a(lanes)
        y = b(lanes)
        # The flag of a subtraction is the carry of x + ~y + 1, the inverse of a borrow: 128-bit
        # divisions of NVRTC read it with addc.
        if subtract:
            y = ~y
        extra = dtype.type(subtract)
        if flag_in:
            extra = lanes.r[number].astype(dtype)
        total = x + y
        value = total + extra
        flag = (total < x) | (value < total)
        if flag_out:
            lanes.r[number] = flag.astype(U32)
        out(lanes, value)

    return run


@operation("addc", "subc")
def add_or_subtract(decoder: Decoder) -> Step:
    """Decode add, sub, addc and subc of integers."""
    root = decoder.root
    if root.endswith("c") or decoder.has("cc"):
        dtype = decoder.unsigned
        return with_carry(decoder, decoder.source(1, dtype), decoder.source(2, dtype))
    function: Callable[..., Any] = np.subtract if root == "sub" else np.add
    half = _HALVES.get(decoder.type)
    dtype = half or decoder.dtype
    if decoder.has("sat"):
        function = saturated(function, dtype)
    if half is not None:
        return compute(decoder, [U32, U32], pairs(function, half))
    if decoder.has("sat"):
        return compute(decoder, [dtype, dtype], function)
    return compute(decoder, [usual_type(decoder)] * 2, function)


def high_unsigned(a: Array, b: Array) -> Array:
    """Return the high 64 bits of the products of 64-bit integers."""
    mask = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    a_low = a & mask
    a_high = a >> shift
    b_low = b & mask
    b_high = b >> shift
    cross = a_high * b_low + (a_low * b_low >> shift)
    other = a_low * b_high + (cross & mask)
    return a_high * b_high + (cross >> shift) + (other >> shift)


def high(dtype: DType) -> Callable[[Array, Array], Array]:
    """Return the function for the high half of a product."""
    if dtype.itemsize < 8:
        wide = _WIDER[dtype]
        shift = 8 * dtype.itemsize
        return lambda a, b: (a.astype(wide) * b.astype(wide) >> wide.type(shift)).astype(dtype)
    if dtype == U64:
        return high_unsigned

    def signed(a: Array, b: Array) -> Array:
        x = a.view(U64)
        y = b.view(U64)
        zero = np.uint64(0)
        return (high_unsigned(x, y) - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)).view(S64)

    return signed


def product(decoder: Decoder) -> tuple[DType, Callable[[Array, Array], Array], DType]:
    """Return the operands' type, the function and the result's type of a multiplication."""
    dtype = decoder.dtype
    if decoder.has("wide"):
        # The bits of the product are the same without a sign, as addresses are.
        wide = UNSIGNED[_WIDER[dtype].itemsize]
        factor = decoder.operands[2]
        if isinstance(factor, Integer):
            literal = decoder.constant(factor, dtype).astype(wide).reshape(())
            return dtype, lambda a, b: a.astype(wide) * literal, wide
        return dtype, lambda a, b: a.astype(wide) * b.astype(wide), wide
    if decoder.has("hi"):
        return dtype, high(dtype), dtype
    usual = usual_type(decoder)
    return usual, np.multiply, usual


def multiply(decoder: Decoder) -> Step:
    """Decode mul of integers."""
    dtype, function, result = product(decoder)
    return compute(decoder, [dtype, dtype], function, result)


@operation("madc")
def multiply_add(decoder: Decoder) -> Step:
    """Decode mad of integers."""
    dtype, function, result = product(decoder)
    if decoder.has("cc") or decoder.root == "madc":
        unsigned = UNSIGNED[result.itemsize]
        a, b, c = (
            decoder.source(number, kind) for number, kind in enumerate((dtype, dtype, unsigned), 1)
        )
        total = lambda lanes: function(a(lanes), b(lanes)).view(unsigned)  # noqa: E731
        return with_carry(decoder, total, c)
    if decoder.has("sat"):
        return compute(
            decoder,
            [dtype, dtype, result],
            lambda a, b, c: clamped(function(a, b).astype(S64) + c, S32),
            S32,
        )
    return compute(
        decoder,
        [dtype, dtype, result],
        lambda a, b, c: function(a, b) + c,
        result,
        scalars=function is np.multiply,
    )


@operation("mul24", "mad24")
def _mul24(decoder: Decoder) -> Step:
    dtype = decoder.dtype
    wide = _WIDER[dtype]
    eight = dtype.type(8)
    shift = wide.type(16 if decoder.has("hi") else 0)

    def multiply_24(a: Array, b: Array) -> Array:
        x = ((a << eight) >> eight).astype(wide)
        y = ((b << eight) >> eight).astype(wide)
        return (x * y >> shift).astype(dtype)

    if decoder.root == "mul24":
        return compute(decoder, [dtype, dtype], multiply_24)
    add: Callable[[Array, Array], Array] = np.add
    if decoder.has("sat"):
        add = saturated(add, dtype)
    return compute(decoder, [dtype] * 3, lambda a, b, c: add(multiply_24(a, b), c))


def quotient(dtype: DType) -> Callable[[Array, Array], Array]:
    """Return the function for division toward zero; a division by zero gives all ones."""
    ones = ~dtype.type(0)
    if dtype.kind == "u":
        return lambda a, b: np.where(b == 0, ones, a // b)
    unsigned = UNSIGNED[dtype.itemsize]

    def signed(a: Array, b: Array) -> Array:
        result = (np.abs(a).view(unsigned) // np.abs(b).view(unsigned)).view(dtype)
        return np.where(b == 0, ones, np.where((a < 0) != (b < 0), -result, result))

    return signed


@operation("rem")
def _rem(decoder: Decoder) -> Step:
    return compute(decoder, [decoder.dtype] * 2, lambda a, b: np.where(b == 0, a, np.fmod(a, b)))


def minimum_or_maximum(decoder: Decoder, function: Callable[..., Any]) -> Step:
    """Decode min and max of integers."""
    half = _HALVES.get(decoder.type)
    if decoder.has("relu"):
        extreme = function
        function = lambda a, b: np.maximum(extreme(a, b), a.dtype.type(0))  # noqa: E731
    if half is not None:
        return compute(decoder, [U32, U32], pairs(function, half))
    return compute(decoder, [decoder.dtype] * 2, function)


@operation("sad")
def _sad(decoder: Decoder) -> Step:
    dtype = decoder.dtype
    unsigned = decoder.unsigned

    def run(a: Array, b: Array, c: Array) -> Array:
        x = a.view(unsigned)
        y = b.view(unsigned)
        return np.where(a > b, x - y, y - x) + c

    return compute(decoder, [dtype, dtype, unsigned], run, unsigned)
