"""Operations of the two or four numbers in a register: vadd4, vabsdiff4 and their kin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step, operation
from devmod_simulators.ptx.ops_integer import compute
from devmod_simulators.ptx.ptx_types import S64, U32, Array

_COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _average(a: Array, b: Array) -> Array:
    total = a + b
    return (total + (total >= 0)) >> 1


_FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vavrg": _average,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}


def _numbers(value: Array, kind: str, bits: int) -> Array:
    """Return the numbers in registers: a row for each register, the lowest number first."""
    shifts = np.arange(0, 32, bits, dtype=U32)
    parts = (value[:, None] >> shifts & U32.type((1 << bits) - 1)).astype(S64)
    if kind == "s32":
        parts -= parts >> bits - 1 << bits
    return parts


@operation(*(f"{name}{count}" for name in (*_FUNCTIONS, "vset") for count in (2, 4)))
def _video(decoder: Decoder) -> Step:
    name, count = decoder.root[:-1], int(decoder.root[-1])
    bits = 32 // count
    compares = name == "vset"
    function = _COMPARISONS[decoder.first(_COMPARISONS)] if compares else _FUNCTIONS[name]
    *result, first, second = decoder.types
    low, high = 0, (1 << bits) - 1
    if result == ["s32"]:
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    saturates = decoder.has("sat")
    adds = decoder.has("add")
    shifts = np.arange(0, 32, bits, dtype=S64)

    def run(a: Array, b: Array, c: Array) -> Array:
        value = function(_numbers(a, first, bits), _numbers(b, second, bits)).astype(S64)
        if saturates:
            value = np.clip(value, low, high)
        if adds:
            return (value.sum(axis=1) + c).astype(U32)
        parts = (value & ((1 << bits) - 1)) << shifts
        return parts.sum(axis=1).astype(U32)

    return compute(decoder, [U32, U32, U32], run)
