"""The standard headers of C and C++ that NVRTC lacks, in memory.

NVRTC itself declares ``size_t``, ``printf``, ``assert``, ``malloc``, ``memcpy`` and the functions of math.h in the global namespace. These
headers add the macros, the integer types and the names in ``std`` that kernels use. Their macros and types agree with those of
``cuda/std``, so that a program may include both.
"""

from __future__ import annotations

import re
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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

_WIDTHS = (8, 16, 32, 64)
_INTEGERS = {8: ("signed char", "unsigned char", "SCHAR", "UCHAR"), 16: ("signed short", "unsigned short", "SHRT", "USHRT")} | {
    32: ("signed int", "unsigned int", "INT", "UINT"),
    64: ("signed long long", "unsigned long long", "LLONG", "ULLONG"),
}

_TRAITS = """
template <class T, T v> struct integral_constant {
  static constexpr T value = v;
  using value_type = T;
  using type = integral_constant;
  __host__ __device__ constexpr operator T() const noexcept { return v; }
  __host__ __device__ constexpr T operator()() const noexcept { return v; }
};
template <bool B> using bool_constant = integral_constant<bool, B>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;
template <bool B, class T, class F> struct conditional { using type = T; };
template <class T, class F> struct conditional<false, T, F> { using type = F; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <class...> using void_t = void;
template <class T> struct remove_const { using type = T; };
template <class T> struct remove_const<const T> { using type = T; };
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> struct remove_volatile { using type = T; };
template <class T> struct remove_volatile<volatile T> { using type = T; };
template <class T> using remove_volatile_t = typename remove_volatile<T>::type;
template <class T> struct remove_cv { using type = remove_const_t<remove_volatile_t<T>>; };
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> struct remove_reference { using type = T; };
template <class T> struct remove_reference<T &> { using type = T; };
template <class T> struct remove_reference<T &&> { using type = T; };
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> struct remove_cvref { using type = remove_cv_t<remove_reference_t<T>>; };
template <class T> using remove_cvref_t = typename remove_cvref<T>::type;
template <class T> struct remove_pointer { using type = T; };
template <class T> struct remove_pointer<T *> { using type = T; };
template <class T> struct remove_pointer<T *const> { using type = T; };
template <class T> struct remove_pointer<T *volatile> { using type = T; };
template <class T> struct remove_pointer<T *const volatile> { using type = T; };
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> struct remove_extent { using type = T; };
template <class T> struct remove_extent<T[]> { using type = T; };
template <class T, size_t N> struct remove_extent<T[N]> { using type = T; };
template <class T> using remove_extent_t = typename remove_extent<T>::type;
template <class T> struct add_const { using type = const T; };
template <class T> using add_const_t = typename add_const<T>::type;
template <class T> struct add_pointer { using type = remove_reference_t<T> *; };
template <class T> using add_pointer_t = typename add_pointer<T>::type;
template <class T> struct type_identity { using type = T; };
template <class T> using type_identity_t = typename type_identity<T>::type;
template <class T, class U> struct is_same : false_type {};
template <class T> struct is_same<T, T> : true_type {};
template <class T> struct is_void : is_same<remove_cv_t<T>, void> {};
template <class T> struct is_const : false_type {};
template <class T> struct is_const<const T> : true_type {};
template <class T> struct is_reference : false_type {};
template <class T> struct is_reference<T &> : true_type {};
template <class T> struct is_reference<T &&> : true_type {};
template <class T> struct is_array : false_type {};
template <class T> struct is_array<T[]> : true_type {};
template <class T, size_t N> struct is_array<T[N]> : true_type {};
template <class T> struct __devmod_is_pointer : false_type {};
template <class T> struct __devmod_is_pointer<T *> : true_type {};
template <class T> struct is_pointer : __devmod_is_pointer<remove_cv_t<T>> {};
template <class T> struct __devmod_is_integral : false_type {};
template <class T> struct is_integral : __devmod_is_integral<remove_cv_t<T>> {};
template <class T> struct __devmod_is_floating : false_type {};
template <> struct __devmod_is_floating<float> : true_type {};
template <> struct __devmod_is_floating<double> : true_type {};
template <class T> struct is_floating_point : __devmod_is_floating<remove_cv_t<T>> {};
template <class T> struct is_arithmetic : bool_constant<is_integral<T>::value || is_floating_point<T>::value> {};
template <class T, bool = is_arithmetic<T>::value> struct is_signed : bool_constant<(T(-1) < T(0))> {};
template <class T> struct is_signed<T, false> : false_type {};
template <class T, bool = is_arithmetic<T>::value> struct is_unsigned : bool_constant<(T(0) < T(-1))> {};
template <class T> struct is_unsigned<T, false> : false_type {};
template <class T> struct is_enum : bool_constant<__is_enum(T)> {};
template <class T> struct is_class : bool_constant<__is_class(T)> {};
template <class T> struct is_trivially_copyable : bool_constant<__is_trivially_copyable(T)> {};
template <class T, class U> struct is_base_of : bool_constant<__is_base_of(T, U)> {};
template <class T, class U> struct is_convertible : bool_constant<__is_convertible_to(T, U)> {};
template <class T> struct underlying_type { using type = __underlying_type(T); };
template <class T> using underlying_type_t = typename underlying_type<T>::type;
template <class T> struct decay {
  using plain = remove_reference_t<T>;
  using type = conditional_t<is_array<plain>::value, remove_extent_t<plain> *, remove_cv_t<plain>>;
};
template <class T> using decay_t = typename decay<T>::type;
"""
_TRAIT_VALUES = (
    "is_void is_const is_reference is_array is_pointer is_integral is_floating_point is_arithmetic is_signed is_unsigned is_enum is_class "
    "is_trivially_copyable"
)

_UTILITY = """
template <class T> __host__ __device__ inline void swap(T &a, T &b) { T c(a); a = b; b = c; }
template <class T> __host__ __device__ T &&declval() noexcept;
"""

_ALGORITHM = """
template <class T> __host__ __device__ constexpr const T &min(const T &a, const T &b) { return b < a ? b : a; }
template <class T> __host__ __device__ constexpr const T &max(const T &a, const T &b) { return a < b ? b : a; }
template <class T> __host__ __device__ constexpr const T &clamp(const T &x, const T &low, const T &high) {
  return x < low ? low : high < x ? high : x;
}
"""

_STRING = """
static __host__ __device__ inline size_t strlen(const char *s) { size_t n = 0; while (s[n]) ++n; return n; }
static __host__ __device__ inline int strcmp(const char *a, const char *b) {
  for (; *a && *a == *b; ++a, ++b) {}
  return (int)(unsigned char)*a - (int)(unsigned char)*b;
}
static __host__ __device__ inline int memcmp(const void *a, const void *b, size_t n) {
  const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
  for (; n; ++x, ++y, --n) if (*x != *y) return (int)*x - (int)*y;
  return 0;
}
"""


#: All members are those of templates: NVRTC writes static members of other classes to the PTX of every program.
_NUMERIC_LIMITS = """
template <class T, int kind> struct __devmod_limits { static constexpr bool is_specialized = false; };
template <class T> struct __devmod_limits<T, 1> {
  static constexpr bool is_specialized = true, is_integer = true, is_exact = true, has_infinity = false, has_quiet_NaN = false;
  static constexpr bool is_signed = (T)(-1) < (T)(0);
  static constexpr int radix = 2, digits = is_same<T, bool>::value ? 1 : (int)sizeof(T) * 8 - is_signed;
  __host__ __device__ static constexpr T max() noexcept { return is_signed ? (T)((1ULL << digits) - 1) : (T)(-1); }
  __host__ __device__ static constexpr T min() noexcept { return is_signed ? (T)(-max() - 1) : (T)0; }
  __host__ __device__ static constexpr T lowest() noexcept { return min(); }
  __host__ __device__ static constexpr T epsilon() noexcept { return 0; }
  __host__ __device__ static constexpr T infinity() noexcept { return 0; }
  __host__ __device__ static constexpr T quiet_NaN() noexcept { return 0; }
  __host__ __device__ static constexpr T denorm_min() noexcept { return 0; }
};
template <class T> struct __devmod_limits<T, 2> {
  static constexpr bool is_specialized = true, is_integer = false, is_exact = false, has_infinity = true, has_quiet_NaN = true;
  static constexpr bool is_signed = true, wide = sizeof(T) == 8;
  static constexpr int radix = 2, digits = wide ? DBL_MANT_DIG : FLT_MANT_DIG;
  __host__ __device__ static constexpr T max() noexcept { return wide ? (T)DBL_MAX : FLT_MAX; }
  __host__ __device__ static constexpr T min() noexcept { return wide ? (T)DBL_MIN : FLT_MIN; }
  __host__ __device__ static constexpr T lowest() noexcept { return -max(); }
  __host__ __device__ static constexpr T epsilon() noexcept { return wide ? (T)DBL_EPSILON : FLT_EPSILON; }
  __host__ __device__ static constexpr T infinity() noexcept { return __builtin_bit_cast(float, 0x7f800000); }
  __host__ __device__ static constexpr T quiet_NaN() noexcept { return __builtin_bit_cast(float, 0x7fc00000); }
  __host__ __device__ static constexpr T denorm_min() noexcept { return wide ? (T)DBL_TRUE_MIN : FLT_TRUE_MIN; }
};
template <class T> struct numeric_limits : __devmod_limits<T, is_integral<T>::value ? 1 : is_floating_point<T>::value ? 2 : 0> {};
"""


def _macros(text: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in text.splitlines() if line)


def _defines(macros: Mapping[str, str]) -> str:
    return "".join(f"#define {name} {value}\n" for name, value in macros.items())


def _std(names: Iterable[str]) -> str:
    return f"namespace std {{ {' '.join(f'using ::{name};' for name in names)} }}\n"


@cache
def _constants() -> tuple[re.Pattern[str], list[dict[str, str]]]:
    """Return the pattern of the constants' names, and the constants of each header."""
    groups = [_macros(_MATH), _macros(_FLOAT), _macros(_LIMITS)]
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
    return "".join(_defines({name: group[name] for name in group if name not in own}) for group in groups if names & group.keys())


@cache
def host_headers() -> Mapping[str, str]:
    """Return the headers: include name to text."""
    stdint = "#include <limits.h>\n"
    names = []
    for width in _WIDTHS:
        signed, unsigned, limit, unsigned_limit = _INTEGERS[width]
        for prefix, type_ in (("int", signed), ("uint", unsigned)):
            for form in ("", "_least", "_fast"):
                stdint += f"typedef {type_} {prefix}{form}{width}_t;\n"
                names.append(f"{prefix}{form}{width}_t")
        for form in ("", "_LEAST", "_FAST"):
            own = f"INT{width}" if form else ""
            stdint += f"#define INT{form}{width}_MIN {own + '_MIN' if own else limit + '_MIN'}\n"
            stdint += f"#define INT{form}{width}_MAX {own + '_MAX' if own else limit + '_MAX'}\n"
            stdint += f"#define UINT{form}{width}_MAX {'U' + own + '_MAX' if own else unsigned_limit + '_MAX'}\n"
        stdint += f"#define INT{width}_C(X)  ((::int_least{width}_t) (X))\n#define UINT{width}_C(X) ((::uint_least{width}_t) (X))\n"
    for name, form in (("intptr_t", "int64_t"), ("uintptr_t", "uint64_t"), ("intmax_t", "int64_t"), ("uintmax_t", "uint64_t")):
        stdint += f"typedef {form} {name};\n"
        names.append(name)
    for name, limit in (("INTPTR", "INT64"), ("INTMAX", "INT64"), ("PTRDIFF", "INT64")):
        stdint += f"#define {name}_MIN {limit}_MIN\n#define {name}_MAX {limit}_MAX\n"
    stdint += "".join(f"#define {name}_MAX UINT64_MAX\n" for name in ("UINTPTR", "UINTMAX", "SIZE"))
    stdint += "#define INTMAX_C(X)  ((::intmax_t) (X))\n#define UINTMAX_C(X) ((::uintmax_t) (X))\n"

    offset = "(::size_t) ((char*) &(((type*) 0)->member) - (char*) 0)"
    stddef = f"#if !defined(offsetof)\n#define offsetof(type, member) {offset}\n#endif\ntypedef long double max_align_t;\n"
    integral = "bool char,signed char,unsigned char,wchar_t,char16_t,char32_t,short,unsigned short,int,unsigned int,long,unsigned long"
    traits = _TRAITS + "".join(
        f"template <> struct __devmod_is_integral<{type_}> : true_type {{}};\n"
        for type_ in (*integral.replace(" char,", ",char,", 1).split(","), "long long", "unsigned long long")
    )
    traits += "#if __cplusplus >= 201402L\n"
    traits += "".join(f"template <class T> inline constexpr bool {name}_v = {name}<T>::value;\n" for name in _TRAIT_VALUES.split())
    traits += "".join(
        f"template <class T, class U> inline constexpr bool {name}_v = {name}<T, U>::value;\n"
        for name in ("is_same", "is_base_of", "is_convertible")
    )
    traits += "#endif\n"
    c_headers = {
        "stddef.h": stddef,
        "stdint.h": stdint,
        "inttypes.h": "#include <stdint.h>\n",
        "limits.h": _defines(_macros(_LIMITS)),
        "float.h": _defines(_macros(_FLOAT)),
        "math.h": "".join(f"#ifndef {name}\n#define {name} {value}\n#endif\n" for name, value in _macros(_MATH).items()),
        "stdlib.h": "#include <stddef.h>\n",
        "stdio.h": "#include <stddef.h>\n",
        "string.h": "#include <stddef.h>\n" + _STRING,
        "assert.h": "",
        "stdbool.h": "",
        "time.h": "",
    }
    functions = [*_MATH_FUNCTIONS.split(), *_FLOAT_FUNCTIONS.split()]
    headers = {
        "cstddef": "#include <stddef.h>\nnamespace std { using nullptr_t = decltype(nullptr); }\n"
        + _std(["size_t", "ptrdiff_t", "max_align_t"]),
        "cstdint": "#include <stdint.h>\n" + _std(names),
        "cinttypes": "#include <cstdint>\n",
        "climits": "#include <limits.h>\n",
        "cfloat": "#include <float.h>\n",
        "cmath": "#include <math.h>\n" + _std(functions),
        "cstdlib": "#include <stdlib.h>\n" + _std(["size_t", "malloc", "free", "abs"]),
        "cstdio": "#include <stdio.h>\n" + _std(["size_t", "printf"]),
        "cstring": "#include <string.h>\n" + _std(["size_t", "memcpy", "memset", "strlen", "strcmp", "memcmp"]),
        "cassert": "#include <assert.h>\n",
        "ctime": "#include <time.h>\n",
        "initializer_list": "",
        "type_traits": f"#include <cstddef>\nnamespace std {{\n{traits}}}\n",
        "utility": f"#include <type_traits>\nnamespace std {{\n{_UTILITY}}}\n",
        "algorithm": f"#include <utility>\nnamespace std {{\n{_ALGORITHM}}}\n",
        "limits": f"#include <type_traits>\n#include <climits>\n#include <cfloat>\nnamespace std {{\n{_NUMERIC_LIMITS}}}\n",
    }
    return {name: f"#pragma once\n{text}" for name, text in (c_headers | headers).items()}
