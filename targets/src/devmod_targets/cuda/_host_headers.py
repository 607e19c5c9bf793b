"""The standard headers of C and C++ that NVRTC lacks, and the types of cuda.h, in memory.

NVRTC itself declares ``size_t``, ``printf``, ``assert``, ``malloc``, ``memcpy`` and the functions of math.h in the global namespace. These
headers add the macros, the integer types and the names in ``std`` that kernels use. Their macros and types agree with those of
``cuda/std``, so that a program may include both.
"""

from __future__ import annotations

from functools import cache

from devmod_readers.nvidia import TENSOR_MAP_BYTES
from devmod_targets._text import header_text
from devmod_targets.cuda._device_types import TENSOR_MAP_ALIGN
from devmod_targets.cuda._host_constants import FLOAT, LIMITS, MATH, defines
from devmod_targets.cuda._host_constants import predefined as predefined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: The functions of NVRTC that C++ also has in ``std``.
_MATH_FUNCTIONS = (
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim "
    "floor fma fmax fmin fmod frexp hypot ilogb isfinite isinf isnan ldexp lgamma llrint llround "
    "log log10 log1p log2 logb lrint lround modf nearbyint nextafter pow "
    "remainder remquo rint round scalbln scalbn signbit sin sinh sqrt tan tanh tgamma trunc"
)
_FLOAT_FUNCTIONS = (
    "acosf acoshf asinf asinhf atan2f atanf atanhf cbrtf ceilf copysignf cosf coshf erfcf erff exp2f expf expm1f fabsf fdimf floorf fmaf "
    "fmaxf fminf fmodf hypotf log10f log1pf log2f logf nearbyintf powf rintf roundf sinf sinhf sqrtf tanf tanhf tgammaf truncf"
)

#: The traits with a value: those of one type, and of two.
_TRAIT_VALUES = (
    "is_void is_const is_reference is_array is_pointer is_integral is_floating_point is_arithmetic is_signed is_unsigned is_enum is_class "
    "is_trivially_copyable"
)

_RELATIONS = "is_same is_base_of is_convertible"
_INTEGRAL_TYPES = (
    *("bool", "char", "signed char", "unsigned char", "wchar_t", "char16_t", "char32_t"),
    *("short", "unsigned short", "int", "unsigned int", "long", "unsigned long", "long long", "unsigned long long"),
)

_WIDTHS = (8, 16, 32, 64)
_INTEGERS = {8: ("signed char", "unsigned char", "SCHAR", "UCHAR"), 16: ("signed short", "unsigned short", "SHRT", "USHRT")} | {
    32: ("signed int", "unsigned int", "INT", "UINT"),
    64: ("signed long long", "unsigned long long", "LLONG", "ULLONG"),
}


#: The types of cuda.h that kernels use. NVRTC rejects the functions of the host in the header of CUDA.
_CUDA = f"""#include <stdint.h>
#define CUDA_VERSION (__CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10)
#define CU_TENSOR_MAP_NUM_QWORDS {TENSOR_MAP_BYTES // 8}
typedef uint32_t cuuint32_t;
typedef unsigned long long cuuint64_t, CUdeviceptr, CUtexObject, CUsurfObject;
typedef struct __attribute__((aligned({TENSOR_MAP_ALIGN}))) CUtensorMap_st {{ cuuint64_t opaque[CU_TENSOR_MAP_NUM_QWORDS]; }} CUtensorMap;
"""


def math_functions() -> list[str]:
    """Return the names of the functions of math.h that NVRTC declares."""
    return [*_MATH_FUNCTIONS.split(), *_FLOAT_FUNCTIONS.split()]


def _std(names: Iterable[str]) -> str:
    return f"namespace std {{ {' '.join(f'using ::{name};' for name in names)} }}\n"


def _stdint() -> tuple[str, list[str]]:
    """Return the text of stdint.h, and the names of its types."""
    lines, names = ["#include <limits.h>"], []
    for width in _WIDTHS:
        signed, unsigned, limit, unsigned_limit = _INTEGERS[width]
        for prefix, type_ in (("int", signed), ("uint", unsigned)):
            for form in ("", "_least", "_fast"):
                lines.append(f"typedef {type_} {prefix}{form}{width}_t;")
                names.append(f"{prefix}{form}{width}_t")
        for form in ("", "_LEAST", "_FAST"):
            lower, upper = (f"INT{width}", f"UINT{width}") if form else (limit, unsigned_limit)
            lines += [f"#define INT{form}{width}_MIN {lower}_MIN", f"#define INT{form}{width}_MAX {lower}_MAX"]
            lines.append(f"#define UINT{form}{width}_MAX {upper}_MAX")
        lines += [f"#define INT{width}_C(X)  ((::int_least{width}_t) (X))", f"#define UINT{width}_C(X) ((::uint_least{width}_t) (X))"]
    for name, form in (("intptr_t", "int64_t"), ("uintptr_t", "uint64_t"), ("intmax_t", "int64_t"), ("uintmax_t", "uint64_t")):
        lines.append(f"typedef {form} {name};")
        names.append(name)
    for name in ("INTPTR", "INTMAX", "PTRDIFF"):
        lines += [f"#define {name}_MIN INT64_MIN", f"#define {name}_MAX INT64_MAX"]
    lines += [f"#define {name}_MAX UINT64_MAX" for name in ("UINTPTR", "UINTMAX", "SIZE")]
    lines += ["#define INTMAX_C(X)  ((::intmax_t) (X))", "#define UINTMAX_C(X) ((::uintmax_t) (X))", ""]
    return "\n".join(lines), names


def _type_traits() -> str:
    """Return the content of the namespace std in ``<type_traits>``."""
    lines = [f"template <> struct __devmod_is_integral<{type_}> : true_type {{}};" for type_ in _INTEGRAL_TYPES]
    lines.append("#if __cplusplus >= 201402L")
    lines += [f"template <class T> inline constexpr bool {name}_v = {name}<T>::value;" for name in _TRAIT_VALUES.split()]
    lines += [f"template <class T, class U> inline constexpr bool {name}_v = {name}<T, U>::value;" for name in _RELATIONS.split()]
    return header_text(__package__, "type_traits.h") + "\n".join([*lines, "#endif\n"])


@cache
def host_headers() -> Mapping[str, str]:
    """Return the headers: include name to text."""
    stdint, names = _stdint()
    offset = "(::size_t) ((char*) &(((type*) 0)->member) - (char*) 0)"
    stddef = f"#if !defined(offsetof)\n#define offsetof(type, member) {offset}\n#endif\ntypedef long double max_align_t;\n"
    c_headers = {
        "stddef.h": stddef,
        "stdint.h": stdint,
        "inttypes.h": "#include <stdint.h>\n",
        "limits.h": defines(LIMITS),
        "float.h": defines(FLOAT),
        "math.h": "".join(f"#ifndef {name}\n#define {name} {value}\n#endif\n" for name, value in MATH.items()),
        "stdlib.h": "#include <stddef.h>\n",
        "stdio.h": "#include <stddef.h>\n",
        "string.h": "#include <stddef.h>\n" + header_text(__package__, "string.h"),
        "assert.h": "",
        "stdbool.h": "",
        "time.h": "",
        "cuda.h": _CUDA,
        "cudaTypedefs.h": "#include <cuda.h>\n",
    }
    headers = {
        "cstddef": "#include <stddef.h>\nnamespace std { using nullptr_t = decltype(nullptr); }\n"
        + _std(["size_t", "ptrdiff_t", "max_align_t"]),
        "cstdint": "#include <stdint.h>\n" + _std(names),
        "cinttypes": "#include <cstdint>\n",
        "climits": "#include <limits.h>\n",
        "cfloat": "#include <float.h>\n",
        "cmath": "#include <math.h>\n" + _std(math_functions()),
        "cstdlib": "#include <stdlib.h>\n" + _std(["size_t", "malloc", "free", "abs"]),
        "cstdio": "#include <stdio.h>\n" + _std(["size_t", "printf"]),
        "cstring": "#include <string.h>\n" + _std(["size_t", "memcpy", "memset", "strlen", "strcmp", "memcmp"]),
        "cassert": "#include <assert.h>\n",
        "ctime": "#include <time.h>\n",
        "initializer_list": "",
        "type_traits": f"#include <cstddef>\nnamespace std {{\n{_type_traits()}}}\n",
        "utility": f"#include <type_traits>\nnamespace std {{\n{header_text(__package__, 'utility.h')}}}\n",
        "algorithm": f"#include <utility>\nnamespace std {{\n{header_text(__package__, 'algorithm.h')}}}\n",
        "limits": "#include <type_traits>\n#include <climits>\n#include <cfloat>\n"
        f"namespace std {{\n{header_text(__package__, 'limits.h')}}}\n",
    }
    return {name: f"#pragma once\n{text}" for name, text in (c_headers | headers).items()}
