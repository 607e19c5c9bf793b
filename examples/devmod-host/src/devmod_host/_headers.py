"""The headers of the C library for libclang, which has none. Those of the build machine must not
change a payload (R38).

They only declare names and types. The receiver's compiler uses its own headers.
"""

from __future__ import annotations

from functools import cache

#: The text before every payload, at the build and at the receiver: the variables of a launch, named
#: as in CUDA. Each thread has a copy, so launches can run at the same time.
PRELUDE = """\
struct devmod_dim3 { unsigned int x, y, z; };
static _Thread_local struct devmod_dim3 gridDim, blockDim, blockIdx, threadIdx;
"""
PRELUDE_NAME = "devmod-prelude.h"

_ONE = (
    "acos asin atan cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 expm1 log log10 log1p log2 logb cbrt fabs sqrt erf erfc "
    "tgamma lgamma ceil floor nearbyint rint round trunc"
)
_TWO = "atan2 fmod remainder copysign nextafter fdim fmax fmin hypot pow"

HEADERS = {
    "stddef.h": "typedef __SIZE_TYPE__ size_t; typedef __PTRDIFF_TYPE__ ptrdiff_t;\n"
    "#define NULL ((void *)0)\n#define offsetof(type, member) __builtin_offsetof(type, member)\n",
    "stdbool.h": "#define bool _Bool\n#define true 1\n#define false 0\n",
    "stdint.h": "".join(
        f"typedef __{sign}INT{bits}_TYPE__ {sign.lower()}int{bits}_t;\n#define {sign}INT{bits}_MAX __{sign}INT{bits}_MAX__\n"
        + (f"#define INT{bits}_MIN (-INT{bits}_MAX - 1)\n" if not sign else "")
        for sign in ("", "U")
        for bits in (8, 16, 32, 64)
    )
    + "typedef __INTPTR_TYPE__ intptr_t; typedef __UINTPTR_TYPE__ uintptr_t;\n#define SIZE_MAX __SIZE_MAX__\n",
    "limits.h": "#define CHAR_BIT 8\n#define SCHAR_MAX 127\n#define SCHAR_MIN (-128)\n#define UCHAR_MAX 255\n#define CHAR_MAX 127\n"
    "#define CHAR_MIN (-128)\n#define USHRT_MAX 65535\n#define UINT_MAX 0xffffffffU\n#define ULONG_MAX 0xffffffffffffffffUL\n"
    "#define ULLONG_MAX 0xffffffffffffffffULL\n"
    + "".join(
        f"#define {name}_MAX __{long}_MAX__\n#define {name}_MIN (-{name}_MAX - 1)\n"
        for name, long in (
            ("SHRT", "SHRT"),
            ("INT", "INT"),
            ("LONG", "LONG"),
            ("LLONG", "LONG_LONG"),
        )
    ),
    "float.h": "".join(
        f"#define {name}_{what} __{name}_{what}__\n"
        for name in ("FLT", "DBL")
        for what in (
            "DIG",
            "MANT_DIG",
            "MAX",
            "MIN",
            "EPSILON",
            "MAX_EXP",
            "MIN_EXP",
            "MAX_10_EXP",
            "MIN_10_EXP",
        )
    ),
    "math.h": "".join(f"double {name}(double); float {name}f(float);\n" for name in _ONE.split())
    + "".join(
        f"double {name}(double, double); float {name}f(float, float);\n" for name in _TWO.split()
    )
    + "double fma(double, double, double); float fmaf(float, float, float);\n"
    "double ldexp(double, int); float ldexpf(float, int); double frexp(double, int *); float frexpf(float, int *);\n"
    "double modf(double, double *); float modff(float, float *); long lround(double); long lroundf(float); long lrint(double);\n"
    '#define INFINITY (__builtin_inff())\n#define NAN (__builtin_nanf(""))\n#define HUGE_VAL (__builtin_huge_val())\n'
    + "".join(
        f"#define {name}(x) __builtin_{name}(x)\n"
        for name in ("isnan", "isinf", "isfinite", "isnormal", "signbit")
    )
    + "#define M_E 2.7182818284590452354\n#define M_PI 3.14159265358979323846\n#define M_PI_2 1.57079632679489661923\n"
    "#define M_LN2 0.69314718055994530942\n#define M_SQRT2 1.41421356237309504880\n#define M_SQRT1_2 0.70710678118654752440\n",
    "string.h": "#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t); void *memmove(void *, const void *, size_t);\n"
    "void *memset(void *, int, size_t); int memcmp(const void *, const void *, size_t); size_t strlen(const char *);\n",
    "stdlib.h": "#include <stddef.h>\nvoid *malloc(size_t); void *calloc(size_t, size_t); void free(void *);\n"
    "int abs(int); long labs(long); void qsort(void *, size_t, size_t, int (*)(const void *, const void *));\n",
    "assert.h": "#define assert(condition) ((void)(condition))\n",
}


@cache
def files() -> dict[str, str]:
    """Return the files that libclang reads besides the source."""
    return {PRELUDE_NAME: PRELUDE} | {
        name: f"#pragma once\n{text}" for name, text in HEADERS.items()
    }
