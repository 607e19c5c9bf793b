"""The built-in functions of OpenCL C compute as source and as SPIR-V what NumPy and Python do, one
by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import opencl_functions as functions
import pytest
from test_il_kernels import run
from test_il_kernels import target as target  # the fixture

import devmod

#: The elements of the copies.
COPIED = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "float": "float32",
    "double": "float64",
}
#: Expressions of a float v from -7 to 7, with the exact value of a double, and the error relative
#: to 1 + |exact|.
FLOATS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "acos(v / 7)": (lambda v: np.arccos(v / 7), 4e-7),
    "acosh(fabs(v) + 1)": (lambda v: np.arccosh(np.abs(v) + 1), 5e-7),
    "acospi(v / 7)": (lambda v: np.arccos(v / 7) / math.pi, 4e-7),
    "asin(v / 7)": (lambda v: np.arcsin(v / 7), 4e-7),
    "asinh(v)": (np.arcsinh, 5e-7),
    "asinpi(v / 7)": (lambda v: np.arcsin(v / 7) / math.pi, 4e-7),
    "atan(v)": (np.arctan, 4e-7),
    "atan2(v, -1.5f)": (lambda v: np.arctan2(v, -1.5), 5e-7),
    "atan2pi(v, -1.5f)": (lambda v: np.arctan2(v, -1.5) / math.pi, 5e-7),
    "atanh(v / 8)": (lambda v: np.arctanh(v / 8), 5e-7),
    "atanpi(v)": (lambda v: np.arctan(v) / math.pi, 4e-7),
    "cbrt(v)": (np.cbrt, 4e-7),
    "ceil(v) + 10 * floor(v) + 100 * trunc(v)": (
        lambda v: np.ceil(v) + 10 * np.floor(v) + 100 * np.trunc(v),
        0,
    ),
    "copysign(3.0f, v)": (lambda v: np.copysign(3, v), 0),
    "cos(v)": (np.cos, 1e-6),
    "cosh(v)": (np.cosh, 1e-6),
    "cospi(v)": (lambda v: np.cos(math.pi * v), 2e-6),
    "erf(v)": (np.vectorize(math.erf), 1e-6),
    "erfc(v)": (np.vectorize(math.erfc), 1e-6),
    "exp(v)": (np.exp, 1e-6),
    "exp10(v)": (lambda v: 10**v, 2e-6),
    "exp2(v)": (lambda v: 2**v, 1e-6),
    "expm1(v)": (np.expm1, 1e-6),
    "fdim(v, 1.0f)": (lambda v: np.maximum(v - 1, 0), 1e-7),
    "fma(v, v, 1.0f) + mad(v, 2.0f, v)": (lambda v: v * v + 1 + 3 * v, 3e-7),
    "fmax(v, 1.0f) + 10 * fmin(v, -1.0f)": (
        lambda v: np.maximum(v, 1) + 10 * np.minimum(v, -1),
        2e-7,
    ),
    "fmod(v, 0.75f)": (lambda v: np.fmod(v, 0.75), 0),
    "hypot(v, 3.0f)": (lambda v: np.hypot(v, 3), 4e-7),
    "ilogb(v) + 100 * logb(v)": (lambda v: 101 * (np.frexp(v)[1] - 1), 0),
    "ldexp(v, 3) + ldexp(v, -140)": (lambda v: v * 8, 0),
    "log(fabs(v)) + log2(fabs(v)) + log10(fabs(v)) + log1p(fabs(v))": (
        lambda v: (
            np.log(np.abs(v)) + np.log2(np.abs(v)) + np.log10(np.abs(v)) + np.log1p(np.abs(v))
        ),
        2e-6,
    ),
    "maxmag(v, -2.0f) + 10 * minmag(v, -2.0f)": (
        lambda v: np.where(np.abs(v) > 2, v, -2.0) + 10 * np.where(np.abs(v) < 2, v, -2.0),
        2e-7,
    ),
    "nextafter(v, 9.0f)": (lambda v: np.nextafter(v.astype("float32"), np.float32(9)), 0),
    "pow(fabs(v), 1.5f) + pow(v, 3.0f)": (lambda v: np.abs(v) ** 1.5 + v**3, 3e-6),
    "pown(v, 3) + powr(fabs(v), 0.5f)": (lambda v: v**3 + np.sqrt(np.abs(v)), 3e-6),
    "remainder(v, 0.75f)": (np.vectorize(lambda v: math.remainder(v, 0.75)), 0),
    "rint(v) + 10 * round(v)": (lambda v: np.rint(v) + 10 * np.trunc(v + np.copysign(0.5, v)), 0),
    "rootn(v, 3)": (np.cbrt, 1e-6),
    "rsqrt(fabs(v) + 1) + sqrt(fabs(v))": (
        lambda v: 1 / np.sqrt(np.abs(v) + 1) + np.sqrt(np.abs(v)),
        6e-7,
    ),
    "sin(v)": (np.sin, 1e-6),
    "sinh(v)": (np.sinh, 1e-6),
    "sinpi(v)": (lambda v: np.sin(math.pi * v), 2e-6),
    "tan(v / 8)": (lambda v: np.tan(v / 8), 6e-7),
    "tanh(v)": (np.tanh, 1e-6),
    "tanpi(v / 16)": (lambda v: np.tan(math.pi * v / 16), 2e-5),
    "native_sin(v) + native_cos(v)": (lambda v: np.sin(v) + np.cos(v), 3e-5),
    "native_exp(v / 4) + native_exp2(v / 4) + native_exp10(v / 4)": (
        lambda v: np.exp(v / 4) + 2 ** (v / 4) + 10 ** (v / 4),
        2e-4,
    ),
    "native_log(fabs(v)) + native_log2(fabs(v)) + native_log10(fabs(v))": (
        lambda v: np.log(np.abs(v)) + np.log2(np.abs(v)) + np.log10(np.abs(v)),
        2e-4,
    ),
    "native_divide(v, 3.0f) + native_recip(v) + native_sqrt(fabs(v)) + native_rsqrt(fabs(v))": (
        lambda v: v / 3 + 1 / v + np.sqrt(np.abs(v)) + 1 / np.sqrt(np.abs(v)),
        2e-4,
    ),
    "native_powr(fabs(v), 1.5f) + native_tan(v / 8)": (
        lambda v: np.abs(v) ** 1.5 + np.tan(v / 8),
        3e-4,
    ),
    "degrees(v) + radians(v)": (lambda v: np.degrees(v) + np.radians(v), 4e-7),
    "mix(v, 1.0f, 0.25f) + smoothstep(-2.0f, 2.0f, v) + step(1.0f, v) + sign(v)": (
        lambda v: (
            v
            + (1 - v) * 0.25
            + (t := np.clip((v + 2) / 4, 0, 1)) * t * (3 - 2 * t)
            + (v >= 1)
            + np.sign(v)
        ),
        5e-7,
    ),
    "length((float3)(v, 1, 2)) + distance((float2)(v, 1), (float2)(0, 2)) + fast_length((float2)(v, 1))": (
        lambda v: np.sqrt(v * v + 5) + 2 * np.sqrt(v * v + 1),
        1e-6,
    ),
    "normalize((float4)(v, 1, 2, 3)).x + fast_normalize((float2)(v, 1)).y": (
        lambda v: v / np.sqrt(v * v + 14) + 1 / np.sqrt(v * v + 1),
        2e-4,
    ),
    "isnan(v * NAN) + 2 * isinf(v * INFINITY) + 4 * isfinite(v) + 8 * isnormal(v) + 16 * signbit(v) + 32 * isless(v, 1.0f)": (
        lambda v: 15 + 16 * np.signbit(v) + 32 * (v < 1),
        0,
    ),
    "isequal(v, v) + 2 * isunordered(v, NAN) + 4 * isordered(v, v) + 8 * islessgreater(v, 1.0f) + 16 * isgreaterequal(v, 1.0f)": (
        lambda v: 7 + 8 * (v != 1) + 16 * (v >= 1),
        0,
    ),
    "-isequal((float2)(v), (float2)(v)).y + any((int2)(v < 0 ? -1 : 0, 0)) * 2": (
        lambda v: 1 + 2 * (v < 0),
        0,
    ),
    "vload_half(0, h) * 0 + convert_float(convert_half(v))": (lambda v: v.astype("float16"), 0),
    "sub_group_any(1) + sub_group_all(1) * 2": (lambda v: np.full_like(v, 3), 0),
    "work_group_reduce_add(v) + work_group_reduce_max(v)": (
        lambda v: np.full_like(v, v.sum() + v.max()),
        2e-6,
    ),
    "work_group_scan_inclusive_add(v) + fmax(work_group_scan_exclusive_max(v), -100.0f)": (
        lambda v: np.cumsum(v) + np.concatenate([[-100], np.maximum.accumulate(v)[:-1]]),
        2e-6,
    ),
    "work_group_broadcast(v, 3) + work_group_any(i == 5) + work_group_all(i < 5)": (
        lambda v: np.full_like(v, v[3] + 1),
        1e-7,
    ),
}


def test_the_functions_of_floats(target: str) -> None:
    values = np.array(
        [-7, -6.125, -4.5, -3.3, -2.5, -1.7, -1, -0.3, 0.2, 0.5, 1, 1.5, 2.25, 3.9, 5.5, 7],
        "float32",
    )
    # PoCL 3 has neither sub-groups nor the functions of work-groups of OpenCL C 2.0, and no
    # conversion from float to half.
    calls = {
        name: each
        for name, each in FLOATS.items()
        if target != "source" or not name.startswith(("sub_group", "work_group", "vload_half"))
    }
    stores = "".join(f"o[{number}] = {expression};\n" for number, expression in enumerate(calls))
    text = (
        "//devmod: -cl-std=CL2.0\nkernel void f(global const float *x, global float *out, global const half *h) {\n"
        f"int i = get_global_id(0); float v = x[i]; global float *o = out + i * {len(calls)};\n{stores}}}\n"
    )
    out = np.zeros((16, len(calls)), "float32")
    run(target, "f", values, out, np.zeros(4, "float16"), grid=1, block=16, text=text)
    problems = []
    for number, (expression, (exact, bound)) in enumerate(calls.items()):
        expected = np.asarray(exact(values.astype("float64")), "float64")
        error = np.max(np.abs(out[:, number] - expected) / (1 + np.abs(expected)))
        if not error <= max(bound, 6e-8 * (bound > 0)):
            problems.append(
                f"{expression}: {error:.1e} at {values[np.argmax(np.abs(out[:, number] - expected))]}"
            )
    assert problems == []


#: The vectors of each function and width, few of them in `make test`.
VECTORS = [64, pytest.param(4096, marks=pytest.mark.volume)]


@pytest.mark.parametrize("count", VECTORS)
@pytest.mark.parametrize(
    ("type_", "name"),
    [(type_, name) for type_ in ("float", "double") for name in functions.geometrics(type_)],
)
def test_geometric_functions(type_: str, name: str, count: int, target: str) -> None:
    """Each width within OpenCL's bounds of error, over lengths of all exponents."""

    def launch(source: str, kernel: str, arguments: Any) -> None:
        run(target, kernel, *arguments, grid=len(arguments[0]) // 32, block=32, text=source)

    assert functions.wrong_geometric(launch, type_, name, count) == []


COPIES = """
kernel void k(global const {type_} *x, global {type_} *y, local {type_} *part, local {type_} *gathered) {{
    size_t group = get_group_id(0), l = get_local_id(1) * get_local_size(0) + get_local_id(0), n = {count}, step = {step};
    event_t event[2];
    event[0] = async_work_group_copy(part, x + group * n, n, 0);
    event[1] = async_work_group_strided_copy(gathered, x + group, n, step, 0);
    wait_group_events(2, event);
    if (l < n) {{ {type_} t = gathered[l]; gathered[l] = part[l]; part[l] = t; }}
    barrier(CLK_LOCAL_MEM_FENCE);
    event_t last = async_work_group_copy(y + group * 2 * n, (local const {type_} *)part, n, 0);
    wait_group_events(1, &last);
    last = async_work_group_strided_copy(y + 256 + group, (local const {type_} *)gathered, n, step, 0);
    wait_group_events(1, &last);
}}
"""


@pytest.mark.volume_but(
    *("char", "ushort3", "float4"), *("SPIR-V-char", "SPIR-V-ushort3", "SPIR-V-double16")
)
@pytest.mark.parametrize(
    "type_", [f"{each}{lanes}" for each in COPIED for lanes in ("", 2, 3, 4, 8, 16)]
)
def test_copies_of_a_group(type_: str, target: str) -> None:
    """Of more and of fewer elements than threads, in a block of two dimensions."""
    lanes = int(type_.lstrip("abcdefghijklmnopqrstuvwxyz") or 1)
    dtype = COPIED[type_.rstrip("0123456789")]
    stored = 4 if lanes == 3 else lanes
    x = np.random.default_rng(17).integers(0, 100, (512, stored)).astype(dtype)
    for count, step in ((5, 3), (24, 2), (40, 7)):
        y = np.zeros((768, stored), dtype)
        local = [devmod.Local(count * stored * x.itemsize)] * 2
        text = COPIES.format(type_=type_, count=count, step=step)
        run(target, "k", x.ravel(), y.ravel(), *local, grid=2, block=(8, 6), text=text)
        expected = np.zeros_like(y)
        for group in range(2):
            expected[group * 2 * count :][:count] = x[group : group + count * step : step]
        for group in range(2):
            expected[256 + group : 256 + group + count * step : step] = x[group * count :][:count]
        np.testing.assert_array_equal(y[:, :lanes], expected[:, :lanes])
