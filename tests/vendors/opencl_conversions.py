"""The conversions of OpenCL C between all types, with each rounding and saturation: exact
results.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

import devmod

INTEGERS = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
}
TYPES = {**INTEGERS, "half": "float16", "float": "float32", "double": "float64"}
MODES = ("", "_rte", "_rtz", "_rtp", "_rtn")
#: The infinite number of each type as the first power of two that it does not have.
BEYOND = {2: 2**16, 4: 2**128, 8: 2**1024}
WHOLE = [0, 1, 2, 3, 5, 127, 128, 255, 256, 2049, 2051, 32767, 32768, 65519, 65520, 65521, 65535]
WHOLE += [2**24 + 1, 2**24 + 3, 2**25 + 3, 2**31 - 1, 2**31, 2**32 - 1, 2**40 + 1, 2**53 + 1]
WHOLE += [2**53 + 3, 2**62 + 2**37 + 1, 2**63 - 513, 2**63 - 1, 2**63, 2**64 - 1]
REAL = [0, 0.49, 0.5, 1 / 3, 0.999, 1.5, 2.5, 126.5, 127.4, 127.5, 128.4, 128.5, 254.5, 255.5]
REAL += [
    2047.5,
    32767.5,
    32768.5,
    65504,
    65519,
    65520,
    123456.789,
    8388607.5,
    2147483520.0,
    2.0**31,
]
REAL += [
    2147483904.0,
    4294967040.0,
    2.0**32,
    2.0**63 - 2.0**39,
    2.0**63,
    2.0**64,
    1e30,
    3.5e38,
    1e39,
]
REAL += [1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-30, 6.1e-5, 6e-8, 3e-8, 2.9e-8, 1e-40, math.inf]


def values_of(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array([sign * each for each in REAL for sign in (1, -1)]).astype(dtype)
    limits = np.iinfo(dtype)
    signed = [sign * each for each in WHOLE for sign in (1, -1)]
    return np.array([each for each in signed if limits.min <= each <= limits.max], dtype)


def whole(value: Fraction, mode: str) -> int:
    """Round a number to an integer. That is toward zero without a mode."""
    round_ = {"_rte": round, "_rtp": math.ceil, "_rtn": math.floor}.get(mode, math.trunc)
    return int(round_(value))


def real(value: Fraction, dtype: np.dtype[Any], mode: str) -> Any:
    """Round a number to a floating-point one. That is to the nearest without a mode."""
    with np.errstate(over="ignore"):
        near = dtype.type(float(value))
        nearby = [
            near,
            np.nextafter(near, -dtype.type(np.inf)),
            np.nextafter(near, dtype.type(np.inf)),
        ]

    def exact(each: Any) -> Fraction:
        if np.isinf(each):
            return Fraction(BEYOND[dtype.itemsize]) * (1 if each > 0 else -1)
        return Fraction(float(each))

    if mode in ("", "_rte"):
        bits = f"uint{8 * dtype.itemsize}"
        return min(nearby, key=lambda each: (abs(exact(each) - value), int(each.view(bits)) & 1))
    largest = np.finfo(dtype).max
    if abs(value) > exact(largest):
        low, high = (largest, dtype.type(np.inf)) if value > 0 else (dtype.type(-np.inf), -largest)
    else:
        low = max((each for each in nearby if exact(each) <= value), key=exact)
        high = min((each for each in nearby if exact(each) >= value), key=exact)
    if mode == "_rtz":
        return low if value > 0 else high
    return high if mode == "_rtp" else low


def expected(value: Any, dtype: np.dtype[Any], saturation: str, mode: str) -> Any:
    """Return the result of a conversion; None if OpenCL leaves it open."""
    is_infinite = not np.isfinite(value)
    if dtype.kind == "f":
        if is_infinite:
            return dtype.type(value)
        return real(Fraction(value.item()), dtype, mode)
    limits = np.iinfo(dtype)
    if is_infinite:
        return (limits.max if value > 0 else limits.min) if saturation else None
    result = whole(Fraction(value.item()), mode)
    if saturation:
        return min(max(result, limits.min), limits.max)
    if limits.min <= result <= limits.max:
        return result
    if value.dtype.kind == "f":
        return None
    return int(np.array(result % 2**64, "uint64").astype(dtype))  # C's conversion


def wrong_conversions(source: str, target: str, device: Any) -> list[str]:
    """Return the conversions of a type whose results are not exact, with the values.

    Parameters
    ----------
    source
        The type.
    target
        The target for which the kernel is compiled.
    device
        The device that runs it.
    """
    values = values_of(np.dtype(TYPES[source]))
    cases = [
        (type_, saturation, mode)
        for type_ in TYPES
        for saturation in (("", "_sat") if type_ in INTEGERS else ("",))
        for mode in MODES
    ]
    lines = []
    for number, (type_, saturation, mode) in enumerate(cases):
        suffix = f"{saturation}{mode}"
        lines.append(f"{type_} a{number} = convert_{type_}{suffix}(v);")
        lines.append(f"{type_} b{number} = convert_{type_}4{suffix}(({source}4)(v)).z;")
        place = f"out + 8 * (i * {2 * len(cases)} + {2 * number})"
        lines.append(f"*(global {type_} *)({place}) = a{number};")
        lines.append(f"*(global {type_} *)({place} + 8) = b{number};")
    text = (
        "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
        f"kernel void k(global const {source} *x, global uchar *out) {{\n"
        f"size_t i = get_global_id(0); {source} v = x[i];\n" + "\n".join(lines) + "\n}"
    )
    out = np.zeros((values.size, len(cases), 2, 8), "uint8")
    kernel = devmod.compile(text, target, language="OpenCL C")["k"]
    kernel.on(device)(values, out, grid=1, block=values.size)
    problems = []
    for number, (type_, saturation, mode) in enumerate(cases):
        dtype = np.dtype(TYPES[type_])
        for value, each in zip(values, out[:, number], strict=True):
            exact = expected(value, dtype, saturation, mode)
            results = [lanes[: dtype.itemsize].view(dtype)[0] for lanes in each]
            if exact is not None and not all(result == exact for result in results):
                problems.append(
                    f"convert_{type_}{saturation}{mode}({value!r}): {results}, expected {exact!r}"
                )
    return problems
