// The macros and types of the Metal shading language that precede the vectors (_prelude.py).
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
namespace metal {
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
