"""The predeclared names of OpenCL C for libclang, which contains no headers.

libclang declares the built-in functions (``-fdeclare-opencl-builtins``) and includes a header ``opencl-c-base.h`` for the types, the
constants and the feature macros. This module provides that header in memory, so the program's line numbers do not change. The folder
``headers`` has what does not repeat for each type. Only names and types matter: no program runs with these values.
"""

from __future__ import annotations

from functools import cache

from devmod_targets._text import header_text

#: The name of the header that libclang includes.
NAME = "opencl-c-base.h"

_LANES = (2, 3, 4, 8, 16)
_NUMBERS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double", "half")

#: Vendor extensions that libclang's generic target defines. They are undefined, so that a program skips its vendor branches.
_VENDORS = "cl_amd_media_ops cl_amd_media_ops2 cl_intel_device_side_avc_motion_estimation cl_intel_subgroups cl_intel_subgroups_short"

#: The built-in functions of OpenCL C 1.2 whose names a kernel may have by mistake (the specification's chapters 6.12.2 to 6.12.6 and
#: 6.12.12). PoCL's headers rename them by macros, and other compilers refuse a second declaration.
_FUNCTION_NAMES = """
abs abs_diff acos acosh acospi add_sat all any asin asinh asinpi atan atan2 atan2pi atanh atanpi barrier bitselect cbrt ceil clamp clz
copysign cos cosh cospi cross degrees distance dot erf erfc exp exp10 exp2 expm1 fabs fast_distance fast_length fast_normalize fdim
floor fma fmax fmin fmod fract frexp hadd hypot ilogb isfinite isinf isnan isnormal ldexp length lgamma log log10 log1p log2 logb mad
mad24 mad_hi mad_sat max maxmag min minmag mix modf mul24 mul_hi nan nextafter normalize popcount pow pown powr prefetch printf radians
remainder remquo rhadd rint rootn rotate round rsqrt select shuffle shuffle2 sign signbit sin sincos sinh sinpi smoothstep sqrt step
sub_sat tan tanh tanpi tgamma trunc upsample
"""
FUNCTIONS = frozenset(_FUNCTION_NAMES.split())


@cache
def text() -> str:
    """Return the header's text."""
    lines = [f"#undef {name}" for name in _VENDORS.split()]
    lines.append(header_text(__package__, "headers/begin.h"))
    for number in _NUMBERS:
        lines += [f"typedef {number} {number}{lanes} __attribute__((ext_vector_type({lanes})));" for lanes in _LANES]
        lines += [f"#define as_{name}(x) __builtin_astype((x), {name})" for name in [number] + [f"{number}{lanes}" for lanes in _LANES]]
    lines += [f"#define as_{name}(x) __builtin_astype((x), {name})" for name in ("size_t", "ptrdiff_t", "intptr_t", "uintptr_t")]
    lines.append(header_text(__package__, "headers/end.h"))
    return "\n".join(lines) + "\n"
