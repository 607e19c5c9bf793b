"""ROCm: the functions of HIP's headers are those of tools/rocm_functions.py, and machine code of
gfx1100 computes what NumPy and Python do.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import code_of
from clang import cindex
from device_library import DEVICE_LIBS, needs_device_libs
from each_case import raised

import devmod
from devmod_standins import rdna3
from devmod_targets._text import header_files

pytestmark = pytest.mark.once  # what clang makes of a source
ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

from rocm_functions import FUNCTIONS  # noqa: E402

GFX1100 = "rocm -arch=gfx1100"
HEADERS = "".join(
    f"#include <hip/{name}.h>\n"
    for name in (
        "hip_runtime",
        "hip_fp16",
        "hip_bf16",
        "hip_bfloat16",
        "hip_complex",
        "hip_cooperative_groups",
    )
)
needs_emulator = pytest.mark.skipif(bool(rdna3.missing()), reason=rdna3.missing() or "-")


def listed() -> dict[str, list[str]]:
    """Return the functions of all sections by their state."""
    states: dict[str, list[str]] = {}
    for section in FUNCTIONS.values():
        for state, names in section.items():
            states.setdefault(state, []).extend(names.split())
    return states


def test_the_headers_declare_the_functions_of_the_page() -> None:
    states = listed()
    lines = [name for names in states.values() for name in names]
    assert len(lines) == len(set(lines)) > 400
    # #line gives an error the number of its function.
    uses = "".join(
        f'#line {number} "functions"\nusing ::{name};\n' for number, name in enumerate(lines)
    )
    source = f"{HEADERS}namespace page {{\n{uses}}}\n__global__ void k(int *x) {{}}\n"
    error = raised(
        devmod.CompileError,
        devmod.compile,
        source,
        GFX1100,
        language="HIP",
        options=["-ferror-limit=0"],
    )
    unknown = {
        lines[int(number)]
        for number in re.findall(
            r"^functions:(\d+):\d+: error: no member named", error.log, re.MULTILINE
        )
    }
    assert unknown == set(states["no"])


#: Expressions of a float v from -7 to 7, with the exact value of a double, and the error relative
#: to 1 + |exact|.
FLOATS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "atanf(v)": (np.arctan, 2e-7),
    "asinf(v / 7)": (lambda v: np.arcsin(v / 7), 3e-7),
    "acosf(v / 7)": (lambda v: np.arccos(v / 7), 3e-7),
    "atan2f(v, -1.5f)": (lambda v: np.arctan2(v, -1.5), 3e-7),
    "tanf(v / 8)": (lambda v: np.tan(v / 8), 3e-7),
    "asinhf(v)": (np.arcsinh, 3e-7),
    "acoshf(fabsf(v) + 1)": (lambda v: np.arccosh(np.abs(v) + 1), 4e-7),
    "atanhf(v / 8)": (lambda v: np.arctanh(v / 8), 3e-7),
    "expm1f(v)": (np.expm1, 3e-7),
    "log1pf(fabsf(v))": (lambda v: np.log1p(np.abs(v)), 3e-7),
    "log2f(fabsf(v) + 1)": (lambda v: np.log2(np.abs(v) + 1), 3e-7),
    "exp10f(v)": (lambda v: 10**v, 1e-6),
    "cbrtf(v)": (np.cbrt, 3e-7),
    "rcbrtf(v)": (lambda v: 1 / np.cbrt(v), 3e-7),
    "hypotf(v, 3)": (lambda v: np.hypot(v, 3), 3e-7),
    "rhypotf(v, 3)": (lambda v: 1 / np.hypot(v, 3), 3e-7),
    "norm3df(v, 1, 2)": (lambda v: np.sqrt(v * v + 5), 3e-7),
    "rnorm3df(v, 1, 2)": (lambda v: 1 / np.sqrt(v * v + 5), 3e-7),
    "norm4df(v, 1, 2, 3)": (lambda v: np.sqrt(v * v + 14), 3e-7),
    "rnorm4df(v, 1, 2, 3)": (lambda v: 1 / np.sqrt(v * v + 14), 3e-7),
    "sinpif(v)": (lambda v: np.sin(math.pi * v), 1e-6),
    "cospif(v)": (lambda v: np.cos(math.pi * v), 1e-6),
    "erfcf(v)": (np.vectorize(math.erfc), 1e-6),
    "erfcxf(fabsf(v) / 4)": (
        np.vectorize(lambda v: math.erfc(abs(v) / 4) * math.exp(v * v / 16)),
        1e-6,
    ),
    "normcdff(v)": (np.vectorize(lambda v: math.erfc(-v / math.sqrt(2)) / 2), 1e-6),
    "erff(erfinvf(v / 8))": (lambda v: v / 8, 1e-6),
    "remainderf(v, 0.75f)": (np.vectorize(lambda v: math.remainder(v, 0.75)), 0),
    "fdimf(v, 1)": (lambda v: np.maximum(v - 1, 0), 1e-7),
    "ldexpf(v, 3)": (lambda v: v * 8, 0),
    "scalbnf(v, -3)": (lambda v: v / 8, 0),
    "scalblnf(v, 2)": (lambda v: v * 4, 0),
    "ilogbf(v)": (lambda v: np.frexp(v)[1] - 1, 0),
    "logbf(v)": (lambda v: np.frexp(v)[1] - 1, 0),
    "rintf(v) + nearbyintf(v)": (lambda v: 2 * np.rint(v), 0),
    "lrintf(v)": (np.rint, 0),
    "llrintf(v)": (np.rint, 0),
    "lroundf(v)": (lambda v: np.trunc(v + np.copysign(0.5, v)), 0),
    "llroundf(v)": (lambda v: np.trunc(v + np.copysign(0.5, v)), 0),
    "nextafterf(v, 9)": (lambda v: np.nextafter(v.astype("float32"), np.float32(9)), 0),
    "min(v, 1.0f)": (lambda v: np.minimum(v, 1), 0),
    "max(v, 1.0f)": (lambda v: np.maximum(v, 1), 0),
    "abs(v)": (np.abs, 0),
    "signbit(v)": (np.signbit, 0),
    "isnan(v / 0.0f * 0)": (np.ones_like, 0),
    "isinf(v / 0.0f)": (np.ones_like, 0),
    "isfinite(v)": (np.ones_like, 0),
    "isnormal(v)": (np.ones_like, 0),
    "__saturatef(v)": (lambda v: np.clip(v, 0, 1), 0),
    "__fadd_rn(v, 1)": (lambda v: v + 1, 1e-7),
    "__fsub_rn(v, 1)": (lambda v: v - 1, 1e-7),
    "__fmul_rn(v, v) - v * 0": (lambda v: v * v, 1e-7),
    "__fdiv_rn(v, 3)": (lambda v: v / 3, 1e-7),
    "__fmaf_rn(v, v, 1)": (lambda v: v * v + 1, 1e-7),
    "__fsqrt_rn(fabsf(v))": (lambda v: np.sqrt(np.abs(v)), 1e-7),
    "__frsqrt_rn(fabsf(v) + 1)": (lambda v: 1 / np.sqrt(np.abs(v) + 1), 2e-7),
    "__frcp_rn(v)": (lambda v: 1 / v, 1e-7),
    "__expf(v)": (np.exp, 1e-6),
    "__exp10f(v)": (lambda v: 10**v, 2e-6),
    "__logf(fabsf(v) + 1)": (lambda v: np.log(np.abs(v) + 1), 1e-6),
    "__log2f(fabsf(v) + 1)": (lambda v: np.log2(np.abs(v) + 1), 1e-6),
    "__log10f(fabsf(v) + 1)": (lambda v: np.log10(np.abs(v) + 1), 1e-6),
    "__powf(fabsf(v) + 1, 1.5f)": (lambda v: (np.abs(v) + 1) ** 1.5, 1e-6),
    "__fdividef(v, 3)": (lambda v: v / 3, 1e-6),
    "fdividef(v, 3)": (lambda v: v / 3, 1e-7),
    "__float2int_rn(v)": (np.rint, 0),
    "__float2int_rz(v)": (np.trunc, 0),
    "__float2int_ru(v)": (np.ceil, 0),
    "__float2int_rd(v)": (np.floor, 0),
    "__float2ll_rd(v)": (np.floor, 0),
    "__double2int_rn((double)v)": (np.rint, 0),
    "__double2ll_ru((double)v)": (np.ceil, 0),
    "__double2float_rn((double)v)": (lambda v: v, 0),
    "__hiloint2double(__double2hiint((double)v), __double2loint((double)v))": (lambda v: v, 0),
    "__half2float(__hmul(__float2half(v), __float2half(2)))": (lambda v: 2 * v, 2e-3),
    "__half2float(__hfma2(__float2half2_rn(v), __float2half2_rn(2), __float2half2_rn(1)).y)": (
        lambda v: 2 * v + 1,
        2e-3,
    ),
    "__half2float(hexp(__float2half(v / 4)))": (lambda v: np.exp(v / 4), 2e-3),
    "__half2float(__hmax(__float2half(v), __float2half(1)))": (lambda v: np.maximum(v, 1), 2e-3),
    "__half2short_rn(__float2half(v * 8192))": (
        lambda v: np.clip(np.rint((v * 8192).astype("float16").astype("float64")), -32768, 32767),
        0,
    ),
    "__half2ushort_rn(__float2half(v * 8192))": (
        lambda v: np.clip(np.rint((v * 8192).astype("float16").astype("float64")), 0, 65535),
        0,
    ),
    "__half2int_rn(__float2half(v))": (lambda v: np.rint(v.astype("float16")), 0),
    "__bfloat162float(__float2bfloat16(v))": (lambda v: v, 4e-3),
    "__bfloat162float(__hadd(__float2bfloat16(v), __float2bfloat16(1)))": (lambda v: v + 1, 8e-3),
    "(float)(hip_bfloat16(v) * hip_bfloat16(2.0f))": (lambda v: 2 * v, 4e-3),
    "hipCabsf(hipCmulf(make_hipFloatComplex(v, 1), make_hipFloatComplex(0, 1)))": (
        lambda v: np.sqrt(v * v + 1),
        2e-7,
    ),
}
#: Where a function of float may be wrong though it is right from -7 to 7.
#: The emulator has errors: v_ldexp_f32 by 128 is infinite, and a quotient of denormals is that of
#: zeros.
EDGE_VALUES = (
    *(
        0.0,
        1e-45,
        1e-39,
        1e-20,
        0.25,
        0.5,
        1.0,
        1.5,
        3.0,
        9.5,
        85.0,
        88.25,
        89.0,
        1e4,
        8388609.0,
        16777216.0,
        1e20,
        3e38,
        math.inf,
    ),
    *(
        -0.0,
        -1e-45,
        -1e-39,
        -0.25,
        -1.0,
        -2.5,
        -3.0,
        -85.0,
        -89.0,
        -1e4,
        -3e38,
        -math.inf,
        math.nan,
    ),
)
#: Expressions of such a float v, with the exact value of a double, and the error relative to 1 +
#: |exact|.
EDGES: dict[str, tuple[Callable[[Any], Any], float]] = {
    "atanf(v)": (np.arctan, 2e-7),
    "asinf(v)": (np.arcsin, 3e-7),
    "acosf(v)": (np.arccos, 3e-7),
    "atan2f(v, -1.5f)": (lambda v: np.arctan2(v, -1.5), 3e-7),
    "atan2f(v, v)": (lambda v: np.arctan2(v, v), 3e-7),
    "asinhf(v)": (np.arcsinh, 3e-7),
    "acoshf(v)": (np.arccosh, 4e-7),
    "atanhf(v)": (np.arctanh, 3e-7),
    "sinhf(v)": (np.sinh, 4e-7),
    "coshf(v)": (np.cosh, 4e-7),
    "tanhf(v)": (np.tanh, 2e-7),
    "expm1f(v)": (np.expm1, 3e-7),
    "log1pf(v)": (np.log1p, 3e-7),
    "cbrtf(v)": (np.cbrt, 3e-7),
    "rcbrtf(v)": (lambda v: 1 / np.cbrt(v), 4e-7),
    "sinpif(v)": (
        np.vectorize(lambda v: math.copysign(0, v) if v % 1 == 0 else np.sin(math.pi * v)),
        1e-6,
    ),
    "cospif(v)": (
        np.vectorize(lambda v: math.cos(math.pi * (v % 2)) if abs(v) < math.inf else math.nan),
        1e-6,
    ),
    "erff(v)": (np.vectorize(math.erf), 5e-7),
    "erfcf(v)": (np.vectorize(math.erfc), 1e-6),
    "normcdff(v)": (np.vectorize(lambda v: math.erfc(-v / math.sqrt(2)) / 2), 1e-6),
    "erfinvf(v < 0 ? -1.0f : 1.0f)": (lambda v: np.where(v < 0, -math.inf, math.inf), 0),
    "powf(v, 3)": (lambda v: np.power(v, 3), 3e-6),
    "powf(v, -1)": (lambda v: np.power(v, -1), 3e-6),
    "powf(v, -2)": (lambda v: np.power(v, -2), 3e-6),
    "powf(v, 0.75f)": (lambda v: np.power(v, 0.75), 1e-5),
    "powf(v, 0)": (np.ones_like, 0),
    "powf(1, v)": (np.ones_like, 0),
    "powf(-1, v)": (lambda v: np.power(-1.0, v), 0),
    "powf(2, v)": (lambda v: np.power(2.0, v), 3e-6),
    "powf(-0.0f, v)": (lambda v: np.power(-0.0, v), 0),
    "pow(v, 2l) + pow(v, 2u)": (lambda v: 2 * v * v, 3e-6),
}
DIVIDING = ("rcbrtf", "atan2f(v, v)", "powf(v, -")
#: Those that are exact for large angles with the device library alone.
ANGLES: dict[str, tuple[Callable[[Any], Any], float]] = {
    "sinf(v)": (np.sin, 3e-7),
    "cosf(v)": (np.cos, 3e-7),
    "tanf(v)": (np.tan, 5e-7),
}
#: Expressions of a double d from -7 to 7.
DOUBLES: dict[str, tuple[Callable[[Any], Any], float]] = {
    "sqrt(fabs(d))": (lambda d: np.sqrt(np.abs(d)), 1e-15),
    "rsqrt(fabs(d) + 1)": (lambda d: 1 / np.sqrt(np.abs(d) + 1), 1e-15),
    "fma(d, d, 1.0)": (lambda d: d * d + 1, 1e-15),
    "floor(d) + ceil(d) + trunc(d) + rint(d)": (
        lambda d: np.floor(d) + np.ceil(d) + np.trunc(d) + np.rint(d),
        0,
    ),
    "fmod(d, 0.75)": (lambda d: np.fmod(d, 0.75), 0),
    "remainder(d, 0.75)": (np.vectorize(lambda d: math.remainder(d, 0.75)), 0),
    "hypot(d, 3.0)": (lambda d: np.hypot(d, 3), 1e-15),
    "nextafter(d, 9.0)": (lambda d: np.nextafter(d, 9), 0),
    "ldexp(d, 3)": (lambda d: d * 8, 0),
    "ilogb(d)": (lambda d: np.frexp(d)[1] - 1, 0),
    "fmax(d, 1.0) + fmin(d, 1.0)": (lambda d: d + 1, 1e-15),
    "copysign(1.0, d)": (np.sign, 0),
    "isinf(1e300 * d * 0 + 1e300)": (np.zeros_like, 0),
    "__dmul_rn(d, d)": (lambda d: d * d, 1e-15),
    "__ddiv_rn(d, 3.0)": (lambda d: d / 3, 1e-15),
}


def _signed(x: int, bits: int = 32) -> int:
    return (x + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _field(x: int, count: int) -> int:
    return x & ((1 << count) - 1)


def _long(a: int, b: int) -> int:
    return a << 32 | b


#: Expressions of the unsigned a and b and of the shift s, with their value modulo 2 to the 64.
INTEGERS: dict[str, Callable[[int, int, int], int]] = {
    "__popc(a)": lambda a, b, s: a.bit_count(),
    "__popcll((unsigned long long)a << 32 | b)": lambda a, b, s: a.bit_count() + b.bit_count(),
    "__clz(a)": lambda a, b, s: 32 - a.bit_length(),
    "__clzll((unsigned long long)a << 32 | b)": lambda a, b, s: 64 - _long(a, b).bit_length(),
    "__ffs(a)": lambda a, b, s: (a & -a).bit_length(),
    "__ffsll((unsigned long long)a << 32)": lambda a, b, s: (a << 32 & -(a << 32)).bit_length(),
    "__brev(a)": lambda a, b, s: int(f"{a:032b}"[::-1], 2),
    "__brevll((unsigned long long)a << 32 | b)": lambda a, b, s: int(
        f"{_long(a, b):064b}"[::-1], 2
    ),
    # The emulator multiplies all bits of the operands of v_mul_i32_i24 and v_mul_u32_u24.
    "(unsigned)__mul24((int)(a & 0xfffff), (int)(b & 0xfffff))": lambda a, b, s: (
        (a & 0xFFFFF) * (b & 0xFFFFF) % 2**32
    ),
    "__umul24(a & 0xfffff, b & 0xfffff)": lambda a, b, s: (a & 0xFFFFF) * (b & 0xFFFFF) % 2**32,
    "(unsigned)__mulhi((int)a, (int)b)": lambda a, b, s: (_signed(a) * _signed(b) >> 32) % 2**32,
    "__umulhi(a, b)": lambda a, b, s: a * b >> 32,
    "__umul64hi((unsigned long long)a << 32 | b, (unsigned long long)b << 32 | a)": lambda a, b, s: (
        _long(a, b) * _long(b, a) >> 64
    ),
    "__mul64hi((long long)a << 32, (long long)b << 32)": lambda a, b, s: _signed(a) * _signed(b),
    "(unsigned)__hadd((int)a, (int)b)": lambda a, b, s: (_signed(a) + _signed(b) >> 1) % 2**32,
    "(unsigned)__rhadd((int)a, (int)b)": lambda a, b, s: (_signed(a) + _signed(b) + 1 >> 1) % 2**32,
    "__uhadd(a, b)": lambda a, b, s: a + b >> 1,
    "__urhadd(a, b)": lambda a, b, s: a + b + 1 >> 1,
    "__sad((int)a, (int)b, s)": lambda a, b, s: (abs(_signed(a) - _signed(b)) + s) % 2**32,
    "__usad(a, b, s)": lambda a, b, s: (abs(a - b) + s) % 2**32,
    "__byte_perm(a, b, 0x7250)": lambda a, b, s: (
        a & 255 | (b >> 8 & 255) << 8 | (a >> 16 & 255) << 16 | b >> 24 << 24
    ),
    "__funnelshift_l(a, b, s)": lambda a, b, s: _field(_long(b, a) << s % 32 >> 32, 32),
    "__funnelshift_r(a, b, s)": lambda a, b, s: _field(_long(b, a) >> s % 32, 32),
    "__funnelshift_lc(a, b, s)": lambda a, b, s: _field(_long(b, a) << min(s, 32) >> 32, 32),
    "__funnelshift_rc(a, b, s)": lambda a, b, s: _field(_long(b, a) >> min(s, 32), 32),
    "__bitextract_u32(a, 5, 9)": lambda a, b, s: _field(a >> 5, 9),
    "__bitextract_u64((unsigned long long)a << 32 | b, 20, 30)": lambda a, b, s: _field(
        _long(a, b) >> 20, 30
    ),
    "__bitinsert_u32(a, b, 5, 9)": lambda a, b, s: a & ~(511 << 5) | _field(b, 9) << 5,
    "__bitinsert_u64(a, b, 5, 40)": lambda a, b, s: a & 31 | b << 5,
    "__dp4a(a, b, s)": lambda a, b, s: (
        (sum((a >> n & 255) * (b >> n & 255) for n in (0, 8, 16, 24)) + s) % 2**32
    ),
    "__dp2a_lo(a, b, s)": lambda a, b, s: (
        ((a & 65535) * (b & 255) + (a >> 16) * (b >> 8 & 255) + s) % 2**32
    ),
    "__dp2a_hi(a, b, s)": lambda a, b, s: (
        ((a & 65535) * (b >> 16 & 255) + (a >> 16) * (b >> 24) + s) % 2**32
    ),
    "min(a, b)": lambda a, b, s: min(a, b),
    "max((long long)a, (long long)b)": lambda a, b, s: max(a, b),
    "(unsigned)abs((int)a)": lambda a, b, s: abs(_signed(a)),
    "llabs(-(long long)a)": lambda a, b, s: a,
    "__float_as_uint(__uint_as_float(a & 0x3fffffff))": lambda a, b, s: a & 0x3FFFFFFF,
    "(unsigned)__float_as_int(__int_as_float((int)(a & 0x3fffffff)))": lambda a, b, s: (
        a & 0x3FFFFFFF
    ),
    "(unsigned long long)__double_as_longlong(__longlong_as_double(a))": lambda a, b, s: a,
    "__uint2double_rn(a)": lambda a, b, s: a,
    "(unsigned long long)__ll2double_rn(a)": lambda a, b, s: a,
    "(unsigned long long)__uint2float_rn(a)": lambda a, b, s: int(np.float32(a)),
    "__half_as_ushort(__ushort_as_half((unsigned short)(a & 0x3fff)))": lambda a, b, s: a & 0x3FFF,
    "__bfloat16_as_ushort(__ushort_as_bfloat16((unsigned short)(a & 0x3fff)))": lambda a, b, s: (
        a & 0x3FFF
    ),
}
#: Expressions of one wave of 32 threads: the thread t, its value v (3 t modulo 7), and the values
#: of all in a list.
WAVES: dict[str, Callable[[int, list[int]], int]] = {
    "__shfl(v, 5)": lambda t, v: v[5],
    "__shfl_up(v, 2)": lambda t, v: v[t - 2] if t > 1 else v[t],
    "__shfl_down(v, 3)": lambda t, v: v[t + 3] if t < 29 else v[t],
    "__shfl_xor(v, 9)": lambda t, v: v[t ^ 9],
    "__shfl_sync(~0u, (short)v, 5)": lambda t, v: v[5],
    "__shfl_up_sync(~0u, v, 1, 8)": lambda t, v: v[t - 1] if t % 8 else v[t],
    "__shfl_down_sync(~0u, (double)v, 1, 8)": lambda t, v: v[t + 1] if t % 8 < 7 else v[t],
    "__shfl_xor_sync(~0u, (long long)v, 1)": lambda t, v: v[t ^ 1],
    "(unsigned)__ballot(v > 3)": lambda t, v: sum((each > 3) << n for n, each in enumerate(v)),
    "__ballot_sync(0xffu, v > 3)": lambda t, v: sum(
        (each > 3) << n for n, each in enumerate(v[:8])
    ),
    "__any(v == 6) * 2 + __any(v == 7)": lambda t, v: 2,
    "__all(v < 7) * 2 + __all(v < 6)": lambda t, v: 2,
    "__any_sync(~0u, v == 6)": lambda t, v: 1,
    "__all_sync(~0u, v < 7)": lambda t, v: 1,
    "(unsigned)__activemask()": lambda t, v: 2**32 - 1,
    "__lane_id()": lambda t, v: t,
    "(unsigned)__match_any(v)": lambda t, v: sum((each == v[t]) << n for n, each in enumerate(v)),
    "(unsigned)__match_any(v < 6 ? (float)v : NAN)": lambda t, v: sum(
        (each == v[t]) << n for n, each in enumerate(v)
    ),
    "__match_all(NAN, &same) / 0xffffffff + same": lambda t, v: 2,
    "__match_any_sync(~0u, v)": lambda t, v: sum((each == v[t]) << n for n, each in enumerate(v)),
    "__reduce_add_sync(~0u, v)": lambda t, v: sum(v),
    "__reduce_min_sync(~1u, v)": lambda t, v: min(v[1:]),
    "__reduce_max_sync(~0u, v)": lambda t, v: max(v),
    "__reduce_and_sync(6u, v)": lambda t, v: v[1] & v[2],
    "__reduce_or_sync(6u, v)": lambda t, v: v[1] | v[2],
    "__reduce_xor_sync(~0u, v)": lambda t, v: int(np.bitwise_xor.reduce(v)),
    "__syncthreads_count(v > 3)": lambda t, v: sum(each > 3 for each in v),
    "__syncthreads_and(v < 6) + 2": lambda t, v: 2,
    "__syncthreads_or(v == 6) + 2": lambda t, v: 3,
    "__ldg(&values[t])": lambda t, v: v[t],
    "tile.shfl(v, 2)": lambda t, v: v[t // 8 * 8 + 2],
    "tile.shfl_xor(v, 3)": lambda t, v: v[t ^ 3],
    "tile.ballot(v > 3)": lambda t, v: sum(
        (each > 3) << n for n, each in enumerate(v[t // 8 * 8 : t // 8 * 8 + 8])
    ),
    "tile.any(v == 6) + tile.all(v < 7) + tile.size() + tile.thread_rank()": lambda t, v: (
        10 + t % 8
    ),
    "tile.meta_group_rank() * 10 + tile.meta_group_size()": lambda t, v: t // 8 * 10 + 4,
    "nested.meta_group_rank() * 10 + nested.meta_group_size()": lambda t, v: t % 16 // 4 * 10 + 4,
    "cg::thread_block_tile<4>(nested).meta_group_rank() * 10 + nested.thread_rank()": lambda t, v: (
        t % 16 // 4 * 10 + t % 4
    ),
    "cg::reduce(tile, v, cg::plus<int>())": lambda t, v: sum(v[t // 8 * 8 : t // 8 * 8 + 8]),
    "block.thread_rank() + block.size()": lambda t, v: t + 32,
    "odd(v)": lambda t, v: v[5] * 100 + 16 if t % 2 else 0,
}
#: Operations of 32 threads t on one number that starts with 100, with the result.
ATOMICS: dict[str, int] = {
    "atomicAdd(x, t)": 100 + 496,
    "atomicSub(x, 2)": 100 - 64,
    "atomicExch(x, 7)": 7,
    "atomicMin(x, t + 5)": 5,
    "atomicMax(x, t + 90)": 121,
    "atomicAnd(x, ~(t & 4))": 96,
    "atomicOr(x, t)": 127,
    "atomicXor(x, t)": 100,
    "atomicCAS(x, 100, 5)": 5,
    "atomicInc((unsigned *)x, 109)": 100 + 32 - 110,
    "atomicDec((unsigned *)x, 200)": 68,
    "atomicAdd_block(x, 1)": 132,
    "atomicMax_system(x, 1000 + t)": 1031,
    "unsafeAtomicAdd(x, 1)": 132,
}


def run(
    source: str, tmp_path: Path, *arguments: Any, block: int, options: Sequence[str] = ()
) -> None:
    module = devmod.compile(source, GFX1100, language="HIP", options=options)
    emulator = rdna3.Emulator(code_of(module), tmp_path)
    emulator.add(
        next(iter(module.functions.values())).name, *arguments, grid=(1, 1, 1), block=(block, 1, 1)
    )
    emulator.run()


@needs_emulator
@pytest.mark.parametrize(
    ("cases", "type_", "name"),
    [(FLOATS, "float", "v"), (DOUBLES, "double", "d")],
    ids=["float", "double"],
)
def test_functions_of_numbers_compute(
    cases: dict[str, Any], type_: str, name: str, tmp_path: Path
) -> None:
    lines = "".join(
        f"    y[{number * 64} + i] = (double)({text});\n" for number, text in enumerate(cases)
    )
    x = np.linspace(-7, 7, 64).astype("float32" if type_ == "float" else "float64")
    y = np.zeros((len(cases), 64))
    run(
        f"{HEADERS}__global__ void k(const {type_} *x, double *y)\n{{\n    int i = threadIdx.x;\n    {type_} {name} = x[i];\n{lines}}}",
        tmp_path,
        x,
        y,
        block=64,
    )
    for row, (text, (reference, bound)) in zip(y, cases.items(), strict=True):
        expected = np.asarray(reference(x.astype("float64")), "float64")
        error = np.abs(row - expected) / (1 + np.abs(expected))
        assert error.max() <= bound, f"{text}: {error.max():.3g} at {x[error.argmax()]}"


@needs_emulator
@pytest.mark.volume_but("headers")  # the other code is AMD's
@pytest.mark.parametrize(
    "library",
    [False, pytest.param(True, marks=needs_device_libs)],
    ids=["headers", "device library"],
)
def test_functions_of_floats_compute_at_their_edges(library: bool, tmp_path: Path) -> None:
    cases = {**EDGES, **ANGLES} if library else EDGES
    lines = "".join(f"    y[{number * 32} + i] = {text};\n" for number, text in enumerate(cases))
    x, y = np.array(EDGE_VALUES, "float32"), np.zeros((len(cases), 32), "float32")
    source = f"__global__ void k(const float *x, float *y)\n{{\n    int i = threadIdx.x;\n    float v = x[i];\n{lines}}}"
    run(
        source, tmp_path, x, y, block=32, options=[f"-device-libs={DEVICE_LIBS}"] if library else []
    )
    problems = []
    with np.errstate(all="ignore"):
        for row, (text, (reference, bound)) in zip(y, cases.items(), strict=True):
            exact = np.asarray(reference(x.astype("float64")), "float64")
            expected = exact.astype("float32")
            is_right = (row == expected) | np.isnan(row) & np.isnan(expected)
            is_right |= np.isfinite(row) & (np.abs(row - exact) <= bound * (1 + np.abs(exact)))
            if not library:  # the one of ROCm 5 gives 0 for expm1f(-0.0f)
                has_sign = (expected == 0) & ((x == 0) | text.startswith("pow"))
                is_right &= ~has_sign | (np.signbit(row) == np.signbit(expected))
            if text.startswith(DIVIDING):
                is_right |= (x != 0) & (np.abs(x) < 1e-38)
            problems += [
                f"{text}: {row[i]} for {x[i]}, expected {expected[i]}"
                for i in np.flatnonzero(~is_right)
            ]
    assert not problems, "\n".join(problems)


@needs_device_libs
def test_the_device_library_has_the_functions_of_float() -> None:
    names = "acosf acoshf asinf asinhf atanf atanhf cbrtf cosf coshf cospif erfcf erfcxf erff erfinvf expm1f log1pf normcdff rcbrtf sinf sinhf sinpif tanf tanhf"
    calls = " + ".join(f"{name}(x[0])" for name in names.split())
    source = (
        f"__global__ void k(float *x) {{ x[1] = {calls} + powf(x[0], x[1]) + atan2f(x[0], x[1]); }}"
    )
    with pytest.raises(devmod.CompileError, match="uses __ocml_"):
        devmod.compile(source, GFX1100, language="HIP", options=["-DDEVMOD_DEVICE_LIBS"])
    devmod.compile(source, GFX1100, language="HIP", options=[f"-device-libs={DEVICE_LIBS}"])


def test_the_second_compile_adds_no_overload(tmp_path: Path) -> None:
    """A source that compiles with the first header alone has the same meaning with all of them."""
    headers = header_files("devmod_targets.rocm")
    for name, text in headers.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def functions(*arguments: str) -> set[tuple[str, str]]:
        flags = [
            "-x",
            "hip",
            "--cuda-device-only",
            "--offload-arch=gfx1030",
            "-nogpuinc",
            "-nogpulib",
            "-fdeclspec",
            *arguments,
        ]
        unit = cindex.Index.create().parse(
            "a.hip", flags, [("a.hip", f'#include "{tmp_path}/devmod_hip.h"\n')]
        )
        kinds = (cindex.CursorKind.FUNCTION_DECL, cindex.CursorKind.FUNCTION_TEMPLATE)
        return {
            (each.spelling, each.type.spelling)
            for each in unit.cursor.get_children()
            if each.kind in kinds
        }

    first = functions()
    names = {name for name, _ in first if not name.startswith("operator")}
    assert {"pow", "min", "tanh", "__shfl_sync"} <= names
    assert [each for each in functions("-DDEVMOD_COMPLETE") - first if each[0] in names] == []


def test_a_group_is_in_one_wave() -> None:
    head = f"{HEADERS}namespace cg = cooperative_groups;\n__global__ void k(int *x) {{"
    tile = "cg::tiled_partition<64>(cg::this_thread_block()).sync();"
    source = f"{head} {tile} x[0] = __shfl(x[0], 1, 64); x[0] = __shfl_down_sync(~0ull, x[0], 1, 64); }}\n"
    with pytest.raises(
        devmod.CompileError,
        match="the size of a tile is a power of two up to the number of lanes of a wave",
    ) as caught:
        devmod.compile(source, GFX1100, language="HIP")
    width = (
        "error: .*the width of a shuffle is at most the number of lanes of a wave, which is 32 here"
    )
    assert len(re.findall(width, caught.value.log)) == 2
    devmod.compile(source, "rocm -arch=gfx90a", language="HIP")
    devmod.compile(f"{head} {tile} }}\n", GFX1100, language="HIP", options=["-mwavefrontsize64"])


def test_a_load_past_the_caches_is_volatile() -> None:
    module = devmod.compile(
        "__global__ void k(int *x) { __ldcv(x); x[1] = __ldcv(x); }", GFX1100, language="HIP"
    )
    assert str(module.source["asm"]).count("glc dlc") == 2


def test_a_mask_has_the_bits_of_a_wave() -> None:
    source = """__global__ void k(int *x)
    {
        x[1] = __all_sync((FIRST)-1, x[0]);
        x[1] = __ballot_sync((SECOND)-1, x[0]);
        x[1] = __match_any_sync((THIRD)-1, x[0]);
        x[1] = __reduce_add_sync((FOURTH)-1, x[0]);
    }"""
    # clang reports a type once.
    narrow = {"FIRST": "unsigned", "SECOND": "int", "THIRD": "short", "FOURTH": "char"}
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(source, "rocm -arch=gfx90a", language="HIP", defines=narrow)
    text = "error: .*the mask of a wave of 64 lanes has 64 bits, such as ~0ull"
    assert len(re.findall(text, caught.value.log)) == 4, caught.value.log
    devmod.compile(source, GFX1100, language="HIP", defines=narrow)
    wide = dict.fromkeys(narrow, "unsigned long long")
    devmod.compile(source, "rocm -arch=gfx90a", language="HIP", defines=wide)


@needs_emulator
def test_functions_of_integers_compute(tmp_path: Path) -> None:
    lines = "".join(f"    y[{number * 32} + i] = {text};\n" for number, text in enumerate(INTEGERS))
    a, b = np.random.default_rng(3).integers(1, 2**32, (2, 32), "uint32")
    s, y = np.arange(8, 40, dtype="uint32"), np.zeros((len(INTEGERS), 32), "uint64")
    source = "__global__ void k(const unsigned *as, const unsigned *bs, const unsigned *shifts, unsigned long long *y)\n{\n"
    source += (
        f"    int i = threadIdx.x;\n    unsigned a = as[i], b = bs[i], s = shifts[i];\n{lines}}}"
    )
    run(HEADERS + source, tmp_path, a, b, s, y, block=32)
    for row, (text, reference) in zip(y, INTEGERS.items(), strict=True):
        expected = [
            reference(*each) % 2**64
            for each in zip(a.tolist(), b.tolist(), s.tolist(), strict=True)
        ]
        assert row.tolist() == expected, text


@needs_emulator
def test_functions_of_a_wave_and_of_groups_compute(tmp_path: Path) -> None:
    lines = "".join(f"    y[{number * 32} + t] = {text};\n" for number, text in enumerate(WAVES))
    values, y = np.arange(32, dtype="int32") * 3 % 7, np.zeros((len(WAVES), 32), "int64")
    source = """namespace cg = cooperative_groups;
__device__ int odd(int v)
{
    if (threadIdx.x % 2 == 0)
        return 0;
    cg::coalesced_group group = cg::coalesced_threads();
    return group.shfl(v, 2) * 100 + group.size();
}
__global__ void k(const int *values, long long *y)
{
    int t = threadIdx.x, v = values[t];
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    auto nested = cg::tiled_partition<4>(cg::tiled_partition<16>(block));
    int same;
"""
    run(f"{HEADERS}{source}{lines}}}", tmp_path, values, y, block=32)
    for row, (text, reference) in zip(y, WAVES.items(), strict=True):
        assert row.tolist() == [reference(t, values.tolist()) for t in range(32)], text


@needs_emulator
def test_atomics_compute(tmp_path: Path) -> None:
    lines = "".join(
        f"    {{ int *x = numbers + {number}; {text}; }}\n" for number, text in enumerate(ATOMICS)
    )
    numbers, sums = np.full(len(ATOMICS), 100, "int32"), np.array([1.0, 2.0], "float32")
    # Without double: the emulator's global_atomic_cmpswap_b64 writes nothing.
    source = f"{HEADERS}__global__ void k(int *numbers, float *sums)\n{{\n    int t = threadIdx.x;\n{lines}"
    run(
        source + "    atomicAdd(&sums[0], 0.5f);\n    atomicMax(&sums[1], t);\n}",
        tmp_path,
        numbers,
        sums,
        block=32,
    )
    assert dict(zip(ATOMICS, numbers.tolist(), strict=True)) == ATOMICS
    assert sums.tolist() == [17, 31]


#: Functions for which a program declares a template of its own, as for another type, and calls of
#: them for a type T.
OWN_TEMPLATES = {
    **{
        f"T atomic{name}(T *, T)": f"x[0] = atomic{name}(x, x[1]);"
        for name in ("Add", "Sub", "Exch", "Min", "Max")
    },
    "T atomicCAS(T *, T, T)": "x[0] = atomicCAS(x, x[1], x[2]);",
    "T atomicAdd_block(T *, T)": "x[0] = atomicAdd_block(x, x[1]);",
    "T atomicMax_system(T *, T)": "x[0] = atomicMax_system(x, x[1]);",
    **{
        f"T __shfl{name}(T, {type_}, int width = 32)": f"x[0] = __shfl{name}(x[1], 1);"
        for name, type_ in (
            ("", "int"),
            ("_up", "unsigned"),
            ("_down", "unsigned"),
            ("_xor", "int"),
        )
    },
    "T __ldg(const T *)": "x[0] = __ldg(x + 1);",
}


@pytest.mark.row("R30")
@pytest.mark.parametrize("arch", ["gfx90a", "gfx1100"])
def test_a_template_of_the_program_hides_no_function_for_a_basic_type(arch: str) -> None:
    """Its declaration alone would be an undefined symbol."""
    declared = "".join(f"template <class T> __device__ {each};\n" for each in OWN_TEMPLATES)
    types = {
        name.replace(" ", "_"): name
        for name in ("int", "unsigned", "unsigned long long", "float", "double")
    }
    calls = {
        "bits": "x[0] = atomicAnd(x, x[1]); x[0] = atomicOr(x, x[1]); x[0] = atomicXor(x, x[1]);"
    }
    kernels = "".join(
        f'extern "C" __global__ void k_{name}({type_} *x) {{ {" ".join(OWN_TEMPLATES.values())} {calls["bits"] if "float double".find(type_) < 0 else ""} }}\n'
        for name, type_ in types.items()
    )
    assert len(
        devmod.compile(declared + kernels, f"rocm -arch={arch}", language="CUDA C++").functions
    ) == len(types)


def test_types_without_an_overload_have_the_template_of_the_headers() -> None:
    """A program may define the overload itself, as for CUDA."""
    own = "__device__ long long atomicAdd(long long *p, long long v) { return (long long)atomicAdd((unsigned long long *)p, v); }\n"
    kernel = "__global__ void k(long long *x, float **p) { atomicAdd(x, 1); atomicExch(p, p[1]); atomicXor(x, 3); }\n"
    for text in (kernel, own + kernel):
        assert list(devmod.compile(text, "rocm -arch=gfx1100", language="HIP").functions) == ["k"]


def test_the_executed_functions_of_the_page_have_cases() -> None:
    texts = " ".join([*FLOATS, *EDGES, *DOUBLES, *INTEGERS, *WAVES, *ATOMICS])
    earlier = (Path(__file__).parent / "test_compile_rocm.py").read_text()
    called = set(re.findall(r"\b([A-Za-z_]\w*)\(", texts + earlier))
    assert sorted(set(listed()["executed"]) - called) == []
