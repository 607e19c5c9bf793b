"""The constants of limits.h, float.h and math.h. Their values are spelled as in ``cuda/std``, so that a program may include both."""

from __future__ import annotations

import re
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LIMITS = """
CHAR_BIT 8
SCHAR_MIN (-128)
SCHAR_MAX 127
UCHAR_MAX 255
CHAR_MIN SCHAR_MIN
CHAR_MAX SCHAR_MAX
SHRT_MIN (-SHRT_MAX - 1)
SHRT_MAX 0x7fff
USHRT_MAX 0xffff
INT_MIN (-INT_MAX - 1)
INT_MAX 0x7fffffff
UINT_MAX 0xffffffff
LONG_MIN (-LONG_MAX - 1)
LONG_MAX LLONG_MAX
ULONG_MAX ULLONG_MAX
LLONG_MIN (-LLONG_MAX - 1)
LLONG_MAX 0x7fffffffffffffffLL
ULLONG_MAX 0xffffffffffffffffUL
"""

_FLOAT = """
FLT_RADIX 2
FLT_DECIMAL_DIG 9
FLT_DIG 6
FLT_MANT_DIG 24
FLT_MIN_EXP (-125)
FLT_MIN_10_EXP (-37)
FLT_MAX_EXP 128
FLT_MAX_10_EXP 38
FLT_MIN 1.17549435082228750796873653722224568e-38f
FLT_TRUE_MIN 1.40129846432481707092372958328991613e-45f
FLT_MAX 3.40282346638528859811704183484516925e+38f
FLT_EPSILON 1.19209289550781250000000000000000000e-7f
DBL_DECIMAL_DIG 17
DBL_DIG 15
DBL_MANT_DIG 53
DBL_MIN_EXP (-1021)
DBL_MIN_10_EXP (-307)
DBL_MAX_EXP 1024
DBL_MAX_10_EXP 308
DBL_MIN 2.22507385850720138309023271733240406e-308
DBL_TRUE_MIN 4.94065645841246544176568792868221372e-324
DBL_MAX 1.79769313486231570814527423731704357e+308
DBL_EPSILON 2.22044604925031308084726333618164062e-16
DECIMAL_DIG DBL_DECIMAL_DIG
"""

_MATH = """
HUGE_VALF __builtin_bit_cast(float, 0x7f800000)
HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000LL)
INFINITY __builtin_bit_cast(float, 0x7f800000)
NAN __builtin_bit_cast(float, 0x7fc00000)
M_E 2.71828182845904523536
M_LOG2E 1.44269504088896340736
M_LOG10E 0.43429448190325182765
M_LN2 0.69314718055994530942
M_LN10 2.30258509299404568402
M_PI 3.14159265358979323846
M_PI_2 1.57079632679489661923
M_PI_4 0.78539816339744830962
M_1_PI 0.31830988618379067154
M_2_PI 0.63661977236758134308
M_2_SQRTPI 1.12837916709551257390
M_SQRT2 1.41421356237309504880
M_SQRT1_2 0.70710678118654752440
"""


def _macros(text: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in text.splitlines() if line)


def defines(macros: Mapping[str, str]) -> str:
    return "".join(f"#define {name} {value}\n" for name, value in macros.items())


LIMITS, FLOAT, MATH = _macros(_LIMITS), _macros(_FLOAT), _macros(_MATH)


@cache
def _constants() -> tuple[re.Pattern[str], list[dict[str, str]]]:
    """Return the pattern of the constants' names, and the constants of each header."""
    groups = [MATH, FLOAT, LIMITS]
    return re.compile(rf"\b(?:{'|'.join(name for group in groups for name in group)})\b"), groups


def predefined(text: str) -> str:
    """Return the definitions of the constants of math.h, float.h and limits.h that a program uses.

    Compilers of host code define them for kernels without an include. A constant that the program itself defines is left out.
    """
    pattern, groups = _constants()
    names = set(pattern.findall(text))
    if not names:
        return ""
    own = set(re.findall(r"#[ \t]*define[ \t]+(\w+)", text))
    return "".join(defines({name: group[name] for name in group if name not in own}) for group in groups if names & group.keys())
