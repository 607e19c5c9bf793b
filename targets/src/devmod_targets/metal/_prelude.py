"""The predeclared names of the Metal shading language for libclang, which reads it as C++.

Metal's address spaces become clang's address spaces for SYCL. These convert to the generic one as in Metal: a struct can be copied from
any of them, and its methods can be called. Only names matter, and the types, sizes and address spaces of a kernel's arguments, so
functions are templates that accept any arguments. Vectors are clang's, for their components. C++ has no ``float4(a, b)`` for these, so
a macro of that form replaces it. The file is long because it is the text of a header.
"""

from __future__ import annotations

from functools import cache

#: A pointer into each address space. clang's numbers of the address spaces differ between versions.
SPACES = "".join(f"__attribute__(({name})) int *{name};\n" for name in ("opencl_global", "opencl_global_host", "opencl_local"))
#: The name of the header that clang includes before the program.
NAME = "devmod_metal.h"
_HEADERS = """
stdlib algorithm array assert atomic command_buffer common compute compute_private config cooperative_tensor depth extended_vector
functional geometric graphics imageblocks initializer_list integer interpolate iterator limits logging math matrix mesh numeric pack
packed_vector pull_vertex_inputs quadgroup raytracing relational simdgroup simdgroup_matrix tensor tessellation texture tile_attributes
type_traits types tuple uniform utility vector visible_function_table
"""
#: The headers that programs include; they are empty.
HEADERS = (
    *(f"metal_{name}" for name in _HEADERS.split()),
    "simd/simd.h",
    "simd/vector_types.h",
    "simd/matrix_types.h",
    "TargetConditionals.h",
    "MetalPerformancePrimitives/MetalPerformancePrimitives.h",
)

_NUMBERS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float", "bfloat", "bool")
#: The names of the language's functions. The device's compiler checks their arguments.
_FUNCTIONS = """
abs absdiff acos acosh addsat all any asin asinh atan atan2 atanh ceil clamp clz copysign cos cosh cospi cross ctz degrees determinant
distance distance_squared divide dot exp exp10 exp2 extract_bits fabs faceforward fdim floor fma fmax fmax3 fmedian3 fmin fmin3 fmod
fract frexp hadd ilogb insert_bits isfinite isinf isnan isnormal isordered isunordered ldexp length length_squared log log10 log2 mad24
madhi madsat max max3 median3 min min3 mix modf mul24 mulhi nan nextafter normalize not_equal popcount pow powr quantize radians reflect
refract reverse_bits rhadd rint rotate round rsqrt saturate select sign signbit sin sincos sinh sinpi smoothstep sqrt step subsat tan tanh
tanpi transpose trunc cbrt expm1 log1p erf erfc lgamma tgamma hypot remainder
simd_active_threads_mask simd_all simd_and simd_any simd_ballot simd_broadcast simd_broadcast_first simd_is_first simd_is_helper_thread
simd_max simd_min simd_or simd_prefix_exclusive_product simd_prefix_exclusive_sum simd_prefix_inclusive_product simd_prefix_inclusive_sum
simd_product simd_shuffle simd_shuffle_and_fill_down simd_shuffle_and_fill_up simd_shuffle_down simd_shuffle_rotate_down
simd_shuffle_rotate_up simd_shuffle_up simd_shuffle_xor simd_sum simd_xor quad_active_threads_mask quad_all quad_and quad_any
quad_ballot quad_broadcast quad_broadcast_first quad_is_first quad_max quad_min quad_or quad_prefix_exclusive_product
quad_prefix_exclusive_sum quad_prefix_inclusive_product quad_prefix_inclusive_sum quad_product quad_shuffle quad_shuffle_and_fill_down
quad_shuffle_and_fill_up quad_shuffle_down quad_shuffle_rotate_down quad_shuffle_rotate_up quad_shuffle_up quad_shuffle_xor quad_sum
quad_xor simdgroup_load simdgroup_store simdgroup_multiply simdgroup_multiply_accumulate simdgroup_barrier threadgroup_barrier
quadgroup_barrier threadgroup_imageblock_barrier atomic_load_explicit atomic_store_explicit atomic_exchange_explicit
atomic_compare_exchange_weak_explicit atomic_fetch_add_explicit atomic_fetch_sub_explicit atomic_fetch_and_explicit
atomic_fetch_or_explicit atomic_fetch_xor_explicit atomic_fetch_max_explicit atomic_fetch_min_explicit atomic_max_explicit
atomic_min_explicit atomic_thread_fence discard_fragment dfdx dfdy fwidth pack_float_to_snorm4x8 pack_float_to_unorm4x8
pack_float_to_snorm2x16 pack_float_to_unorm2x16 pack_half_to_snorm4x8 pack_half_to_unorm4x8 pack_half_to_snorm2x16
pack_half_to_unorm2x16 unpack_snorm4x8_to_float unpack_unorm4x8_to_float unpack_snorm2x16_to_float unpack_unorm2x16_to_float
unpack_snorm4x8_to_half unpack_unorm4x8_to_half unpack_snorm2x16_to_half unpack_unorm2x16_to_half is_function_constant_defined
is_null_texture is_null_sampler assume make_uniform spline
"""
_TEXTURES = """
texture1d texture1d_array texture2d texture2d_array texture3d texturecube texturecube_array texture2d_ms texture2d_ms_array
texture_buffer depth2d depth2d_array depthcube depthcube_array depth2d_ms depth2d_ms_array
"""
_METHODS = (
    "template <class... B> vec<T, 4> sample(B...) const; template <class... B> vec<T, 4> read(B...) const; "
    "template <class... B> vec<T, 4> gather(B...) const; template <class... B> void write(B...) const; "
    "template <class... B> uint get_width(B...) const; template <class... B> uint get_height(B...) const; "
    "template <class... B> uint get_depth(B...) const; uint get_array_size() const; uint get_num_mip_levels() const; "
    "uint get_num_samples() const; void fence() const;"
)
_ENUMS = {
    "access": "sample read write read_write",
    "coord": "normalized pixel",
    "filter": "nearest linear bicubic",
    "min_filter": "nearest linear bicubic",
    "mag_filter": "nearest linear bicubic",
    "mip_filter": "none nearest linear",
    "address": "clamp_to_zero clamp_to_edge repeat mirrored_repeat clamp_to_border",
    "s_address": "clamp_to_zero clamp_to_edge repeat mirrored_repeat clamp_to_border",
    "t_address": "clamp_to_zero clamp_to_edge repeat mirrored_repeat clamp_to_border",
    "r_address": "clamp_to_zero clamp_to_edge repeat mirrored_repeat clamp_to_border",
    "border_color": "transparent_black opaque_black opaque_white",
    "compare_func": "never less less_equal greater greater_equal equal not_equal always",
    "component": "x y z w",
}
_MATH = """
M_E 2.71828183 M_LOG2E 1.44269504 M_LOG10E 0.434294482 M_LN2 0.693147181 M_LN10 2.30258509 M_PI 3.14159265 M_PI_2 1.57079633
M_PI_4 0.785398163 M_1_PI 0.318309886 M_2_PI 0.636619772 M_2_SQRTPI 1.12837917 M_SQRT2 1.41421356 M_SQRT1_2 0.707106781
"""

_BEGIN = r"""
#define __METAL__ 1
#define __METAL_MACOS__ 1
#define __HAVE_BFLOAT__ 1
#define __HAVE_ATOMIC_FLOAT__ 1
#define device __attribute__((opencl_global))
#define constant const __attribute__((opencl_global_host))
#define threadgroup __attribute__((opencl_local))
#define thread
#define ray_data
#define object_data
#define threadgroup_imageblock
#define kernel [[clang::annotate("metal.kernel")]]
#define vertex
#define fragment
#define METAL_FUNC inline __attribute__((__always_inline__))
#define METAL_INTERNAL inline
#define TARGET_OS_OSX 1
#define TARGET_OS_IPHONE 0
#define NULL nullptr
#define NAN __builtin_nanf("")
#define INFINITY __builtin_inff()
#define HUGE_VALF __builtin_inff()
#define HUGE_VALH __builtin_inff()
#define MAXFLOAT 3.402823466e+38F
#define MAXHALF 65504
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define HALF_MAX 65504
#define HALF_MIN 6.103515625e-05
#define HALF_EPSILON 9.765625e-04
#define CHAR_BIT 8
#define CHAR_MAX 127
#define CHAR_MIN (-128)
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295U
#define LONG_MAX 9223372036854775807L
#define LONG_MIN (-9223372036854775807L - 1)
#define ULONG_MAX 18446744073709551615UL
#define INT32_MAX INT_MAX
#define INT32_MIN INT_MIN
#define UINT32_MAX UINT_MAX
#define INT64_MAX LONG_MAX
#define UINT64_MAX ULONG_MAX
#define UINT16_MAX USHRT_MAX
#define UINT8_MAX UCHAR_MAX
#define ATOMIC_VAR_INIT(x) (x)
#define __devmod_text(...) #__VA_ARGS__
#define __devmod_attribute(name, ...) clang::annotate("metal." name "=" __devmod_text(__VA_ARGS__))
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
typedef __bf16 bfloat;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
template <class T, class A> constexpr T as_type(A) { return T{}; }
half operator "" h(long double);
half operator "" H(long double);
bfloat operator "" bf(long double);
bfloat operator "" BF(long double);
template <class V, class... A> constexpr V __devmod_make(A...) { return V{}; }
namespace simd { using ::__devmod_make; }
namespace metal {
using ::__devmod_make; using ::as_type;
using size_t = ::size_t; using ptrdiff_t = ::ptrdiff_t; using half = ::half; using bfloat = ::bfloat;
using uchar = ::uchar; using ushort = ::ushort; using uint = ::uint; using ulong = ::ulong;
using int8_t = ::int8_t; using uint8_t = ::uint8_t; using int16_t = ::int16_t; using uint16_t = ::uint16_t;
using int32_t = ::int32_t; using uint32_t = ::uint32_t; using int64_t = ::int64_t; using uint64_t = ::uint64_t;
template <class T, int N> using vec = T __attribute__((ext_vector_type(N)));
template <class T, int N> struct __devmod_packed;
#define __devmod_members(N, A, B) \
  template <class T> struct __devmod_packed<T, N> { \
    union { T data[N]; struct { T A; }; struct { T B; }; }; \
    constexpr __devmod_packed() : data{} {} \
    template <class... V> constexpr __devmod_packed(V...) : data{} {} \
    operator vec<T, N>() const; \
    template <class I> T &operator[](I); \
    template <class I> const T &operator[](I) const; \
  };
#define __devmod_list(...) __VA_ARGS__
__devmod_members(2, __devmod_list(x, y), __devmod_list(r, g))
__devmod_members(3, __devmod_list(x, y, z), __devmod_list(r, g, b))
__devmod_members(4, __devmod_list(x, y, z, w), __devmod_list(r, g, b, a))
template <class T, class...> struct __devmod_one { typedef T type; };
}
"""
_END = r"""
template <class T, int C, int R> struct matrix {
  vec<T, R> columns[C];
  template <class... A> constexpr matrix(A...) : columns{} {}
  template <class I> vec<T, R> &operator[](I);
  template <class I> const vec<T, R> &operator[](I) const;
  template <class A> friend vec<T, R> operator*(matrix, A);
};
template <class T, int R, int C> struct simdgroup_matrix {
  template <class... A> simdgroup_matrix(A...);
  T __devmod_data[R * C / 32];
  vec<T, 2> &thread_elements();
};
template <class T, int R, int C> simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T);
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
enum memory_order { memory_order_relaxed, memory_order_acquire, memory_order_release, memory_order_acq_rel, memory_order_seq_cst };
enum thread_scope { thread_scope_thread, thread_scope_threadgroup, thread_scope_device, thread_scope_simdgroup };
enum class mem_flags {
  mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4, mem_threadgroup_imageblock = 8, mem_object_data = 16
};
constexpr mem_flags operator|(mem_flags a, mem_flags) { return a; }
constexpr mem_flags operator&(mem_flags a, mem_flags) { return a; }
template <class T> struct atomic { T __devmod_value; };
template <class T> struct _atomic { T __devmod_value; };
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<ulong> atomic_ulong;
typedef atomic<bool> atomic_bool;
typedef atomic<float> atomic_float;
struct sampler { template <class... A> constexpr sampler(A...) {} };
template <class T> struct initializer_list { const T *begin() const; const T *end() const; size_t size() const; };
struct max_anisotropy { constexpr max_anisotropy(int) {} };
struct lod_clamp { constexpr lod_clamp(float, float) {} };
struct level { level(float); }; struct bias { bias(float); }; struct gradient2d { template <class A> gradient2d(A, A); };
template <class T, size_t N> struct array {
  T __devmod_data[N];
  T &operator[](size_t); const T &operator[](size_t) const; constexpr size_t size() const { return N; }
  T *begin(); T *end();
};
template <class T> struct array_ref { T &operator[](size_t); size_t size() const; };
template <class T> struct array_view : array_ref<T> {};
template <class A, class B> struct pair { A first; B second; };
struct simd_vote {
  typedef ulong vote_t; template <class... A> simd_vote(A...); explicit operator ulong() const; bool all() const; bool any() const;
};
typedef simd_vote quad_vote;
struct acceleration_structure {}; struct command_buffer {}; struct render_command {}; struct compute_command {};
template <class T> struct visible_function_table { template <class I> T *operator[](I) const; };
template <class T, T V> struct integral_constant {
  static constexpr T value = V; typedef T value_type; typedef integral_constant type; constexpr operator T() const { return V; }
};
template <bool V> using bool_constant = integral_constant<bool, V>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;
template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <class A, class B> constexpr bool is_same_v = is_same<A, B>::value;
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <class... A> using void_t = void;
template <class...> struct conjunction : true_type {};
template <class A, class... B> struct conjunction<A, B...> : bool_constant<A::value && conjunction<B...>::value> {};
template <class...> struct disjunction : false_type {};
template <class A, class... B> struct disjunction<A, B...> : bool_constant<A::value || disjunction<B...>::value> {};
template <class... A> using _disjunction = disjunction<A...>;
template <class A> struct negation : bool_constant<!A::value> {};
template <class... A> constexpr bool disjunction_v = disjunction<A...>::value;
template <class... A> constexpr bool conjunction_v = conjunction<A...>::value;
template <class T> struct remove_const { typedef T type; };
template <class T> struct remove_const<const T> { typedef T type; };
template <class T> struct remove_volatile { typedef T type; };
template <class T> struct remove_volatile<volatile T> { typedef T type; };
template <class T> struct remove_cv { typedef typename remove_const<typename remove_volatile<T>::type>::type type; };
template <class T> struct remove_reference { typedef __remove_reference_t(T) type; };
template <class T> struct remove_pointer { typedef __remove_pointer(T) type; };
template <class T> struct add_const { typedef const T type; };
template <class T> struct decay { typedef __decay(T) type; };
template <class T> struct make_unsigned { typedef __make_unsigned(T) type; };
template <class T> struct make_signed { typedef __make_signed(T) type; };
template <class T> struct underlying_type { typedef __underlying_type(T) type; };
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_reference_t = __remove_reference_t(T);
template <class T> struct remove_addrspace { typedef T type; };
template <class T> using remove_addrspace_t = typename remove_addrspace<T>::type;
template <class T> using remove_pointer_t = __remove_pointer(T);
template <class T> using decay_t = __decay(T);
template <class T> using make_unsigned_t = __make_unsigned(T);
template <class T> using make_signed_t = __make_signed(T);
template <class T> struct make_scalar { typedef T type; };
template <class T, int N> struct make_scalar<T __attribute__((ext_vector_type(N)))> { typedef T type; };
template <class T> using make_scalar_t = typename make_scalar<T>::type;
#define __devmod_trait(name, ...) \
  template <class T> struct name : bool_constant<__VA_ARGS__> {}; \
  template <class T> constexpr bool name##_v = name<T>::value;
__devmod_trait(is_integral, __is_integral(T))
__devmod_trait(is_floating_point, __is_floating_point(T) || __is_same(T, half) || __is_same(T, bfloat))
__devmod_trait(is_arithmetic, __is_arithmetic(T) || __is_same(T, half) || __is_same(T, bfloat))
__devmod_trait(is_signed, __is_signed(T))
__devmod_trait(is_unsigned, __is_unsigned(T))
__devmod_trait(is_void, __is_void(T))
__devmod_trait(is_const, __is_const(T))
__devmod_trait(is_pointer, __is_pointer(T))
__devmod_trait(is_reference, __is_reference(T))
__devmod_trait(is_enum, __is_enum(T))
__devmod_trait(is_class, __is_class(T))
__devmod_trait(is_scalar, __is_scalar(T))
__devmod_trait(is_array, __is_array(T))
__devmod_trait(is_trivial, __is_trivial(T))
__devmod_trait(is_vector, false)
template <class A, class B> struct is_convertible : bool_constant<__is_convertible(A, B)> {};
template <class A, class B> constexpr bool is_convertible_v = __is_convertible(A, B);
template <class A, class B> struct is_base_of : bool_constant<__is_base_of(A, B)> {};
template <class A, class B> constexpr bool is_base_of_v = __is_base_of(A, B);
template <class A, class... B> constexpr bool is_constructible_v = __is_constructible(A, B...);
template <class T> T declval();
template <class T, T... I> struct integer_sequence {};
template <size_t... I> using index_sequence = integer_sequence<size_t, I...>;
template <class T, T N> using make_integer_sequence = __make_integer_seq<integer_sequence, T, N>;
template <size_t N> using make_index_sequence = make_integer_sequence<size_t, N>;
template <class T> struct _numeric_limits_impl {
  static constexpr bool is_signed = true, is_integer = true, has_infinity = true, is_specialized = true;
  static constexpr int digits = 24, digits10 = 6, max_exponent = 128, min_exponent = -125, radix = 2;
  static constexpr T min() { return T(); } static constexpr T max() { return T(); } static constexpr T lowest() { return T(); }
  static constexpr T epsilon() { return T(); } static constexpr T infinity() { return T(); }
  static constexpr T quiet_NaN() { return T(); } static constexpr T signaling_NaN() { return T(); }
  static constexpr T denorm_min() { return T(); } static constexpr T round_error() { return T(); }
};
template <class T> struct numeric_limits : _numeric_limits_impl<T> {};
template <class T> T &&move(T &); template <class T> void swap(T &, T &);
template <class T> struct imageblock {};
struct r8unorm {}; struct os_log {
  template <class... A> constexpr os_log(A...) {}
  template <class... A> void log(A...) const; template <class... A> void log_debug(A...) const;
  template <class... A> void log_info(A...) const;
  template <class... A> void log_error(A...) const; template <class... A> void log_fault(A...) const;
};
extern os_log os_log_default;
template <class T> using uniform = T;
template <class T> struct vec_elements : integral_constant<int, 1> {};
template <class T, int N> struct vec_elements<T __attribute__((ext_vector_type(N)))> : integral_constant<int, N> {};
struct execution_thread {}; struct execution_simdgroup {}; template <int N> struct execution_simdgroups {};
template <class T, class E, class... A> struct tensor { template <class... B> tensor(B...); template <class... B> tensor slice(B...); };
template <class T, size_t... N> struct extents { template <class... A> extents(A...); };
template <class T, size_t N> struct dextents { template <class... A> dextents(A...); };
struct tensor_handle {}; struct tensor_inline {}; struct tensor_offset {};
namespace raytracing {}
namespace fast { using namespace metal; }
namespace precise { using namespace metal; }
}
namespace simd { using namespace metal; }
namespace mpp { namespace tensor_ops {
struct matmul2d_descriptor {
  enum class mode { multiply, multiply_accumulate }; template <class... A> constexpr matmul2d_descriptor(A...) {}
};
template <auto, class S> struct matmul2d {
  template <class A, class B, class C, class... D> auto get_left_input_cooperative_tensor() { return metal::array<A, 8>(); }
  template <class A, class B, class C, class... D> auto get_right_input_cooperative_tensor() { return metal::array<B, 8>(); }
  template <class A, class B, class C, class... D> auto get_destination_cooperative_tensor() { return metal::array<C, 8>(); }
  template <class... A> void run(A &&...);
};
} }
"""


@cache
def text() -> str:
    """Return the header's text."""
    lines = [_BEGIN]
    for number in _NUMBERS:
        for lanes in "234":
            name = number + lanes
            # A bool is a byte in Metal, but clang packs vectors of bool into bits.
            lines.append(f"typedef {'uchar' if number == 'bool' else number} {name} __attribute__((ext_vector_type({lanes})));")
            lines.append(f"typedef metal::__devmod_packed<{number}, {lanes}> packed_{name}; typedef {name} vector_{name}, simd_{name};")
            lines.append(f"namespace metal {{ using ::{name}; using ::packed_{name}; }}")
    lines.append("namespace metal {")
    lines.append("enum memory_coherence { memory_coherence_threadgroup, memory_coherence_device, memory_coherence_system };")
    lines += [f"enum class {name} {{ {', '.join(values.split())} }};" for name, values in _ENUMS.items()]
    lines += [f"template <class... A> constexpr typename __devmod_one<A...>::type {name}(A...);" for name in _FUNCTIONS.split()]
    lines += [
        f"template <class T, access = access::sample, memory_coherence = memory_coherence_threadgroup> struct {name} {{ {_METHODS} }};"
        for name in _TEXTURES.split()
    ]
    lines.append(_END)
    words = _MATH.split()
    lines += [f"#define {name}_{suffix} {value}" for name, value in zip(words[::2], words[1::2], strict=True) for suffix in "FH"]
    for number in ("half", "float"):
        for shape in (f"{columns}x{rows}" for columns in "234" for rows in "234"):
            lines.append(
                f"typedef metal::matrix<{number}, {shape[0]}, {shape[2]}> {number}{shape}, matrix_{number}{shape}, simd_{number}{shape};"
            )
            lines.append(f"namespace metal {{ using ::{name}; }}")
    lines += [f"#define {number}{lanes}(...) __devmod_make<{number}{lanes}>(__VA_ARGS__)" for number in _NUMBERS for lanes in "234"]
    return "\n".join(lines)
