/* What Slang's CUDA and C++ text uses, for NVRTC, nvcc, HIP and C++. All of it is in a namespace, so that neither CUDA's nor HIP's own
 * vectors and operators meet Slang's.
 */
#ifdef __clang__
#pragma clang diagnostic ignored "-Weverything"
#else
#pragma nv_diag_suppress 177, 186, 550
#endif
#if defined(__CUDACC__) || defined(__HIP__)
#define SLANG_DEVICE __device__
#define SLANG_ALIGNED(bytes) alignas(bytes)
#define SLANG_GPU 1
#else
#define SLANG_DEVICE
#define SLANG_ALIGNED(bytes)
#define SLANG_GPU 0
#include <stddef.h>
#include <stdint.h>
/* C's functions: C++'s math.h would take a third of the time of a compile. */
#define SLANG_LIBRARY(name)                                                                                             \
    float name##f(float);                                                                                               \
    double name(double);
#define SLANG_LIBRARY2(name)                                                                                            \
    float name##f(float, float);                                                                                        \
    double name(double, double);
extern "C" {
SLANG_LIBRARY(acos) SLANG_LIBRARY(acosh) SLANG_LIBRARY(asin) SLANG_LIBRARY(asinh) SLANG_LIBRARY(atan) SLANG_LIBRARY(atanh)
SLANG_LIBRARY(ceil) SLANG_LIBRARY(cos) SLANG_LIBRARY(cosh) SLANG_LIBRARY(exp) SLANG_LIBRARY(exp2) SLANG_LIBRARY(fabs)
SLANG_LIBRARY(floor) SLANG_LIBRARY(log) SLANG_LIBRARY(log10) SLANG_LIBRARY(log2) SLANG_LIBRARY(rint) SLANG_LIBRARY(sin)
SLANG_LIBRARY(sinh) SLANG_LIBRARY(sqrt) SLANG_LIBRARY(tan) SLANG_LIBRARY(tanh) SLANG_LIBRARY(trunc)
SLANG_LIBRARY2(atan2) SLANG_LIBRARY2(fmax) SLANG_LIBRARY2(fmin) SLANG_LIBRARY2(fmod) SLANG_LIBRARY2(pow) SLANG_LIBRARY2(remainder)
float fmaf(float, float, float);
double fma(double, double, double);
float frexpf(float, int *);
double frexp(double, int *);
}
#endif
#if SLANG_HALF && SLANG_GPU
#ifdef __HIP__
#include <hip/hip_fp16.h>
#else
#include <cuda_fp16.h>
#endif
#endif
#define SLANG_INLINE SLANG_DEVICE inline
#define SLANG_PRELUDE_EXPORT static

namespace slang {

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
using uchar = uint8_t;
using ushort = uint16_t;
using uint = uint32_t;
using longlong = int64_t;
using ulonglong = uint64_t;
using intptr_t = ptrdiff_t;
using uintptr_t = size_t;
#if SLANG_HALF
#if SLANG_GPU
using __half = ::__half;
#else
struct __half;
#endif
using half = __half;
#endif

template <class To, class From> SLANG_INLINE To slang_bit_cast(From value)
{
    static_assert(sizeof(To) <= sizeof(From) || sizeof(From) == sizeof(void *), "the sizes of a bit cast differ");
    union Bits {
        From from;
        To to;
        SLANG_DEVICE Bits() {}
    } bits;
    bits.from = value;
    return bits.to;
}
#if SLANG_HALF && !SLANG_GPU /* rounded to the nearest, as in hardware */
struct __half {
    uint16_t bits;
    __half() = default;
    __half(float value)
    {
        uint word = slang_bit_cast<uint>(value), sign = word >> 16 & 0x8000, size = word & 0x7fffffff;
        uint result = size > 0x7f800000 ? 0x7e00 : 0x7c00;
        if (size < 0x38800000) /* below the normal numbers: the sum with 0.5 has the rounded bits at its end */
            result = slang_bit_cast<uint>(slang_bit_cast<float>(size) + 0.5f) - 0x3f000000;
        else if (size < 0x47800000)
            result = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
        bits = (uint16_t)(sign | result);
    }
    operator float() const
    {
        uint size = (uint)(bits & 0x7fff) << 13, sign = (uint)(bits & 0x8000) << 16;
        if ((bits & 0x7c00) == 0) /* zero, or below the normal numbers */
            return slang_bit_cast<float>(slang_bit_cast<uint>(slang_bit_cast<float>(size + 0x38800000) - 6.103515625e-5f) | sign);
        return slang_bit_cast<float>(sign | (size + ((bits & 0x7c00) == 0x7c00 ? 0x70000000 : 0x38000000)));
    }
};
inline half operator+(half a, half b) { return (float)a + (float)b; }
inline half operator-(half a, half b) { return (float)a - (float)b; }
inline half operator*(half a, half b) { return (float)a * (float)b; }
inline half operator/(half a, half b) { return (float)a / (float)b; }
inline half operator-(half a) { return -(float)a; }
#endif
/* A macro, since a function would lose to CUDA's own for halves, which reads global memory alone: constant buffers are in shared memory. */
#define __ldg(...) (*(__VA_ARGS__))

/* -- arrays and vectors. On a GPU, vectors of 2 and 4 elements are aligned to their size, up to 16 bytes; in C++, to that of an element. */

template <class T, size_t N> struct FixedArray {
    T m_data[N];
    SLANG_DEVICE T &operator[](size_t index) { return m_data[index]; }
    SLANG_DEVICE const T &operator[](size_t index) const { return m_data[index]; }
};

template <class T, int N> struct Vector;
#define SLANG_ELEMENTS                                                               \
    Vector() = default;                                                              \
    SLANG_DEVICE T &operator[](size_t index) { return (&x)[index]; }                 \
    SLANG_DEVICE const T &operator[](size_t index) const { return (&x)[index]; }
template <class T> struct Vector<T, 1> {
    T x;
    SLANG_ELEMENTS
    SLANG_DEVICE constexpr Vector(T x) : x(x) {}
};
template <class T> struct SLANG_ALIGNED(2 * sizeof(T)) Vector<T, 2> {
    T x, y;
    SLANG_ELEMENTS
    SLANG_DEVICE constexpr explicit Vector(T value) : x(value), y(value) {}
    SLANG_DEVICE constexpr Vector(T x, T y) : x(x), y(y) {}
};
template <class T> struct Vector<T, 3> {
    T x, y, z;
    SLANG_ELEMENTS
    SLANG_DEVICE constexpr explicit Vector(T value) : x(value), y(value), z(value) {}
    SLANG_DEVICE constexpr Vector(T x, T y, T z) : x(x), y(y), z(z) {}
};
template <class T> struct SLANG_ALIGNED(sizeof(T) < 4 ? 4 * sizeof(T) : 16) Vector<T, 4> {
    T x, y, z, w;
    SLANG_ELEMENTS
    SLANG_DEVICE constexpr explicit Vector(T value) : x(value), y(value), z(value), w(value) {}
    SLANG_DEVICE constexpr Vector(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
};
#if SLANG_HALF && SLANG_GPU /* as in Slang: halves are aligned to 4 bytes, three of them too */
template <> struct alignas(4) Vector<__half, 3> {
    typedef __half T;
    T x, y, z;
    SLANG_ELEMENTS
    SLANG_DEVICE explicit Vector(T value) : x(value), y(value), z(value) {}
    SLANG_DEVICE Vector(T x, T y, T z) : x(x), y(y), z(z) {}
};
template <> struct alignas(4) Vector<__half, 4> {
    typedef __half T;
    T x, y, z, w;
    SLANG_ELEMENTS
    SLANG_DEVICE explicit Vector(T value) : x(value), y(value), z(value), w(value) {}
    SLANG_DEVICE Vector(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
};
#endif

template <class T, int N> SLANG_INLINE T _slang_vector_get_element(const Vector<T, N> &vector, int index) { return vector[index]; }
template <class T, int N> SLANG_INLINE T *_slang_vector_get_element_ptr(Vector<T, N> *vector, int index) { return &(*vector)[index]; }
template <class T, int N, class From, int M> SLANG_INLINE Vector<T, N> _slang_vector_reshape(const Vector<From, M> &vector)
{
    Vector<T, N> result;
    for (int i = 0; i < N; i++)
        result[i] = i < M ? (T)vector[i] : (T)0;
    return result;
}
template <class T, int N> SLANG_INLINE Vector<T, N> _slang_select(const Vector<bool, N> &condition, const Vector<T, N> &a, const Vector<T, N> &b)
{
    Vector<T, N> result;
    for (int i = 0; i < N; i++)
        result[i] = condition[i] ? a[i] : b[i];
    return result;
}
template <class T> SLANG_INLINE T _slang_select(bool condition, T a, T b) { return condition ? a : b; }

#define SLANG_VECTORS(name)       \
    using name##1 = Vector<name, 1>; \
    using name##2 = Vector<name, 2>; \
    using name##3 = Vector<name, 3>; \
    using name##4 = Vector<name, 4>;
SLANG_VECTORS(bool)
SLANG_VECTORS(char)
SLANG_VECTORS(uchar)
SLANG_VECTORS(short)
SLANG_VECTORS(ushort)
SLANG_VECTORS(int)
SLANG_VECTORS(uint)
SLANG_VECTORS(longlong)
SLANG_VECTORS(ulonglong)
SLANG_VECTORS(float)
SLANG_VECTORS(double)
#if SLANG_HALF
SLANG_VECTORS(__half)
#endif

SLANG_INLINE float _slang_fmod(float a, float b) { return ::fmodf(a, b); }
SLANG_INLINE double _slang_fmod(double a, double b) { return ::fmod(a, b); }
template <class T> SLANG_INLINE T remainder_of(T a, T b) { return (T)(a % b); }
template <> SLANG_INLINE float remainder_of(float a, float b) { return _slang_fmod(a, b); }
template <> SLANG_INLINE double remainder_of(double a, double b) { return _slang_fmod(a, b); }
#if SLANG_HALF
template <> SLANG_INLINE __half remainder_of(__half a, __half b) { return (__half)_slang_fmod((float)a, (float)b); }
#endif

/* The constructors make the constant matrices of a file, which a GPU cannot compute before a kernel. */
template <class T, int ROWS, int COLS> struct Matrix {
    Vector<T, COLS> rows[ROWS];
    SLANG_DEVICE Vector<T, COLS> &operator[](size_t index) { return rows[index]; }
    SLANG_DEVICE const Vector<T, COLS> &operator[](size_t index) const { return rows[index]; }
    Matrix() = default;
    SLANG_DEVICE explicit Matrix(T value)
    {
        for (int r = 0; r < ROWS; r++)
            rows[r] = Vector<T, COLS>(value);
    }
    template <class U, int M, int N> SLANG_DEVICE explicit Matrix(const Matrix<U, M, N> &other)
    {
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLS; c++)
                rows[r][c] = r < M && c < N ? (T)other.rows[r][c] : (T)0;
    }
    template <class... Rest> SLANG_DEVICE constexpr Matrix(const Vector<T, COLS> &row, const Rest &...rest) : rows{row, rest...} {}
    template <class... Rest> SLANG_DEVICE constexpr Matrix(T first, T second, Rest... rest) : rows{}
    {
        const T values[] = {first, second, (T)rest...};
        for (int r = 0; r < ROWS; r++)
            rows[r] = row_of(values + r * COLS);
    }
    SLANG_DEVICE static constexpr Vector<T, COLS> row_of(const T *values)
    {
        if constexpr (COLS == 1)
            return Vector<T, 1>(values[0]);
        else if constexpr (COLS == 2)
            return Vector<T, 2>(values[0], values[1]);
        else if constexpr (COLS == 3)
            return Vector<T, 3>(values[0], values[1], values[2]);
        else
            return Vector<T, 4>(values[0], values[1], values[2], values[3]);
    }
};
template <class T, int ROWS, int COLS, class... Values> SLANG_INLINE Matrix<T, ROWS, COLS> makeMatrix(const Values &...values)
{
    return Matrix<T, ROWS, COLS>(values...);
}

#define SLANG_BINARY(symbol, value, result)                                                                             \
    template <class T, int N> SLANG_INLINE Vector<result, N> operator symbol(const Vector<T, N> &a, const Vector<T, N> &b) \
    {                                                                                                                   \
        Vector<result, N> each;                                                                                         \
        for (int i = 0; i < N; i++)                                                                                     \
            each[i] = (result)(value);                                                                                  \
        return each;                                                                                                    \
    }                                                                                                                   \
    template <class T, int R, int C>                                                                                    \
    SLANG_INLINE Matrix<result, R, C> operator symbol(const Matrix<T, R, C> &a, const Matrix<T, R, C> &b)               \
    {                                                                                                                   \
        Matrix<result, R, C> each;                                                                                      \
        for (int i = 0; i < R; i++)                                                                                     \
            each.rows[i] = a.rows[i] symbol b.rows[i];                                                                  \
        return each;                                                                                                    \
    }
#define SLANG_UNARY(symbol, result)                                                                                     \
    template <class T, int N> SLANG_INLINE Vector<result, N> operator symbol(const Vector<T, N> &a)                     \
    {                                                                                                                   \
        Vector<result, N> each;                                                                                         \
        for (int i = 0; i < N; i++)                                                                                     \
            each[i] = (result)(symbol a[i]);                                                                            \
        return each;                                                                                                    \
    }                                                                                                                   \
    template <class T, int R, int C> SLANG_INLINE Matrix<result, R, C> operator symbol(const Matrix<T, R, C> &a)        \
    {                                                                                                                   \
        Matrix<result, R, C> each;                                                                                      \
        for (int i = 0; i < R; i++)                                                                                     \
            each.rows[i] = symbol a.rows[i];                                                                            \
        return each;                                                                                                    \
    }
SLANG_BINARY(+, a[i] + b[i], T)
SLANG_BINARY(-, a[i] - b[i], T)
SLANG_BINARY(*, a[i] * b[i], T)
SLANG_BINARY(/, a[i] / b[i], T)
SLANG_BINARY(%, remainder_of(a[i], b[i]), T)
SLANG_BINARY(&, a[i] & b[i], T)
SLANG_BINARY(|, a[i] | b[i], T)
SLANG_BINARY(^, a[i] ^ b[i], T)
SLANG_BINARY(<<, a[i] << b[i], T)
SLANG_BINARY(>>, a[i] >> b[i], T)
SLANG_BINARY(&&, a[i] && b[i], T) /* of ints, Slang declares the result as ints */
SLANG_BINARY(||, a[i] || b[i], T)
SLANG_BINARY(==, a[i] == b[i], bool)
SLANG_BINARY(!=, a[i] != b[i], bool)
SLANG_BINARY(<, a[i] < b[i], bool)
SLANG_BINARY(>, a[i] > b[i], bool)
SLANG_BINARY(<=, a[i] <= b[i], bool)
SLANG_BINARY(>=, a[i] >= b[i], bool)
SLANG_UNARY(-, T)
SLANG_UNARY(~, T)
SLANG_UNARY(!, bool)

/* -- buffers: an address, and the number of elements for GetDimensions. Slang has one type for buffers of words and of bytes.
   Both take eight bytes on every processor, as in Slang's reflection. */

template <class T> struct RWStructuredBuffer {
    alignas(8) T *data;
    alignas(8) size_t count;
    SLANG_DEVICE T &operator[](size_t index) const { return data[index]; }
    SLANG_DEVICE T &Load(size_t index) const { return data[index]; }
    SLANG_DEVICE void GetDimensions(uint *elements, uint *stride) const
    {
        *elements = (uint)count;
        *stride = sizeof(T);
    }
    SLANG_DEVICE void GetDimensions(uint *bytes) const { *bytes = (uint)(count * sizeof(T)); }
    template <class V> SLANG_DEVICE RWStructuredBuffer<V> asStructuredBuffer() const { return {(V *)data, count * sizeof(T) / sizeof(V)}; }
    template <class V> SLANG_DEVICE V *_getPtrAt(size_t offset) const { return (V *)((char *)data + offset); }
    /* An element may start at each multiple of four bytes. */
    template <class V> SLANG_DEVICE V Load(size_t offset) const
    {
        if constexpr (sizeof(V) % 4)
            return *_getPtrAt<V>(offset);
        V value;
        for (size_t i = 0; i < sizeof(V) / 4; i++)
            ((uint *)&value)[i] = ((const uint *)data)[offset / 4 + i];
        return value;
    }
    template <class V> SLANG_DEVICE void Store(size_t offset, const V &value) const
    {
        if constexpr (sizeof(V) % 4)
            *_getPtrAt<V>(offset) = value;
        else
            for (size_t i = 0; i < sizeof(V) / 4; i++)
                ((uint *)data)[offset / 4 + i] = ((const uint *)&value)[i];
    }
};
template <class T> using StructuredBuffer = RWStructuredBuffer<T>;
using RWByteAddressBuffer = RWStructuredBuffer<uint>;
using ByteAddressBuffer = RWStructuredBuffer<uint>;

/* -- math. Most functions are macros: one that a target lacks is then an error of the kernels that use it. */

#define SLANG_FLOAT(prefix, type, f)                                                                                    \
    SLANG_INLINE type prefix##_rsqrt(type x) { return 1 / ::sqrt##f(x); }                                               \
    SLANG_INLINE type prefix##_frac(type x) { return x - ::floor##f(x); }                                               \
    SLANG_INLINE int prefix##_sign(type x) { return (x > 0) - (x < 0); }                                                \
    SLANG_INLINE bool prefix##_isnan(type x) { return x != x; }                                                         \
    SLANG_INLINE bool prefix##_isinf(type x) { return x == x && x - x != 0; }                                           \
    SLANG_INLINE bool prefix##_isfinite(type x) { return x - x == 0; }                                                  \
    SLANG_INLINE void split_whole(type x, type *whole, type *fraction)                                                  \
    {                                                                                                                   \
        *whole = ::trunc##f(x);                                                                                         \
        *fraction = prefix##_isinf(x) ? 0 : x - *whole;                                                                 \
    }                                                                                                                   \
    SLANG_INLINE type prefix##_modf(type x, type *whole)                                                                \
    {                                                                                                                   \
        type fraction;                                                                                                  \
        split_whole(x, whole, &fraction);                                                                               \
        return fraction;                                                                                                \
    }
SLANG_FLOAT(F32, float, f)
SLANG_FLOAT(F64, double, )
#define F32_abs(x) ::fabsf(x)
#define F32_ceil(x) ::ceilf(x)
#define F32_floor(x) ::floorf(x)
#define F32_round(x) ::rintf(x)
#define F32_trunc(x) ::truncf(x)
#define F32_sqrt(x) ::sqrtf(x)
#define F32_min(a, b) ::fminf(a, b)
#define F32_max(a, b) ::fmaxf(a, b)
#define F32_fma(a, b, c) ::fmaf(a, b, c)
#define F32_fmod(a, b) ::fmodf(a, b)
#define F32_remainder(a, b) ::remainderf(a, b)
#define F32_sin(x) ::sinf(x)
#define F32_cos(x) ::cosf(x)
#define F32_sincos(x, sine, cosine) ((void)(*(sine) = ::sinf(x)), (void)(*(cosine) = ::cosf(x)))
#define F32_tan(x) ::tanf(x)
#define F32_asin(x) ::asinf(x)
#define F32_acos(x) ::acosf(x)
#define F32_atan(x) ::atanf(x)
#define F32_atan2(a, b) ::atan2f(a, b)
#define F32_sinh(x) ::sinhf(x)
#define F32_cosh(x) ::coshf(x)
#define F32_tanh(x) ::tanhf(x)
#define F32_asinh(x) ::asinhf(x)
#define F32_acosh(x) ::acoshf(x)
#define F32_atanh(x) ::atanhf(x)
#define F32_exp(x) ::expf(x)
#define F32_exp2(x) ::exp2f(x)
#define F32_log(x) ::logf(x)
#define F32_log2(x) ::log2f(x)
#define F32_log10(x) ::log10f(x)
#define F32_pow(a, b) ::powf(a, b)
#define F32_frexp(x, exponent) ::frexpf(x, exponent)
#define F32_asuint(x) slang::slang_bit_cast<slang::uint32_t>((float)(x))
#define F32_asint(x) slang::slang_bit_cast<slang::int32_t>((float)(x))
#define F64_abs(x) ::fabs((double)(x))
#define F64_ceil(x) ::ceil((double)(x))
#define F64_floor(x) ::floor((double)(x))
#define F64_round(x) ::rint((double)(x))
#define F64_trunc(x) ::trunc((double)(x))
#define F64_sqrt(x) ::sqrt((double)(x))
#define F64_min(a, b) ::fmin((double)(a), (double)(b))
#define F64_max(a, b) ::fmax((double)(a), (double)(b))
#define F64_fma(a, b, c) ::fma((double)(a), (double)(b), (double)(c))
#define F64_fmod(a, b) ::fmod((double)(a), (double)(b))
#define F64_remainder(a, b) ::remainder((double)(a), (double)(b))
#define F64_sin(x) ::sin((double)(x))
#define F64_cos(x) ::cos((double)(x))
#define F64_sincos(x, sine, cosine) ((void)(*(sine) = F64_sin(x)), (void)(*(cosine) = F64_cos(x)))
#define F64_tan(x) ::tan((double)(x))
#define F64_asin(x) ::asin((double)(x))
#define F64_acos(x) ::acos((double)(x))
#define F64_atan(x) ::atan((double)(x))
#define F64_atan2(a, b) ::atan2((double)(a), (double)(b))
#define F64_sinh(x) ::sinh((double)(x))
#define F64_cosh(x) ::cosh((double)(x))
#define F64_tanh(x) ::tanh((double)(x))
#define F64_exp(x) ::exp((double)(x))
#define F64_exp2(x) ::exp2((double)(x))
#define F64_log(x) ::log((double)(x))
#define F64_log2(x) ::log2((double)(x))
#define F64_log10(x) ::log10((double)(x))
#define F64_pow(a, b) ::pow((double)(a), (double)(b))
#define F64_frexp(x, exponent) ::frexp((double)(x), exponent)
SLANG_INLINE void F64_asuint(double x, uint *low, uint *high)
{
    uint64_t bits = slang_bit_cast<uint64_t>(x);
    *low = (uint)bits;
    *high = (uint)(bits >> 32);
}
SLANG_INLINE void F64_asint(double x, int *low, int *high) { F64_asuint(x, (uint *)low, (uint *)high); }

#define SLANG_INTEGER(prefix, type)                                                                                     \
    SLANG_INLINE type prefix##_abs(type x) { return x < 0 ? (type)-x : x; }                                             \
    SLANG_INLINE type prefix##_min(type a, type b) { return a < b ? a : b; }                                            \
    SLANG_INLINE type prefix##_max(type a, type b) { return a > b ? a : b; }                                            \
    SLANG_INLINE int prefix##_sign(type x) { return (x > 0) - (x < 0); }                                                \
    SLANG_INLINE uint prefix##_firstbitlow(type x) { return x == 0 ? ~0u : count_bits(~x & (x - 1)); }                  \
    SLANG_INLINE uint prefix##_countbits(type x) { return count_bits(x); }
#if SLANG_GPU
SLANG_INLINE uint count_bits(uint x) { return ::__popc(x); }
#else
SLANG_INLINE uint count_bits(uint x) { return (uint)__builtin_popcount(x); }
#endif
SLANG_INLINE uint count_bits(int x) { return count_bits((uint)x); }
SLANG_INLINE uint count_bits(uint64_t x) { return count_bits((uint)x) + count_bits((uint)(x >> 32)); }
SLANG_INLINE uint count_bits(int64_t x) { return count_bits((uint64_t)x); }
SLANG_INTEGER(I32, int)
SLANG_INTEGER(U32, uint)
SLANG_INTEGER(I64, int64_t)
SLANG_INTEGER(U64, uint64_t)
SLANG_INLINE uint U8_countbits(uint8_t x) { return count_bits((uint)x); }
SLANG_INLINE uint I8_countbits(int8_t x) { return count_bits((uint)(uint8_t)x); }
SLANG_INLINE uint U16_countbits(uint16_t x) { return count_bits((uint)x); }
SLANG_INLINE uint I16_countbits(int16_t x) { return count_bits((uint)(uint16_t)x); }
SLANG_INLINE uint U32_firstbithigh(uint x)
{
    for (int shift = 1; shift < 32; shift *= 2)
        x |= x >> shift;
    return count_bits(x) - 1;
}
SLANG_INLINE uint I32_firstbithigh(int x) { return U32_firstbithigh(x < 0 ? ~(uint)x : (uint)x); }
SLANG_INLINE uint U64_firstbithigh(uint64_t x) { return x >> 32 ? 32 + U32_firstbithigh((uint)(x >> 32)) : U32_firstbithigh((uint)x); }
SLANG_INLINE uint I64_firstbithigh(int64_t x) { return U64_firstbithigh(x < 0 ? ~(uint64_t)x : (uint64_t)x); }
SLANG_INLINE uint U32_reversebits(uint x)
{
    x = x >> 16 | x << 16;
    x = (x & 0xff00ff00u) >> 8 | (x & 0x00ff00ffu) << 8;
    x = (x & 0xf0f0f0f0u) >> 4 | (x & 0x0f0f0f0fu) << 4;
    x = (x & 0xccccccccu) >> 2 | (x & 0x33333333u) << 2;
    return (x & 0xaaaaaaaau) >> 1 | (x & 0x55555555u) << 1;
}
SLANG_INLINE int I32_reversebits(int x) { return (int)U32_reversebits((uint)x); }
SLANG_INLINE uint64_t U64_reversebits(uint64_t x) { return (uint64_t)U32_reversebits((uint)x) << 32 | U32_reversebits((uint)(x >> 32)); }
SLANG_INLINE int64_t I64_reversebits(int64_t x) { return (int64_t)U64_reversebits((uint64_t)x); }
SLANG_INLINE float U32_asfloat(uint x) { return slang_bit_cast<float>(x); }
SLANG_INLINE float I32_asfloat(int x) { return slang_bit_cast<float>(x); }
SLANG_INLINE int U32_asint(uint x) { return (int)x; }
SLANG_INLINE uint I32_asuint(int x) { return (uint)x; }
SLANG_INLINE double U32_asdouble(uint low, uint high) { return slang_bit_cast<double>((uint64_t)high << 32 | low); }
SLANG_INLINE double I32_asdouble(int low, int high) { return U32_asdouble((uint)low, (uint)high); }

#if SLANG_HALF /* by float, which has all values of half */
#define SLANG_HALF_MATH(name) SLANG_INLINE half F16_##name(half x) { return (half)(F32_##name((float)x)); }
#define SLANG_HALF_MATH2(name) SLANG_INLINE half F16_##name(half a, half b) { return (half)(F32_##name((float)a, (float)b)); }
SLANG_HALF_MATH(abs)
SLANG_HALF_MATH(ceil)
SLANG_HALF_MATH(floor)
SLANG_HALF_MATH(round)
SLANG_HALF_MATH(trunc)
SLANG_HALF_MATH(frac)
SLANG_HALF_MATH(sqrt)
SLANG_HALF_MATH(rsqrt)
SLANG_HALF_MATH(sin)
SLANG_HALF_MATH(cos)
SLANG_HALF_MATH(exp)
SLANG_HALF_MATH(exp2)
SLANG_HALF_MATH(log)
SLANG_HALF_MATH(log2)
SLANG_HALF_MATH(log10)
SLANG_HALF_MATH(tanh)
SLANG_HALF_MATH2(min)
SLANG_HALF_MATH2(max)
SLANG_HALF_MATH2(pow)
SLANG_HALF_MATH2(fmod)
#define F16_tan(x) ((half)::tanf((float)(x)))
#define F16_asin(x) ((half)::asinf((float)(x)))
#define F16_acos(x) ((half)::acosf((float)(x)))
#define F16_atan(x) ((half)::atanf((float)(x)))
#define F16_atan2(a, b) ((half)::atan2f((float)(a), (float)(b)))
#define F16_sinh(x) ((half)::sinhf((float)(x)))
#define F16_cosh(x) ((half)::coshf((float)(x)))
SLANG_INLINE int F16_sign(half x) { return F32_sign((float)x); }
SLANG_INLINE bool F16_isnan(half x) { return F32_isnan((float)x); }
SLANG_INLINE bool F16_isinf(half x) { return F32_isinf((float)x); }
SLANG_INLINE bool F16_isfinite(half x) { return F32_isfinite((float)x); }
SLANG_INLINE half F16_fma(half a, half b, half c) { return (half)(F32_fma((float)a, (float)b, (float)c)); }
SLANG_INLINE uint16_t F16_asuint(half x) { return slang_bit_cast<uint16_t>(x); }
SLANG_INLINE int16_t F16_asint(half x) { return slang_bit_cast<int16_t>(x); }
SLANG_INLINE half U16_asfloat16(uint16_t x) { return slang_bit_cast<half>(x); }
#ifdef __HIP__
SLANG_INLINE half __ushort_as_half(uint16_t x) { return slang_bit_cast<half>(x); }
SLANG_INLINE uint16_t __half_as_ushort(half x) { return slang_bit_cast<uint16_t>(x); }
#endif
SLANG_INLINE float f16tof32(uint x) { return (float)slang_bit_cast<half>((uint16_t)x); }
SLANG_INLINE uint f32tof16(float x) { return slang_bit_cast<uint16_t>((half)x); }
#endif

#if SLANG_GPU
/* -- the ids of threads, as vectors */

#define threadIdx (slang::uint3(::threadIdx.x, ::threadIdx.y, ::threadIdx.z))
#define blockIdx (slang::uint3(::blockIdx.x, ::blockIdx.y, ::blockIdx.z))
#define blockDim (slang::uint3(::blockDim.x, ::blockDim.y, ::blockDim.z))
#define gridDim (slang::uint3(::gridDim.x, ::gridDim.y, ::gridDim.z))

/* -- atomics: the functions of CUDA and HIP for words; one by one for the elements of a vector */

#define SLANG_ATOMIC(name)                                                                                              \
    template <class T, class V> SLANG_INLINE T name(T *address, V value) { return ::name(address, (T)value); }          \
    template <class T, int N> SLANG_INLINE Vector<T, N> name(Vector<T, N> *address, Vector<T, N> value)                 \
    {                                                                                                                   \
        Vector<T, N> before;                                                                                            \
        for (int i = 0; i < N; i++)                                                                                     \
            before[i] = name(&(*address)[i], value[i]);                                                                 \
        return before;                                                                                                  \
    }
SLANG_ATOMIC(atomicAdd)
SLANG_ATOMIC(atomicExch)
SLANG_ATOMIC(atomicMin)
SLANG_ATOMIC(atomicMax)
SLANG_ATOMIC(atomicAnd)
SLANG_ATOMIC(atomicOr)
SLANG_ATOMIC(atomicXor)
/* of the words of a ByteAddressBuffer */
SLANG_INLINE float atomicAdd(uint *address, float value) { return ::atomicAdd((float *)address, value); }
SLANG_INLINE float atomicExch(uint *address, float value) { return ::atomicExch((float *)address, value); }
template <class T> SLANG_INLINE T atomicCAS(T *address, T expected, T desired) { return ::atomicCAS(address, expected, desired); }
#define SLANG_REDUCE(name, function) \
    template <class T, class V> SLANG_INLINE void __slang_atomic_reduce_##name(T *address, V value, int) { function(address, (T)value); }
SLANG_REDUCE(add, atomicAdd)
SLANG_REDUCE(min, atomicMin)
SLANG_REDUCE(max, atomicMax)
SLANG_REDUCE(and, atomicAnd)
SLANG_REDUCE(or, atomicOr)
SLANG_REDUCE(xor, atomicXor)
template <class T> SLANG_INLINE void __slang_atomic_reduce_inc(T *address, int) { atomicAdd(address, 1); }
template <class T> SLANG_INLINE void __slang_atomic_reduce_dec(T *address, int) { atomicAdd(address, -1); }

/* -- waves of 32 threads. A wave of 64 is two of them. */

#undef warpSize
#define warpSize 32
typedef uint WarpMask;
SLANG_INLINE uint _getLaneId() { return ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31; }
SLANG_INLINE WarpMask _getLaneLtMask() { return (1u << _getLaneId()) - 1; }
SLANG_INLINE WarpMask _getMultiPrefixMask(WarpMask mask) { return mask; }
#ifdef __HIP__
SLANG_INLINE uint __ballot_sync(WarpMask mask, bool value) { return (uint)(::__ballot(value) >> (::__lane_id() & 32)) & mask; }
SLANG_INLINE WarpMask __activemask() { return __ballot_sync(~0u, true); }
SLANG_INLINE uint shuffle_word(WarpMask, uint word, int lane) { return ::__shfl(word, lane, 32); }
SLANG_INLINE void __syncwarp(WarpMask = ~0u) { ::__syncwarp(); }
#else
SLANG_INLINE uint __ballot_sync(WarpMask mask, bool value) { return ::__ballot_sync(mask, value); }
SLANG_INLINE WarpMask __activemask() { return ::__activemask(); }
SLANG_INLINE uint shuffle_word(WarpMask mask, uint word, int lane) { return ::__shfl_sync(mask, word, lane, 32); }
SLANG_INLINE void __syncwarp(WarpMask mask = ~0u) { ::__syncwarp(mask); }
#endif
SLANG_INLINE WarpMask _getActiveMask() { return __activemask(); }
SLANG_INLINE bool __any_sync(WarpMask mask, bool value) { return __ballot_sync(mask, value) != 0; }
SLANG_INLINE bool __all_sync(WarpMask mask, bool value) { return __ballot_sync(mask, !value) == 0; }
SLANG_INLINE bool _waveIsFirstLane() { return (__activemask() & _getLaneLtMask()) == 0; }
template <class T> SLANG_INLINE T __shfl_sync(WarpMask mask, T value, int lane)
{
    union Words {
        T value;
        uint words[(sizeof(T) + 3) / 4];
        SLANG_DEVICE Words() {}
    } result;
    for (size_t i = 0; i < (sizeof(T) + 3) / 4; i++)
        result.words[i] = 0;
    result.value = value;
    for (size_t i = 0; i < (sizeof(T) + 3) / 4; i++)
        result.words[i] = shuffle_word(mask, result.words[i], lane);
    return result.value;
}
template <class T> SLANG_INLINE T _waveShuffleMultiple(WarpMask mask, T value, int lane) { return __shfl_sync(mask, value, lane); }
template <class T> SLANG_INLINE T _waveReadFirst(WarpMask mask, T value) { return __shfl_sync(mask, value, (int)U32_firstbitlow(mask)); }
template <class T> SLANG_INLINE T _waveReadFirstMultiple(WarpMask mask, T value) { return _waveReadFirst(mask, value); }
template <class T> SLANG_INLINE bool is_equal(T a, T b) { return a == b; }
template <class T, int N> SLANG_INLINE bool is_equal(Vector<T, N> a, Vector<T, N> b)
{
    for (int i = 0; i < N; i++)
        if (!(a[i] == b[i]))
            return false;
    return true;
}
template <class T> SLANG_INLINE bool _waveAllEqual(WarpMask mask, T value) { return __all_sync(mask, is_equal(value, _waveReadFirst(mask, value))); }
template <class T> SLANG_INLINE bool _waveAllEqualMultiple(WarpMask mask, T value) { return _waveAllEqual(mask, value); }

struct Add { template <class T> SLANG_DEVICE T operator()(T a, T b) const { return a + b; } };
struct Multiply { template <class T> SLANG_DEVICE T operator()(T a, T b) const { return a * b; } };
struct And { template <class T> SLANG_DEVICE T operator()(T a, T b) const { return a & b; } };
struct Or { template <class T> SLANG_DEVICE T operator()(T a, T b) const { return a | b; } };
struct Xor { template <class T> SLANG_DEVICE T operator()(T a, T b) const { return a ^ b; } };
struct Least {
    template <class T> SLANG_DEVICE T operator()(T a, T b) const { return b < a ? b : a; }
    template <class T, int N> SLANG_DEVICE Vector<T, N> operator()(Vector<T, N> a, Vector<T, N> b) const { return _slang_select(b < a, b, a); }
};
struct Greatest {
    template <class T> SLANG_DEVICE T operator()(T a, T b) const { return b > a ? b : a; }
    template <class T, int N> SLANG_DEVICE Vector<T, N> operator()(Vector<T, N> a, Vector<T, N> b) const { return _slang_select(b > a, b, a); }
};
/* The result of the lanes in a mask, the same in each of them. */
template <class Operation, class T> SLANG_INLINE T reduce(Operation operation, WarpMask mask, T value)
{
    if (mask == ~0u) {
        for (int distance = 1; distance < 32; distance *= 2)
            value = operation(value, __shfl_sync(mask, value, (int)(_getLaneId() ^ distance)));
        return value;
    }
    T result = _waveReadFirst(mask, value);
    for (WarpMask rest = mask & (mask - 1); rest; rest &= rest - 1)
        result = operation(result, __shfl_sync(mask, value, (int)U32_firstbitlow(rest)));
    return result;
}
/* The result of the lanes of a mask before this one, with `initial` for the first of them; with `inclusive`, of this lane too. */
template <class Operation, class T> SLANG_INLINE T prefix(Operation operation, WarpMask mask, T value, T initial, bool inclusive)
{
    T result = initial;
    uint self = _getLaneId();
    for (WarpMask rest = mask; rest; rest &= rest - 1) {
        uint lane = U32_firstbitlow(rest);
        T other = __shfl_sync(mask, value, (int)lane);
        if (lane < self || (inclusive && lane == self))
            result = operation(result, other);
    }
    return result;
}
#define SLANG_WAVE(name, operation)                                                                                     \
    template <class T> SLANG_INLINE T _wave##name(WarpMask mask, T value) { return reduce(operation(), mask, value); }  \
    template <class T> SLANG_INLINE T _wave##name##Multiple(WarpMask mask, T value) { return reduce(operation(), mask, value); }
#define SLANG_WAVE_PREFIX(name, operation, initial)                                                                     \
    template <class T> SLANG_INLINE T _wavePrefix##name(WarpMask mask, T value) { return prefix(operation(), mask, value, T(initial), false); } \
    template <class T> SLANG_INLINE T _wavePrefix##name##Multiple(WarpMask mask, T value) { return prefix(operation(), mask, value, T(initial), false); }
SLANG_WAVE(Sum, Add)
SLANG_WAVE(Product, Multiply)
SLANG_WAVE(Min, Least)
SLANG_WAVE(Max, Greatest)
SLANG_WAVE(And, And)
SLANG_WAVE(Or, Or)
SLANG_WAVE(Xor, Xor)
SLANG_WAVE_PREFIX(Sum, Add, 0)
SLANG_WAVE_PREFIX(Product, Multiply, 1)
SLANG_WAVE_PREFIX(And, And, ~0)
SLANG_WAVE_PREFIX(Or, Or, 0)
SLANG_WAVE_PREFIX(Xor, Xor, 0)
#else
/* -- the calls of Slang's C++ */

struct ComputeThreadVaryingInput { uint3 groupID, groupThreadID; };
struct ComputeVaryingInput { uint3 startGroupID, endGroupID; };
#endif
} // namespace slang
