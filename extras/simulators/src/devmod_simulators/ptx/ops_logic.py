"""Logic, shifts and comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step, operation
from devmod_simulators.ptx.formats import SMALLEST, any_nan, flush, reader, writer
from devmod_simulators.ptx.instructions import WITHOUT_EFFECT, names
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ops_integer import REDUCTIONS, compute, usual_type
from devmod_simulators.ptx.ops_move import joined
from devmod_simulators.ptx.ptx_types import (
    DTYPES,
    F32,
    FLOATS,
    PRED,
    REGISTERS,
    U16,
    U32,
    U64,
    UNSIGNED,
    Array,
    DType,
    Integer,
    Pair,
)


@operation("and", "or", "xor")
def _bitwise(decoder: Decoder) -> Step:
    return compute(decoder, [usual_type(decoder)] * 2, REDUCTIONS[decoder.root])


@operation("not")
def _not(decoder: Decoder) -> Step:
    return compute(decoder, [decoder.unsigned], np.invert)


operation("cnot")(
    lambda decoder: compute(decoder, [decoder.unsigned], lambda a: (a == 0).astype(a.dtype))
)


@operation("lop3")
def _lop3(decoder: Decoder) -> Step:
    operands = decoder.operands
    table = operands[4].value
    combine = decoder.first(("and", "or"))
    a, b, c = (decoder.source(number, U32) for number in (1, 2, 3))
    out, predicate = decoder.pair(U32, PRED)
    condition = decoder.source(5, PRED) if combine else None
    merge = REDUCTIONS.get(combine)

    def run(lanes: Lanes) -> None:
        # The operands for a bit 0 and a bit 1 of a minterm.
        of_a = _both(a(lanes))
        of_b = _both(b(lanes))
        of_c = _both(c(lanes))
        value = np.zeros(1, U32)
        for minterm in range(8):
            if table >> minterm & 1:
                value = value | (of_a[minterm >> 2] & of_b[minterm >> 1 & 1] & of_c[minterm & 1])
        out(lanes, value)
        if condition is not None and merge is not None:
            predicate(lanes, merge(value != 0, condition(lanes)))

    return run


def _both(value: Array) -> tuple[Array, Array]:
    return ~value, value


@operation("shl", "shr")
def _shift(decoder: Decoder) -> Step:
    left = decoder.root == "shl"
    dtype = usual_type(decoder) if left else decoder.dtype
    width = U32.type(8 * dtype.itemsize)
    function = np.left_shift if left else np.right_shift
    count = decoder.operands[2]
    if isinstance(count, Integer) and 0 <= count.value < width:
        return compute(decoder, [dtype, dtype], function)

    def run(a: Array, count: Array) -> Array:
        # NumPy defines shifts by the width and more: zeros, or the sign.
        return function(a, np.minimum(count, width).astype(dtype))

    return compute(decoder, [dtype, U32], run)


@operation("shf")
def _shf(decoder: Decoder) -> Step:
    left = decoder.has("l")
    wrap = decoder.has("wrap")

    def run(low: Array, high: Array, count: Array) -> Array:
        if wrap:
            count = count & U32.type(31)
        else:
            count = np.minimum(count, U32.type(32))
        both = (high.astype(U64) << np.uint64(32)) | low
        if left:
            return (both << count.astype(U64) >> np.uint64(32)).astype(U32)
        return (both >> count.astype(U64)).astype(U32)

    return compute(decoder, [U32, U32, U32], run)


def _ordered(function: Callable[..., Any]) -> Callable[[Array, Array], Array]:
    return lambda a, b: function(a, b) & ~any_nan(a, b)


def _unordered(function: Callable[..., Any]) -> Callable[[Array, Array], Array]:
    return lambda a, b: function(a, b) | any_nan(a, b)


_COMPARISONS: dict[str, Callable[..., Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
#: Comparisons of numbers that can be NaN. NumPy's are ordered except not_equal.
_FLOAT_COMPARISONS: dict[str, Callable[..., Any]] = {
    **_COMPARISONS,
    "ne": _ordered(np.not_equal),
    "equ": _unordered(np.equal),
    "neu": np.not_equal,
    "ltu": _unordered(np.less),
    "leu": _unordered(np.less_equal),
    "gtu": _unordered(np.greater),
    "geu": _unordered(np.greater_equal),
    "num": lambda a, b: ~any_nan(a, b),
    "nan": any_nan,
}


def _compared(decoder: Decoder, kind: str) -> tuple[Callable[..., Any], DType]:
    """Return the function of a comparison of values of `kind`, and the type in which registers give
    them.
    """
    table = _FLOAT_COMPARISONS if kind in FLOATS else _COMPARISONS
    function = table[decoder.first(table)]
    dtype = REGISTERS[kind]
    if not decoder.modifiers.isdisjoint(("lo", "ls", "hi", "hs")):
        dtype = UNSIGNED[dtype.itemsize]
    return function, dtype


def comparison(
    decoder: Decoder, kind: str
) -> tuple[Callable[[Lanes], Array], Callable[[Lanes, Array], Array]]:
    """Return the comparison of the second and third operand, as values of `kind`, and the function
    that combines its results with a fourth one.
    """
    read = reader(kind) if kind in FLOATS else None
    function, dtype = _compared(decoder, kind)
    a = decoder.source(1, dtype)
    b = decoder.source(2, dtype)
    base = kind.removesuffix("x2")
    ftz = decoder.has("ftz") and base in SMALLEST

    def compare(lanes: Lanes) -> Array:
        x = a(lanes)
        y = b(lanes)
        if read is not None:
            x = read(x)
            y = read(y)
            if ftz:
                x = flush(x, base)
                y = flush(y, base)
        return function(x, y)

    combine = REDUCTIONS.get(decoder.first(("and", "or", "xor")))
    if combine is None:
        return compare, lambda lanes, holds: holds
    condition = decoder.source(3, PRED)
    return compare, lambda lanes, holds: combine(holds, condition(lanes))


@operation("setp")
def _setp(decoder: Decoder) -> Step:
    kind = decoder.type
    has_two = isinstance(decoder.operands[0], Pair)
    is_plain = kind[-2:] in ("32", "64") and not decoder.has("ftz")
    if is_plain and len(decoder.operands) == 3 and not has_two:
        function, dtype = _compared(decoder, kind)
        return compute(decoder, [dtype, dtype], function, PRED)
    compare, combine = comparison(decoder, kind)
    first, second = decoder.pair(PRED, PRED)
    halves = kind.endswith("x2")

    def run(lanes: Lanes) -> None:
        holds = compare(lanes)
        if halves:
            holds, others = holds.T.copy()
            second(lanes, combine(lanes, others))
        elif has_two:
            second(lanes, combine(lanes, ~holds))
        first(lanes, combine(lanes, holds))

    return run


@operation("set")
def _set(decoder: Decoder) -> Step:
    result, kind = decoder.types
    compare, combine = comparison(decoder, kind)
    halves = kind.endswith("x2")
    base = result.removesuffix("x2")
    out = decoder.target(0, DTYPES[result])
    if base in FLOATS:
        true = writer(base)(np.ones(1, F32))
    else:
        true = ~np.zeros(1, U16 if halves else DTYPES[base])

    def values(lanes: Lanes, holds: Array) -> Array:
        return np.where(combine(lanes, holds), true, true.dtype.type(0))

    if halves:
        return lambda lanes: out(
            lanes, joined([values(lanes, half) for half in compare(lanes).T], U32)
        )
    return lambda lanes: out(lanes, values(lanes, compare(lanes)))


@operation("createpolicy")
def _createpolicy(decoder: Decoder) -> Step:
    # A cache that does not exist has no policy.
    out = decoder.target(0, U64)
    return lambda lanes: out(lanes, np.zeros(1, U64))


def nothing(decoder: Decoder) -> Step:
    """Decode an instruction without an effect here."""
    return lambda lanes: None


operation(*names(WITHOUT_EFFECT))(nothing)
