"""The headers of the C library that a kernel may include. They declare the functions that the runner of devmod-hexagon exports.

Hexagon's clang has no C library. Its own headers (stdint.h, stddef.h, float.h, limits.h, the HVX intrinsics) come from the toolchain.
"""

from __future__ import annotations

from functools import cache

_UNARY = (
    "acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 fabs floor lgamma log log10 log1p log2 nearbyint rint "
    "round sin sinh sqrt tan tanh tgamma trunc"
)
_BINARY = "atan2 copysign fdim fmax fmin fmod hypot pow remainder"
_OTHERS = (
    "{0} fma{1}({0}, {0}, {0});",
    "{0} frexp{1}({0}, int *);",
    "{0} ldexp{1}({0}, int);",
    "{0} modf{1}({0}, {0} *);",
    "long lrint{1}({0});",
    "long lround{1}({0});",
)
_CONSTANTS = {
    "M_E": "2.71828182845904523536",
    "M_LOG2E": "1.44269504088896340736",
    "M_LOG10E": "0.43429448190325182765",
    "M_LN2": "0.69314718055994530942",
    "M_LN10": "2.30258509299404568402",
    "M_PI": "3.14159265358979323846",
    "M_PI_2": "1.57079632679489661923",
    "M_PI_4": "0.78539816339744830962",
    "M_1_PI": "0.31830988618379067154",
    "M_2_PI": "0.63661977236758134308",
    "M_SQRT2": "1.41421356237309504880",
    "M_SQRT1_2": "0.70710678118654752440",
}
_STRING = """\
#pragma once
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
void *memcpy(void *, const void *, size_t);
void *memmove(void *, const void *, size_t);
void *memset(void *, int, size_t);
int memcmp(const void *, const void *, size_t);
#ifdef __cplusplus
}
#endif
"""
_CLASSIFY = """\
#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif
#ifndef __cplusplus
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)
#endif
"""


@cache
def files() -> dict[str, str]:
    """Return the text of each header by its name."""
    math = _math()
    return {
        "math.h": math,
        "string.h": _STRING,
        "cmath": "#pragma once\n#include <math.h>\n",
        "cstring": "#pragma once\n#include <string.h>\n",
        "cstdint": "#pragma once\n#include <stdint.h>\n",
        "cstddef": "#pragma once\n#include <stddef.h>\n",
    }


def _math() -> str:
    lines = ["#pragma once", _CLASSIFY + "#ifdef __cplusplus", 'extern "C" {', "#endif"]
    for type_, suffix in (("float", "f"), ("double", "")):
        lines += [f"{type_} {name}{suffix}({type_});" for name in _UNARY.split()]
        lines += [f"{type_} {name}{suffix}({type_}, {type_});" for name in _BINARY.split()]
        lines += [each.format(type_, suffix) for each in _OTHERS]
    lines += ["#ifdef __cplusplus", "}", "#endif"]
    return "\n".join([*lines, *(f"#define {name} {value}" for name, value in _CONSTANTS.items()), ""])
