"""The texts of the C++ headers that NVRTC lacks: the type traits, the limits of numbers, and small functions.

``std::numeric_limits`` and the traits have what kernels use. ``cuda/std`` has all of the C++ library.
"""

from __future__ import annotations

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

UTILITY = """
template <class T> __host__ __device__ inline void swap(T &a, T &b) { T c(a); a = b; b = c; }
template <class T> __host__ __device__ T &&declval() noexcept;
"""

ALGORITHM = """
template <class T> __host__ __device__ constexpr const T &min(const T &a, const T &b) { return b < a ? b : a; }
template <class T> __host__ __device__ constexpr const T &max(const T &a, const T &b) { return a < b ? b : a; }
template <class T> __host__ __device__ constexpr const T &clamp(const T &x, const T &low, const T &high) {
  return x < low ? low : high < x ? high : x;
}
"""

STRING = """
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
NUMERIC_LIMITS = """
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
#: The traits of two types.
_RELATIONS = "is_same is_base_of is_convertible"
_INTEGRAL_TYPES = (
    *("bool", "char", "signed char", "unsigned char", "wchar_t", "char16_t", "char32_t"),
    *("short", "unsigned short", "int", "unsigned int", "long", "unsigned long", "long long", "unsigned long long"),
)


def type_traits() -> str:
    """Return the content of the namespace std in ``<type_traits>``."""
    lines = [f"template <> struct __devmod_is_integral<{type_}> : true_type {{}};" for type_ in _INTEGRAL_TYPES]
    lines.append("#if __cplusplus >= 201402L")
    lines += [f"template <class T> inline constexpr bool {name}_v = {name}<T>::value;" for name in _TRAIT_VALUES.split()]
    lines += [f"template <class T, class U> inline constexpr bool {name}_v = {name}<T, U>::value;" for name in _RELATIONS.split()]
    return _TRAITS + "\n".join([*lines, "#endif\n"])
