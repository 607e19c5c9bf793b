// The Metal shading language for libclang, which reads it as C++. _reflect.py has the reasons.
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
enum memory_coherence { memory_coherence_threadgroup, memory_coherence_device, memory_coherence_system };
enum class access { sample, read, write, read_write };
enum class coord { normalized, pixel };
enum class filter { nearest, linear, bicubic };
enum class min_filter { nearest, linear, bicubic };
enum class mag_filter { nearest, linear, bicubic };
enum class mip_filter { none, nearest, linear };
enum class address { clamp_to_zero, clamp_to_edge, repeat, mirrored_repeat, clamp_to_border };
enum class s_address { clamp_to_zero, clamp_to_edge, repeat, mirrored_repeat, clamp_to_border };
enum class t_address { clamp_to_zero, clamp_to_edge, repeat, mirrored_repeat, clamp_to_border };
enum class r_address { clamp_to_zero, clamp_to_edge, repeat, mirrored_repeat, clamp_to_border };
enum class border_color { transparent_black, opaque_black, opaque_white };
enum class compare_func { never, less, less_equal, greater, greater_equal, equal, not_equal, always };
enum class component { x, y, z, w };
}
// A bool is a byte in Metal, but clang packs vectors of bool into bits.
#define __devmod_vector(lane, number, name, N) \
  typedef lane name __attribute__((ext_vector_type(N))); \
  typedef metal::__devmod_packed<number, N> packed_##name; typedef name vector_##name, simd_##name; \
  namespace metal { using ::name; using ::packed_##name; }
#define __devmod_vectors(lane, number) \
  __devmod_vector(lane, number, number##2, 2) __devmod_vector(lane, number, number##3, 3) __devmod_vector(lane, number, number##4, 4)
__devmod_vectors(char, char) __devmod_vectors(uchar, uchar) __devmod_vectors(short, short) __devmod_vectors(ushort, ushort)
__devmod_vectors(int, int) __devmod_vectors(uint, uint) __devmod_vectors(long, long) __devmod_vectors(ulong, ulong)
__devmod_vectors(half, half) __devmod_vectors(float, float) __devmod_vectors(bfloat, bfloat) __devmod_vectors(uchar, bool)
namespace metal {
// The functions of the language. The device's compiler checks their arguments.
#define __devmod_function(name) template <class... A> constexpr typename __devmod_one<A...>::type name(A...);
__devmod_function(abs) __devmod_function(absdiff) __devmod_function(acos) __devmod_function(acosh) __devmod_function(addsat)
__devmod_function(all) __devmod_function(any) __devmod_function(asin) __devmod_function(asinh) __devmod_function(atan)
__devmod_function(atan2) __devmod_function(atanh) __devmod_function(ceil) __devmod_function(clamp) __devmod_function(clz)
__devmod_function(copysign) __devmod_function(cos) __devmod_function(cosh) __devmod_function(cospi) __devmod_function(cross)
__devmod_function(ctz) __devmod_function(degrees) __devmod_function(determinant) __devmod_function(distance)
__devmod_function(distance_squared) __devmod_function(divide) __devmod_function(dot) __devmod_function(exp)
__devmod_function(exp10) __devmod_function(exp2) __devmod_function(extract_bits) __devmod_function(fabs)
__devmod_function(faceforward) __devmod_function(fdim) __devmod_function(floor) __devmod_function(fma) __devmod_function(fmax)
__devmod_function(fmax3) __devmod_function(fmedian3) __devmod_function(fmin) __devmod_function(fmin3) __devmod_function(fmod)
__devmod_function(fract) __devmod_function(frexp) __devmod_function(hadd) __devmod_function(ilogb) __devmod_function(insert_bits)
__devmod_function(isfinite) __devmod_function(isinf) __devmod_function(isnan) __devmod_function(isnormal)
__devmod_function(isordered) __devmod_function(isunordered) __devmod_function(ldexp) __devmod_function(length)
__devmod_function(length_squared) __devmod_function(log) __devmod_function(log10) __devmod_function(log2) __devmod_function(mad24)
__devmod_function(madhi) __devmod_function(madsat) __devmod_function(max) __devmod_function(max3) __devmod_function(median3)
__devmod_function(min) __devmod_function(min3) __devmod_function(mix) __devmod_function(modf) __devmod_function(mul24)
__devmod_function(mulhi) __devmod_function(nan) __devmod_function(nextafter) __devmod_function(normalize)
__devmod_function(not_equal) __devmod_function(popcount) __devmod_function(pow) __devmod_function(powr)
__devmod_function(quantize) __devmod_function(radians) __devmod_function(reflect) __devmod_function(refract)
__devmod_function(reverse_bits) __devmod_function(rhadd) __devmod_function(rint) __devmod_function(rotate)
__devmod_function(round) __devmod_function(rsqrt) __devmod_function(saturate) __devmod_function(select) __devmod_function(sign)
__devmod_function(signbit) __devmod_function(sin) __devmod_function(sincos) __devmod_function(sinh) __devmod_function(sinpi)
__devmod_function(smoothstep) __devmod_function(sqrt) __devmod_function(step) __devmod_function(subsat) __devmod_function(tan)
__devmod_function(tanh) __devmod_function(tanpi) __devmod_function(transpose) __devmod_function(trunc) __devmod_function(cbrt)
__devmod_function(expm1) __devmod_function(log1p) __devmod_function(erf) __devmod_function(erfc) __devmod_function(lgamma)
__devmod_function(tgamma) __devmod_function(hypot) __devmod_function(remainder) __devmod_function(simd_active_threads_mask)
__devmod_function(simd_all) __devmod_function(simd_and) __devmod_function(simd_any) __devmod_function(simd_ballot)
__devmod_function(simd_broadcast) __devmod_function(simd_broadcast_first) __devmod_function(simd_is_first)
__devmod_function(simd_is_helper_thread) __devmod_function(simd_max) __devmod_function(simd_min) __devmod_function(simd_or)
__devmod_function(simd_prefix_exclusive_product) __devmod_function(simd_prefix_exclusive_sum)
__devmod_function(simd_prefix_inclusive_product) __devmod_function(simd_prefix_inclusive_sum) __devmod_function(simd_product)
__devmod_function(simd_shuffle) __devmod_function(simd_shuffle_and_fill_down) __devmod_function(simd_shuffle_and_fill_up)
__devmod_function(simd_shuffle_down) __devmod_function(simd_shuffle_rotate_down) __devmod_function(simd_shuffle_rotate_up)
__devmod_function(simd_shuffle_up) __devmod_function(simd_shuffle_xor) __devmod_function(simd_sum) __devmod_function(simd_xor)
__devmod_function(quad_active_threads_mask) __devmod_function(quad_all) __devmod_function(quad_and) __devmod_function(quad_any)
__devmod_function(quad_ballot) __devmod_function(quad_broadcast) __devmod_function(quad_broadcast_first)
__devmod_function(quad_is_first) __devmod_function(quad_max) __devmod_function(quad_min) __devmod_function(quad_or)
__devmod_function(quad_prefix_exclusive_product) __devmod_function(quad_prefix_exclusive_sum)
__devmod_function(quad_prefix_inclusive_product) __devmod_function(quad_prefix_inclusive_sum) __devmod_function(quad_product)
__devmod_function(quad_shuffle) __devmod_function(quad_shuffle_and_fill_down) __devmod_function(quad_shuffle_and_fill_up)
__devmod_function(quad_shuffle_down) __devmod_function(quad_shuffle_rotate_down) __devmod_function(quad_shuffle_rotate_up)
__devmod_function(quad_shuffle_up) __devmod_function(quad_shuffle_xor) __devmod_function(quad_sum) __devmod_function(quad_xor)
__devmod_function(simdgroup_load) __devmod_function(simdgroup_store) __devmod_function(simdgroup_multiply)
__devmod_function(simdgroup_multiply_accumulate) __devmod_function(simdgroup_barrier) __devmod_function(threadgroup_barrier)
__devmod_function(quadgroup_barrier) __devmod_function(threadgroup_imageblock_barrier) __devmod_function(atomic_load_explicit)
__devmod_function(atomic_store_explicit) __devmod_function(atomic_exchange_explicit)
__devmod_function(atomic_compare_exchange_weak_explicit) __devmod_function(atomic_fetch_add_explicit)
__devmod_function(atomic_fetch_sub_explicit) __devmod_function(atomic_fetch_and_explicit)
__devmod_function(atomic_fetch_or_explicit) __devmod_function(atomic_fetch_xor_explicit)
__devmod_function(atomic_fetch_max_explicit) __devmod_function(atomic_fetch_min_explicit) __devmod_function(atomic_max_explicit)
__devmod_function(atomic_min_explicit) __devmod_function(atomic_thread_fence) __devmod_function(discard_fragment)
__devmod_function(dfdx) __devmod_function(dfdy) __devmod_function(fwidth) __devmod_function(pack_float_to_snorm4x8)
__devmod_function(pack_float_to_unorm4x8) __devmod_function(pack_float_to_snorm2x16) __devmod_function(pack_float_to_unorm2x16)
__devmod_function(pack_half_to_snorm4x8) __devmod_function(pack_half_to_unorm4x8) __devmod_function(pack_half_to_snorm2x16)
__devmod_function(pack_half_to_unorm2x16) __devmod_function(unpack_snorm4x8_to_float) __devmod_function(unpack_unorm4x8_to_float)
__devmod_function(unpack_snorm2x16_to_float) __devmod_function(unpack_unorm2x16_to_float)
__devmod_function(unpack_snorm4x8_to_half) __devmod_function(unpack_unorm4x8_to_half) __devmod_function(unpack_snorm2x16_to_half)
__devmod_function(unpack_unorm2x16_to_half) __devmod_function(is_function_constant_defined) __devmod_function(is_null_texture)
__devmod_function(is_null_sampler) __devmod_function(assume) __devmod_function(make_uniform) __devmod_function(spline)
#define __devmod_texture(name) \
  template <class T, access = access::sample, memory_coherence = memory_coherence_threadgroup> struct name { \
    template <class... B> vec<T, 4> sample(B...) const; \
    template <class... B> vec<T, 4> read(B...) const; \
    template <class... B> vec<T, 4> gather(B...) const; \
    template <class... B> void write(B...) const; \
    template <class... B> uint get_width(B...) const; \
    template <class... B> uint get_height(B...) const; \
    template <class... B> uint get_depth(B...) const; \
    uint get_array_size() const; \
    uint get_num_mip_levels() const; \
    uint get_num_samples() const; \
    void fence() const; \
  };
__devmod_texture(texture1d) __devmod_texture(texture1d_array) __devmod_texture(texture2d) __devmod_texture(texture2d_array)
__devmod_texture(texture3d) __devmod_texture(texturecube) __devmod_texture(texturecube_array) __devmod_texture(texture2d_ms)
__devmod_texture(texture2d_ms_array) __devmod_texture(texture_buffer) __devmod_texture(depth2d) __devmod_texture(depth2d_array)
__devmod_texture(depthcube) __devmod_texture(depthcube_array) __devmod_texture(depth2d_ms) __devmod_texture(depth2d_ms_array)
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
#define M_E_F 2.71828183
#define M_E_H 2.71828183
#define M_LOG2E_F 1.44269504
#define M_LOG2E_H 1.44269504
#define M_LOG10E_F 0.434294482
#define M_LOG10E_H 0.434294482
#define M_LN2_F 0.693147181
#define M_LN2_H 0.693147181
#define M_LN10_F 2.30258509
#define M_LN10_H 2.30258509
#define M_PI_F 3.14159265
#define M_PI_H 3.14159265
#define M_PI_2_F 1.57079633
#define M_PI_2_H 1.57079633
#define M_PI_4_F 0.785398163
#define M_PI_4_H 0.785398163
#define M_1_PI_F 0.318309886
#define M_1_PI_H 0.318309886
#define M_2_PI_F 0.636619772
#define M_2_PI_H 0.636619772
#define M_2_SQRTPI_F 1.12837917
#define M_2_SQRTPI_H 1.12837917
#define M_SQRT2_F 1.41421356
#define M_SQRT2_H 1.41421356
#define M_SQRT1_2_F 0.707106781
#define M_SQRT1_2_H 0.707106781
#define __devmod_matrix(number, C, R) \
  typedef metal::matrix<number, C, R> number##C##x##R, matrix_##number##C##x##R, simd_##number##C##x##R; \
  namespace metal { using ::number##C##x##R; }
#define __devmod_matrices(number) \
  __devmod_matrix(number, 2, 2) __devmod_matrix(number, 2, 3) __devmod_matrix(number, 2, 4) \
  __devmod_matrix(number, 3, 2) __devmod_matrix(number, 3, 3) __devmod_matrix(number, 3, 4) \
  __devmod_matrix(number, 4, 2) __devmod_matrix(number, 4, 3) __devmod_matrix(number, 4, 4)
__devmod_matrices(half)
__devmod_matrices(float)
// C++ has no float4(a, b) for clang's vectors.
#define char2(...) __devmod_make<char2>(__VA_ARGS__)
#define char3(...) __devmod_make<char3>(__VA_ARGS__)
#define char4(...) __devmod_make<char4>(__VA_ARGS__)
#define uchar2(...) __devmod_make<uchar2>(__VA_ARGS__)
#define uchar3(...) __devmod_make<uchar3>(__VA_ARGS__)
#define uchar4(...) __devmod_make<uchar4>(__VA_ARGS__)
#define short2(...) __devmod_make<short2>(__VA_ARGS__)
#define short3(...) __devmod_make<short3>(__VA_ARGS__)
#define short4(...) __devmod_make<short4>(__VA_ARGS__)
#define ushort2(...) __devmod_make<ushort2>(__VA_ARGS__)
#define ushort3(...) __devmod_make<ushort3>(__VA_ARGS__)
#define ushort4(...) __devmod_make<ushort4>(__VA_ARGS__)
#define int2(...) __devmod_make<int2>(__VA_ARGS__)
#define int3(...) __devmod_make<int3>(__VA_ARGS__)
#define int4(...) __devmod_make<int4>(__VA_ARGS__)
#define uint2(...) __devmod_make<uint2>(__VA_ARGS__)
#define uint3(...) __devmod_make<uint3>(__VA_ARGS__)
#define uint4(...) __devmod_make<uint4>(__VA_ARGS__)
#define long2(...) __devmod_make<long2>(__VA_ARGS__)
#define long3(...) __devmod_make<long3>(__VA_ARGS__)
#define long4(...) __devmod_make<long4>(__VA_ARGS__)
#define ulong2(...) __devmod_make<ulong2>(__VA_ARGS__)
#define ulong3(...) __devmod_make<ulong3>(__VA_ARGS__)
#define ulong4(...) __devmod_make<ulong4>(__VA_ARGS__)
#define half2(...) __devmod_make<half2>(__VA_ARGS__)
#define half3(...) __devmod_make<half3>(__VA_ARGS__)
#define half4(...) __devmod_make<half4>(__VA_ARGS__)
#define float2(...) __devmod_make<float2>(__VA_ARGS__)
#define float3(...) __devmod_make<float3>(__VA_ARGS__)
#define float4(...) __devmod_make<float4>(__VA_ARGS__)
#define bfloat2(...) __devmod_make<bfloat2>(__VA_ARGS__)
#define bfloat3(...) __devmod_make<bfloat3>(__VA_ARGS__)
#define bfloat4(...) __devmod_make<bfloat4>(__VA_ARGS__)
#define bool2(...) __devmod_make<bool2>(__VA_ARGS__)
#define bool3(...) __devmod_make<bool3>(__VA_ARGS__)
#define bool4(...) __devmod_make<bool4>(__VA_ARGS__)
