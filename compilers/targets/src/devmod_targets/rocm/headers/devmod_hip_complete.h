/* The functions of CUDA and HIP that few kernels use. clang reads them only for a source that does not compile without them. So each name
 * in devmod_hip.h and devmod_hip_math.h has all of its overloads there: none is added here.
 */
#pragma once

/* -- blocks, waves, memory */

/* One number of the block's threads, of which the first one clears it. */
#define DEVMOD_SYNC(name, start, operation)                                                                      \
    devmod_function int name(int predicate)                                                                      \
    {                                                                                                            \
        static __shared__ int total;                                                                             \
        if (threadIdx.x + threadIdx.y + threadIdx.z == 0)                                                        \
            total = start;                                                                                       \
        __syncthreads();                                                                                         \
        operation(&total, predicate != 0, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);                       \
        __syncthreads();                                                                                         \
        int result = total;                                                                                      \
        __syncthreads();                                                                                         \
        return result;                                                                                           \
    }
DEVMOD_SYNC(__syncthreads_count, 0, __hip_atomic_fetch_add)
DEVMOD_SYNC(__syncthreads_and, 1, __hip_atomic_fetch_and)
DEVMOD_SYNC(__syncthreads_or, 0, __hip_atomic_fetch_or)
/* The mask of the _sync forms is that of the lanes that take part: those of the others do not call them. */
#define DEVMOD_MASK(type) static_assert(sizeof(type) == 8 || DEVMOD_WARP == 32, "the mask of a wave of 64 lanes has 64 bits, such as ~0ull")
template <class M> devmod_function devmod_mask __ballot_sync(M mask, int predicate)
{
    DEVMOD_MASK(M);
    return __ballot(predicate) & mask;
}
template <class M> devmod_function int __any_sync(M mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
template <class M> devmod_function int __all_sync(M mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
/* Compares bits: a NaN is equal to itself. */
template <class T> devmod_function bool devmod_is_same(T a, T b)
{
    int left[(sizeof(T) + 3) / 4] = {}, right[(sizeof(T) + 3) / 4] = {}, differences = 0;
    __builtin_memcpy(left, &a, sizeof(T));
    __builtin_memcpy(right, &b, sizeof(T));
    for (unsigned i = 0; i < (sizeof(T) + 3) / 4; i++)
        differences |= left[i] ^ right[i];
    return differences == 0;
}
/* One round for each different value. The ballot is not in a branch, so all lanes take part in it. */
template <class T> devmod_function devmod_mask __match_any(T value)
{
    unsigned long rest = __ballot(1), result = 0;
    while (rest) {
        bool is_equal = devmod_is_same(devmod_shuffle(value, __builtin_ctzl(rest)), value);
        unsigned long equal = __ballot(is_equal);
        result = is_equal ? equal : result;
        rest &= ~equal;
    }
    return result;
}
/* Lanes of several masks may call it at once: each compares its value with that of the first lane of its own mask. */
template <class T> devmod_function devmod_mask devmod_match_all(unsigned long mask, T value, int *is_equal)
{
    unsigned long active = mask & __ballot(1);
    *is_equal = (__ballot(!devmod_is_same(devmod_shuffle(value, __builtin_ctzl(active)), value)) & active) == 0;
    return *is_equal ? active : 0;
}
template <class T> devmod_function devmod_mask __match_all(T value, int *is_equal) { return devmod_match_all(~0ul, value, is_equal); }
template <class M, class T> devmod_function devmod_mask __match_any_sync(M mask, T value)
{
    DEVMOD_MASK(M);
    return __match_any(value) & mask;
}
template <class M, class T> devmod_function devmod_mask __match_all_sync(M mask, T value, int *is_equal)
{
    DEVMOD_MASK(M);
    return devmod_match_all(mask, value, is_equal);
}
/* Visits the lanes of the mask in turn: a reduction of any subset of the wave. */
#define DEVMOD_REDUCE(name, expression)                                                                          \
    template <class M, class T> devmod_function T name(M mask, T value)                                          \
    {                                                                                                            \
        DEVMOD_MASK(M);                                                                                          \
        unsigned long rest = mask & __ballot(1);                                                                 \
        T a = __shfl(value, __builtin_ctzl(rest));                                                               \
        while (rest &= rest - 1) {                                                                               \
            T b = __shfl(value, __builtin_ctzl(rest));                                                           \
            a = expression;                                                                                      \
        }                                                                                                        \
        return a;                                                                                                \
    }
DEVMOD_REDUCE(__reduce_add_sync, a + b)
DEVMOD_REDUCE(__reduce_min_sync, a < b ? a : b)
DEVMOD_REDUCE(__reduce_max_sync, a > b ? a : b)
DEVMOD_REDUCE(__reduce_and_sync, a & b)
DEVMOD_REDUCE(__reduce_or_sync, a | b)
DEVMOD_REDUCE(__reduce_xor_sync, a ^ b)

/* -- loads and stores with hints for the cache, and clocks */

#define DEVMOD_LOAD(name, expression) template <class T> devmod_function T name(const T *address) DEVMOD_GENERIC { return expression; }
#define DEVMOD_STORE(name) template <class T> devmod_function void name(T *address, typename devmod_identity<T>::type value) { *address = value; }
DEVMOD_LOAD(__ldg, *address)
DEVMOD_LOAD(__ldca, *address)
DEVMOD_LOAD(__ldcg, *address)
DEVMOD_LOAD(__ldcs, *address)
DEVMOD_LOAD(__ldlu, *address)
DEVMOD_LOAD(__ldcv, *(const volatile T *)address)
DEVMOD_STORE(__stwb)
DEVMOD_STORE(__stcg)
DEVMOD_STORE(__stcs)
DEVMOD_STORE(__stwt)
devmod_function long long clock64() { return (long long)__builtin_readcyclecounter(); }
devmod_function long clock() { return (long)__builtin_readcyclecounter(); }
devmod_function long long wall_clock64() { return (long long)__builtin_readsteadycounter(); }
devmod_function void __nanosleep(unsigned) { __builtin_amdgcn_s_sleep(1); }

/* -- atomics of another scope */

DEVMOD_ATOMICS(_block, __HIP_MEMORY_SCOPE_WORKGROUP)
DEVMOD_ATOMICS(_system, __HIP_MEMORY_SCOPE_SYSTEM)
template <class T> devmod_function T unsafeAtomicAdd(T *address, typename devmod_identity<T>::type value) { return atomicAdd(address, value); }
DEVMOD_FLOATS(unsafeAtomicAdd)
template <class T> devmod_function T safeAtomicAdd(T *address, typename devmod_identity<T>::type value) { return atomicAdd(address, value); }
DEVMOD_FLOATS(safeAtomicAdd)

/* -- integers */

devmod_function int __ffsll(long long x) { return __builtin_ffsll(x); }
devmod_function unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
devmod_function long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
devmod_function unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
devmod_function int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
devmod_function unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b) >> 1); }
devmod_function unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b + 1) >> 1); }
devmod_function unsigned __sad(int a, int b, unsigned c) { return (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a) + c; }
devmod_function unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
devmod_function unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
    unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++)
        result |= (unsigned)(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return result;
}
devmod_function unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) { return (unsigned)(((unsigned long long)high << 32 | low) << (shift & 31) >> 32); }
devmod_function unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) { return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31)); }
devmod_function unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) { return shift >= 32 ? low : __funnelshift_l(low, high, shift); }
devmod_function unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) { return shift >= 32 ? high : __funnelshift_r(low, high, shift); }
/* Products of the bytes, or of two bytes and two numbers of 16 bits, added to c. */
#define DEVMOD_DOT(type, byte, half)                                                                             \
    devmod_function type __dp4a(type a, type b, type c)                                                          \
    {                                                                                                            \
        for (int i = 0; i < 32; i += 8)                                                                          \
            c += (type)(byte)(a >> i) * (byte)(b >> i);                                                          \
        return c;                                                                                                \
    }                                                                                                            \
    devmod_function type __dp2a_lo(type a, type b, type c) { return c + (type)(half)a * (byte)b + (type)(half)(a >> 16) * (byte)(b >> 8); } \
    devmod_function type __dp2a_hi(type a, type b, type c) { return __dp2a_lo(a, b >> 16, c); }
DEVMOD_DOT(int, signed char, short)
DEVMOD_DOT(unsigned, unsigned char, unsigned short)

devmod_function long labs(long x) { return abs(x); }
devmod_function long long llabs(long long x) { return abs(x); }

/* -- conversions and bit casts */

devmod_function long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
devmod_function double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
devmod_function int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
devmod_function int __double2loint(double x) { return (int)__double_as_longlong(x); }
devmod_function double __hiloint2double(int high, int low) { return __longlong_as_double((long long)high << 32 | (unsigned)low); }
#define DEVMOD_TO_INTEGER(from, f, type, name)                                                                   \
    devmod_function type __##from##2##name##_rn(from x) { return (type)__builtin_rint##f(x); }                   \
    devmod_function type __##from##2##name##_rz(from x) { return (type)x; }                                      \
    devmod_function type __##from##2##name##_ru(from x) { return (type)__builtin_ceil##f(x); }                   \
    devmod_function type __##from##2##name##_rd(from x) { return (type)__builtin_floor##f(x); }
#define DEVMOD_CONVERSIONS(type, name)                                                                           \
    DEVMOD_TO_INTEGER(float, f, type, name)                                                                      \
    DEVMOD_TO_INTEGER(double, , type, name)                                                                      \
    devmod_function float __##name##2float_rn(type x) { return (float)x; }                                       \
    devmod_function double __##name##2double_rn(type x) { return (double)x; }
DEVMOD_CONVERSIONS(int, int)
DEVMOD_CONVERSIONS(unsigned, uint)
DEVMOD_CONVERSIONS(long long, ll)
DEVMOD_CONVERSIONS(unsigned long long, ull)
devmod_function float __double2float_rn(double x) { return (float)x; }

/* -- the C library */

devmod_function void *memcpy(void *to, const void *from, size_t count) { return __builtin_memcpy(to, from, count); }
devmod_function void *memmove(void *to, const void *from, size_t count) { return __builtin_memmove(to, from, count); }
devmod_function void *memset(void *to, int value, size_t count) { return __builtin_memset(to, value, count); }
static __device__ __attribute__((noreturn, always_inline, unused)) inline void abort() { __builtin_trap(); }
static __device__ __attribute__((noreturn, always_inline, unused)) inline void __trap() { __builtin_trap(); }
/* What assert calls, in the declaration of glibc. */
static __device__ __attribute__((noreturn, always_inline, unused)) inline void __assert_fail(const char *, const char *, unsigned, const char *)
{
    __builtin_trap();
}
#ifdef DEVMOD_DEVICE_LIBS /* clang calls ockl for it */
extern "C" __device__ int printf(const char *, ...);
#else
template <class... A>
devmod_function int printf(const char *, A...)
    __attribute__((diagnose_if(true, "printf prints nothing in a kernel: it needs ROCm's device library (docs/rocm.md)", "warning")))
{
    return 0;
}
#endif

/* -- math */

devmod_function float erf(float x) { return erff(x); }

/* -- parts of a number, whole numbers, and sums of squares, for float and double */

#define DEVMOD_PARTS(type, f, bits)                                                                               \
    devmod_function type ldexp(type x, int n) { return __builtin_ldexp##f(x, n); }                               \
    devmod_function type scalbn(type x, int n) { return __builtin_ldexp##f(x, n); }                              \
    devmod_function type scalbln(type x, long n)                                                                 \
    {                                                                                                            \
        return __builtin_ldexp##f(x, n > 9999 ? 9999 : n < -9999 ? -9999 : (int)n);                              \
    }                                                                                                            \
    devmod_function type frexp(type x, int *exponent) { return __builtin_frexp##f(x, exponent); }                \
    devmod_function int ilogb(type x)                                                                            \
    {                                                                                                            \
        int exponent;                                                                                            \
        __builtin_frexp##f(x, &exponent);                                                                        \
        return x == 0 || isnan(x) ? FP_ILOGB0 : isinf(x) ? __INT_MAX__ : exponent - 1;                           \
    }                                                                                                            \
    devmod_function type logb(type x)                                                                            \
    {                                                                                                            \
        return x == 0 ? -__builtin_inf##f() : isnan(x) || isinf(x) ? x * x : (type)ilogb(x);                     \
    }                                                                                                            \
    devmod_function type modf(type x, type *whole)                                                               \
    {                                                                                                            \
        *whole = __builtin_trunc##f(x);                                                                          \
        return __builtin_copysign##f(isinf(x) ? 0 : x - *whole, x);                                              \
    }                                                                                                            \
    devmod_function type fdim(type x, type y) { return isnan(x) || isnan(y) ? x + y : x > y ? x - y : 0; }       \
    devmod_function long lrint(type x) { return (long)__builtin_rint##f(x); }                                    \
    devmod_function long lround(type x) { return (long)__builtin_round##f(x); }                                  \
    devmod_function long long llrint(type x) { return (long long)__builtin_rint##f(x); }                         \
    devmod_function long long llround(type x) { return (long long)__builtin_round##f(x); }                       \
    devmod_function type nextafter(type x, type y)                                                               \
    {                                                                                                            \
        bits number = __builtin_bit_cast(bits, x);                                                               \
        if (isnan(x) || isnan(y))                                                                                \
            return x + y;                                                                                        \
        if (x == y)                                                                                              \
            return y;                                                                                            \
        if (x == 0)                                                                                              \
            return __builtin_copysign##f(__builtin_bit_cast(type, (bits)1), y);                                  \
        return __builtin_bit_cast(type, (bits)((x < y) == (x > 0) ? number + 1 : number - 1));                   \
    }                                                                                                            \
    devmod_function type remainder(type x, type y)                                                               \
    {                                                                                                            \
        type divisor = __builtin_fabs##f(y), size = __builtin_fabs##f(x);                                        \
        if (y == 0 || isinf(x) || isnan(x) || isnan(y))                                                          \
            return __builtin_nan##f("");                                                                         \
        if (isinf(y))                                                                                            \
            return x;                                                                                            \
        type rest = __builtin_fmod##f(size, divisor), other = divisor - rest;                                    \
        bool is_odd = __builtin_fmod##f(__builtin_trunc##f(size / divisor), 2) != 0;                             \
        if (rest > other || (rest == other && is_odd))                                                           \
            rest = -other;                                                                                       \
        return __builtin_copysign##f(1, x) * rest;                                                               \
    }                                                                                                            \
    /* The square root of a sum of squares, whose terms are divided by a power of two. */                        \
    devmod_function type devmod_norm(const type *x, int count, int *exponent)                                    \
    {                                                                                                            \
        type most = 0, sum = 0;                                                                                  \
        for (int i = 0; i < count; i++)                                                                          \
            most = __builtin_fmax##f(most, __builtin_fabs##f(x[i]));                                             \
        __builtin_frexp##f(most, exponent);                                                                      \
        for (int i = 0; i < count; i++) {                                                                        \
            type term = __builtin_ldexp##f(x[i], -*exponent);                                                    \
            sum = __builtin_fma##f(term, term, sum);                                                             \
        }                                                                                                        \
        return isinf(most) ? most : __builtin_sqrt##f(sum);                                                      \
    }                                                                                                            \
    devmod_function type norm(int count, const type *x)                                                          \
    {                                                                                                            \
        int exponent;                                                                                            \
        type root = devmod_norm(x, count, &exponent);                                                            \
        return __builtin_ldexp##f(root, exponent);                                                               \
    }                                                                                                            \
    devmod_function type rnorm(int count, const type *x)                                                         \
    {                                                                                                            \
        int exponent;                                                                                            \
        type root = devmod_norm(x, count, &exponent);                                                            \
        return __builtin_ldexp##f(1 / root, -exponent);                                                          \
    }                                                                                                            \
    devmod_function type hypot(type x, type y) { const type of[] = {x, y}; return norm(2, of); }                 \
    devmod_function type rhypot(type x, type y) { const type of[] = {x, y}; return rnorm(2, of); }               \
    devmod_function type norm3d(type x, type y, type z) { const type of[] = {x, y, z}; return norm(3, of); }     \
    devmod_function type rnorm3d(type x, type y, type z) { const type of[] = {x, y, z}; return rnorm(3, of); }   \
    devmod_function type norm4d(type x, type y, type z, type w) { const type of[] = {x, y, z, w}; return norm(4, of); } \
    devmod_function type rnorm4d(type x, type y, type z, type w) { const type of[] = {x, y, z, w}; return rnorm(4, of); }
DEVMOD_PARTS(float, f, unsigned)
DEVMOD_PARTS(double, , unsigned long)
/* Their names with an f. */
#define DEVMOD_F1(name, result) devmod_function result name##f(float x) { return name(x); }
#define DEVMOD_F2(name, type) devmod_function float name##f(float x, type y) { return name(x, y); }
DEVMOD_F2(ldexp, int)
DEVMOD_F2(scalbn, int)
DEVMOD_F2(scalbln, long)
DEVMOD_F2(frexp, int *)
DEVMOD_F1(ilogb, int)
DEVMOD_F1(logb, float)
DEVMOD_F2(modf, float *)
DEVMOD_F2(fdim, float)
DEVMOD_F1(lrint, long)
DEVMOD_F1(lround, long)
DEVMOD_F1(llrint, long long)
DEVMOD_F1(llround, long long)
DEVMOD_F2(nextafter, float)
DEVMOD_F2(remainder, float)
DEVMOD_F2(hypot, float)
DEVMOD_F2(rhypot, float)
devmod_function float normf(int count, const float *x) { return norm(count, x); }
devmod_function float rnormf(int count, const float *x) { return rnorm(count, x); }
devmod_function float norm3df(float x, float y, float z) { return norm3d(x, y, z); }
devmod_function float rnorm3df(float x, float y, float z) { return rnorm3d(x, y, z); }
devmod_function float norm4df(float x, float y, float z, float w) { return norm4d(x, y, z, w); }
devmod_function float rnorm4df(float x, float y, float z, float w) { return rnorm4d(x, y, z, w); }
devmod_function float nanf(const char *) { return __builtin_nanf(""); }
devmod_function double nan(const char *) { return __builtin_nan(""); }
devmod_function float fdividef(float x, float y) { return x / y; }

/* -- more functions of float */

#ifdef DEVMOD_DEVICE_LIBS
DEVMOD_OCML(float, tanf, tan_f32)
DEVMOD_OCML(float, atanf, atan_f32)
DEVMOD_OCML(float, asinf, asin_f32)
DEVMOD_OCML(float, acosf, acos_f32)
DEVMOD_OCML(float, expm1f, expm1_f32)
DEVMOD_OCML(float, log1pf, log1p_f32)
DEVMOD_OCML(float, asinhf, asinh_f32)
DEVMOD_OCML(float, acoshf, acosh_f32)
DEVMOD_OCML(float, atanhf, atanh_f32)
DEVMOD_OCML(float, cbrtf, cbrt_f32)
DEVMOD_OCML(float, rcbrtf, rcbrt_f32)
DEVMOD_OCML(float, sinpif, sinpi_f32)
DEVMOD_OCML(float, cospif, cospi_f32)
DEVMOD_OCML(float, erfcf, erfc_f32)
DEVMOD_OCML(float, erfcxf, erfcx_f32)
DEVMOD_OCML(float, erfinvf, erfinv_f32)
DEVMOD_OCML(float, normcdff, ncdf_f32)
DEVMOD_OCML2(float, atan2f, atan2_f32)
devmod_function void sincospif(float x, float *sine, float *cosine)
{
    *sine = sinpif(x);
    *cosine = cospif(x);
}
#else
devmod_function float tanf(float x) { return sinf(x) / cosf(x); }
/* The polynomials of the Cephes library. */
devmod_function float atanf(float x)
{
    float size = __builtin_fabsf(x), start = size > 2.414213562f ? (float)M_PI_2 : size > 0.4142135624f ? (float)M_PI_4 : 0;
    float t = size > 2.414213562f ? -1 / size : size > 0.4142135624f ? (size - 1) / (size + 1) : size;
    float square = t * t;
    float sum = ((8.05374449538e-2f * square - 1.38776856032e-1f) * square + 1.99777106478e-1f) * square - 3.33329491539e-1f;
    return __builtin_copysignf(start + (sum * square * t + t), x);
}
devmod_function float atan2f(float y, float x)
{
    float wide = __builtin_fabsf(x), high = __builtin_fabsf(y);
    float most = __builtin_fmaxf(wide, high), least = __builtin_fminf(wide, high);
    float angle = atanf(most == 0 ? 0 : least == most ? 1 : least / most);
    angle = high > wide ? (float)M_PI_2 - angle : angle;
    angle = __builtin_signbit(x) ? (float)M_PI - angle : angle;
    return isnan(x) || isnan(y) ? x + y : __builtin_copysignf(angle, y);
}
devmod_function float devmod_arcsine(float x)
{
    float square = x * x;
    float sum = (((4.2163199048e-2f * square + 2.4181311049e-2f) * square + 4.5470025998e-2f) * square + 7.4953002686e-2f) * square;
    return (sum + 1.6666752422e-1f) * square * x + x;
}
devmod_function float asinf(float x)
{
    float size = __builtin_fabsf(x);
    float result = size > 0.5f ? (float)M_PI_2 - 2 * devmod_arcsine(__builtin_sqrtf(0.5f * (1 - size))) : devmod_arcsine(size);
    return __builtin_copysignf(result, x);
}
devmod_function float acosf(float x)
{
    float size = __builtin_fabsf(x);
    float small = 2 * devmod_arcsine(__builtin_sqrtf(0.5f * (1 - size)));
    return size <= 0.5f ? (float)M_PI_2 - devmod_arcsine(x) : x < 0 ? (float)M_PI - small : small;
}
/* Kahan's quotients: the rounding of 1 + x is the same above and below. */
devmod_function float expm1f(float x)
{
    float power = __builtin_expf(x), less = power - 1;
    return power == 1 ? x : less == -1 || isinf(power) ? less : less * (x / __builtin_logf(power));
}
devmod_function float log1pf(float x)
{
    float sum = 1 + x;
    return sum == 1 || (isinf(x) && x > 0) ? x : __builtin_logf(sum) * (x / (sum - 1));
}
devmod_function float asinhf(float x)
{
    float size = __builtin_fabsf(x), square = size * size;
    float result = size > 1e9f ? __builtin_logf(size) + (float)M_LN2 : log1pf(size + square / (1 + __builtin_sqrtf(square + 1)));
    return __builtin_copysignf(result, x);
}
devmod_function float acoshf(float x)
{
    float less = x - 1;
    return x < 1 ? NAN : x > 1e9f ? __builtin_logf(x) + (float)M_LN2 : log1pf(less + __builtin_sqrtf(less * (x + 1)));
}
devmod_function float atanhf(float x)
{
    float size = __builtin_fabsf(x);
    return __builtin_copysignf(0.5f * log1pf(2 * size / (1 - size)), x);
}
devmod_function float cbrtf(float x)
{
    float size = __builtin_fabsf(x), root = __builtin_exp2f(__builtin_log2f(size) * (1.0f / 3));
    root -= (root - size / (root * root)) * (1.0f / 3);
    return x == 0 || isinf(x) ? x : __builtin_copysignf(root, x);
}
devmod_function float rcbrtf(float x) { return 1 / cbrtf(x); }
/* An angle in half turns: the remainders by a whole turn and by a whole number of quarter turns are exact. The sine of -0 is -0. */
devmod_function void sincospif(float x, float *sine, float *cosine)
{
    float part = x - 2 * __builtin_truncf(0.5f * x), whole = __builtin_rintf(2 * part), angle = (part - 0.5f * whole) * (float)M_PI;
    int quadrant = (int)whole & 3;
    float s = devmod_sine(angle), c = devmod_cosine(angle);
    *sine = quadrant & 1 ? c : s;
    *cosine = quadrant & 1 ? s : c;
    *sine = *sine == 0 ? __builtin_copysignf(0, x) : quadrant & 2 ? -*sine : *sine;
    *cosine = quadrant == 1 || quadrant == 2 ? -*cosine : *cosine;
}
devmod_function float sinpif(float x) { float s, c; sincospif(x, &s, &c); return s; }
devmod_function float cospif(float x) { float s, c; sincospif(x, &s, &c); return c; }
/* The Chebyshev approximation of Numerical Recipes, times exp(x²): its relative error is 1.2e-7. */
devmod_function float devmod_erfcx(float size, float exponent)
{
    float t = 1 / (1 + 0.5f * size);
    float sum = -0.82215223f + t * 0.17087277f;
    sum = 0.27886807f + t * (-1.13520398f + t * (1.48851587f + t * sum));
    sum = 1.00002368f + t * (0.37409196f + t * (0.09678418f + t * (-0.18628806f + t * sum)));
    return t * __builtin_expf(exponent - 1.26551223f + t * sum);
}
devmod_function float erfcf(float x)
{
    float size = __builtin_fabsf(x), result = devmod_erfcx(size, -size * size);
    return x < 0 ? 2 - result : result;
}
devmod_function float erfcxf(float x) { return x < 0 ? 2 * __builtin_expf(x * x) - devmod_erfcx(-x, 0) : devmod_erfcx(x, 0); }
devmod_function float normcdff(float x) { return 0.5f * erfcf(x * (float)-M_SQRT1_2); }
/* M. Giles, "Approximating the erfinv function", GPU Computing Gems 2. */
devmod_function float erfinvf(float x)
{
    float w = -log1pf(-x * x), p;
    if (w < 5) {
        w -= 2.5f;
        p = 3.43273939e-07f + 2.81022636e-08f * w;
        p = -0.00125372503f + (0.00021858087f + (-4.39150654e-06f + (-3.5233877e-06f + p * w) * w) * w) * w;
        p = 1.50140941f + (0.246640727f + (-0.00417768164f + p * w) * w) * w;
    } else {
        w = __builtin_sqrtf(w) - 3;
        p = 0.000100950558f + -0.000200214257f * w;
        p = -0.0076224613f + (0.00573950773f + (-0.00367342844f + (0.00134934322f + p * w) * w) * w) * w;
        p = 2.83297682f + (1.00167406f + (0.00943887047f + p * w) * w) * w;
    }
    return __builtin_fabsf(x) == 1 ? x * __builtin_inff() : p * x;
}
#endif
#define DEVMOD_OVERLOAD1(name) devmod_function float name(float x) { return name##f(x); }
DEVMOD_OVERLOAD1(tan)
DEVMOD_OVERLOAD1(atan)
DEVMOD_OVERLOAD1(asin)
DEVMOD_OVERLOAD1(acos)
DEVMOD_OVERLOAD1(sinh)
DEVMOD_OVERLOAD1(cosh)
DEVMOD_OVERLOAD1(asinh)
DEVMOD_OVERLOAD1(acosh)
DEVMOD_OVERLOAD1(atanh)
DEVMOD_OVERLOAD1(expm1)
DEVMOD_OVERLOAD1(log1p)
DEVMOD_OVERLOAD1(cbrt)
DEVMOD_OVERLOAD1(erfc)
devmod_function float exp10(float x) { return exp10f(x); }
devmod_function float atan2(float y, float x) { return atan2f(y, x); }
devmod_function void sincos(float x, float *sine, float *cosine) { sincosf(x, sine, cosine); }

/* -- intrinsics of CUDA: with a rounding, and the faster ones */

#define DEVMOD_ROUNDED(name, type, expression)                                                                   \
    devmod_function type name(type x, type y)                                                                    \
    {                                                                                                            \
        _Pragma("clang fp contract(off)") return expression;                                                     \
    }
DEVMOD_ROUNDED(__fadd_rn, float, x + y)
DEVMOD_ROUNDED(__fsub_rn, float, x - y)
DEVMOD_ROUNDED(__fmul_rn, float, x * y)
DEVMOD_ROUNDED(__fdiv_rn, float, x / y)
DEVMOD_ROUNDED(__dadd_rn, double, x + y)
DEVMOD_ROUNDED(__dsub_rn, double, x - y)
DEVMOD_ROUNDED(__dmul_rn, double, x * y)
DEVMOD_ROUNDED(__ddiv_rn, double, x / y)
devmod_function float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
devmod_function double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
devmod_function float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
devmod_function double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
devmod_function float __frsqrt_rn(float x) { return 1 / __builtin_sqrtf(x); }
devmod_function double __drcp_rn(double x) { return 1 / x; }
devmod_function float __saturatef(float x) { return __builtin_fminf(__builtin_fmaxf(x, 0), 1); }
devmod_function float __exp10f(float x) { return __builtin_amdgcn_exp2f(x * 3.321928095f); }
devmod_function float __log10f(float x) { return __builtin_amdgcn_logf(x) * 0.301029996f; }
devmod_function float __powf(float x, float y) { return __builtin_amdgcn_exp2f(y * __builtin_amdgcn_logf(x)); }
devmod_function float __tanf(float x) { return __sinf(x) / __cosf(x); }
devmod_function void __sincosf(float x, float *sine, float *cosine)
{
    *sine = __sinf(x);
    *cosine = __cosf(x);
}

DEVMOD_OCML(double, exp10, exp10_f64)
DEVMOD_OCML(double, expm1, expm1_f64)
DEVMOD_OCML(double, log1p, log1p_f64)
DEVMOD_OCML(double, tan, tan_f64)
DEVMOD_OCML(double, sinpi, sinpi_f64)
DEVMOD_OCML(double, cospi, cospi_f64)
DEVMOD_OCML(double, asin, asin_f64)
DEVMOD_OCML(double, acos, acos_f64)
DEVMOD_OCML(double, atan, atan_f64)
DEVMOD_OCML(double, sinh, sinh_f64)
DEVMOD_OCML(double, cosh, cosh_f64)
DEVMOD_OCML(double, asinh, asinh_f64)
DEVMOD_OCML(double, acosh, acosh_f64)
DEVMOD_OCML(double, atanh, atanh_f64)
DEVMOD_OCML(double, cbrt, cbrt_f64)
DEVMOD_OCML(double, rcbrt, rcbrt_f64)
DEVMOD_OCML(double, erf, erf_f64)
DEVMOD_OCML(double, erfc, erfc_f64)
DEVMOD_OCML(double, erfcx, erfcx_f64)
DEVMOD_OCML(double, erfinv, erfinv_f64)
DEVMOD_OCML(double, erfcinv, erfcinv_f64)
DEVMOD_OCML(double, normcdf, ncdf_f64)
DEVMOD_OCML(double, normcdfinv, ncdfinv_f64)
DEVMOD_OCML(double, tgamma, tgamma_f64)
DEVMOD_OCML(double, lgamma, lgamma_f64)
DEVMOD_OCML(double, j0, j0_f64)
DEVMOD_OCML(double, j1, j1_f64)
DEVMOD_OCML(double, y0, y0_f64)
DEVMOD_OCML(double, y1, y1_f64)
DEVMOD_OCML(double, cyl_bessel_i0, i0_f64)
DEVMOD_OCML(double, cyl_bessel_i1, i1_f64)
DEVMOD_OCML(float, erfcinvf, erfcinv_f32)
DEVMOD_OCML(float, normcdfinvf, ncdfinv_f32)
DEVMOD_OCML(float, tgammaf, tgamma_f32)
DEVMOD_OCML(float, lgammaf, lgamma_f32)
DEVMOD_OCML(float, j0f, j0_f32)
DEVMOD_OCML(float, j1f, j1_f32)
DEVMOD_OCML(float, y0f, y0_f32)
DEVMOD_OCML(float, y1f, y1_f32)
DEVMOD_OCML(float, cyl_bessel_i0f, i0_f32)
DEVMOD_OCML(float, cyl_bessel_i1f, i1_f32)
DEVMOD_OCML2(double, atan2, atan2_f64)
devmod_function float powif(float x, int n) { return powf(x, (float)n); }
devmod_function void sincos(double x, double *sine, double *cosine)
{
    *sine = sin(x);
    *cosine = cos(x);
}
devmod_function void sincospi(double x, double *sine, double *cosine)
{
    *sine = sinpi(x);
    *cosine = cospi(x);
}
