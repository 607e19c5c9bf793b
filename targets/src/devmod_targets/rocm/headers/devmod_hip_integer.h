/* Integer functions, conversions and bit casts of CUDA and HIP, and what both have of the C library. */
#pragma once

devmod_function int __popc(unsigned x) { return __builtin_popcount(x); }
devmod_function int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
devmod_function int __clz(int x) { return x ? __builtin_clz(x) : 32; }
devmod_function int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
devmod_function int __ffs(int x) { return __builtin_ffs(x); }
devmod_function int __ffsll(long long x) { return __builtin_ffsll(x); }
devmod_function unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
devmod_function unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
devmod_function int __mul24(int a, int b) { return (int)((unsigned)((int)((unsigned)a << 8) >> 8) * (unsigned)((int)((unsigned)b << 8) >> 8)); }
devmod_function unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
devmod_function int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
devmod_function unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
devmod_function long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
devmod_function unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
devmod_function int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
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
/* Fields of bits. Those of HIP have 1 to 31 (63) bits. */
#define DEVMOD_BITS(type, bits)                                                                                  \
    devmod_function type __bitextract_u##bits(type x, unsigned offset, unsigned width)                           \
    {                                                                                                            \
        return x >> (offset & (bits - 1)) & (((type)1 << (width & (bits - 1))) - 1);                             \
    }                                                                                                            \
    devmod_function type __bitinsert_u##bits(type x, type field, unsigned offset, unsigned width)                \
    {                                                                                                            \
        type mask = (((type)1 << (width & (bits - 1))) - 1) << (offset & (bits - 1));                            \
        return (x & ~mask) | (field << (offset & (bits - 1)) & mask);                                            \
    }
DEVMOD_BITS(unsigned, 32)
DEVMOD_BITS(unsigned long long, 64)
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

#define DEVMOD_LIMITS(type, of_a, of_b)                                                                          \
    devmod_both type min(of_a a, of_b b) { return (type)a < (type)b ? (type)a : (type)b; }                       \
    devmod_both type max(of_a a, of_b b) { return (type)a > (type)b ? (type)a : (type)b; }
DEVMOD_LIMITS(int, int, int)
DEVMOD_LIMITS(unsigned, unsigned, unsigned)
DEVMOD_LIMITS(unsigned, int, unsigned)
DEVMOD_LIMITS(unsigned, unsigned, int)
DEVMOD_LIMITS(long, long, long)
DEVMOD_LIMITS(unsigned long, unsigned long, unsigned long)
DEVMOD_LIMITS(long long, long long, long long)
DEVMOD_LIMITS(unsigned long long, unsigned long long, unsigned long long)
devmod_function int abs(int x) { return x < 0 ? -x : x; }
devmod_function long abs(long x) { return x < 0 ? -x : x; }
devmod_function long long abs(long long x) { return x < 0 ? -x : x; }
devmod_function long labs(long x) { return abs(x); }
devmod_function long long llabs(long long x) { return abs(x); }

/* -- conversions and bit casts */

devmod_function int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
devmod_function unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
devmod_function float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
devmod_function float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
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
