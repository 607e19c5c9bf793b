/* float16 of HIP: __half is clang's _Float16, with the conversions and the arithmetic by name. */
#pragma once
#include <devmod_hip.h>

typedef _Float16 __half;
typedef _Float16 half;
struct __attribute__((aligned(4))) __half2 { __half x, y; };
typedef __half2 half2;
devmod_both __half __float2half(float x) { return (__half)x; }
devmod_both float __half2float(__half x) { return (float)x; }
devmod_both __half2 __floats2half2_rn(float x, float y) { return {(__half)x, (__half)y}; }
devmod_both float __low2float(__half2 x) { return (float)x.x; }
devmod_both float __high2float(__half2 x) { return (float)x.y; }
devmod_function __half __hfma(__half x, __half y, __half z) { return __builtin_fmaf16(x, y, z); }
devmod_function __half __hadd(__half x, __half y) { return x + y; }
devmod_function __half __hsub(__half x, __half y) { return x - y; }
devmod_function __half __hmul(__half x, __half y) { return x * y; }
devmod_function __half __hdiv(__half x, __half y) { return x / y; }
#ifdef DEVMOD_COMPLETE
devmod_both __half __float2half_rn(float x) { return (__half)x; }
devmod_both __half __double2half(double x) { return (__half)x; }
devmod_function __half __float2half_rz(float x) { return __builtin_amdgcn_cvt_pkrtz(x, 0)[0]; }
devmod_both unsigned short __half_as_ushort(__half x) { return __builtin_bit_cast(unsigned short, x); }
devmod_both short __half_as_short(__half x) { return __builtin_bit_cast(short, x); }
devmod_both __half __ushort_as_half(unsigned short x) { return __builtin_bit_cast(__half, x); }
devmod_both __half __short_as_half(short x) { return __builtin_bit_cast(__half, x); }
devmod_function int devmod_limit(int x, int least, int most) { return x < least ? least : x > most ? most : x; }
#define DEVMOD_SHORT(x) (short)devmod_limit((int)(x), -32768, 32767)
#define DEVMOD_USHORT(x) (unsigned short)devmod_limit((int)(x), 0, 65535)
#define DEVMOD_HALF_INTEGERS(type, name, converted)                                                              \
    devmod_function type __half2##name##_rn(__half x) { return converted(__builtin_rintf((float)x)); }           \
    devmod_function type __half2##name##_rz(__half x) { return converted((float)x); }                            \
    devmod_function type __half2##name##_ru(__half x) { return converted(__builtin_ceilf((float)x)); }           \
    devmod_function type __half2##name##_rd(__half x) { return converted(__builtin_floorf((float)x)); }          \
    devmod_function __half __##name##2half_rn(type x) { return (__half)x; }
DEVMOD_HALF_INTEGERS(short, short, DEVMOD_SHORT)
DEVMOD_HALF_INTEGERS(unsigned short, ushort, DEVMOD_USHORT)
DEVMOD_HALF_INTEGERS(int, int, (int))
DEVMOD_HALF_INTEGERS(unsigned, uint, (unsigned))
DEVMOD_HALF_INTEGERS(long long, ll, (long long))
DEVMOD_HALF_INTEGERS(unsigned long long, ull, (unsigned long long))
devmod_both __half2 make_half2(__half x, __half y) { return {x, y}; }
devmod_both __half2 __halves2half2(__half x, __half y) { return {x, y}; }
devmod_both __half2 __half2half2(__half x) { return {x, x}; }
devmod_both __half2 __float2half2_rn(float x) { return __floats2half2_rn(x, x); }
devmod_both __half2 __float22half2_rn(float2 x) { return __floats2half2_rn(x.x, x.y); }
devmod_both float2 __half22float2(__half2 x) { return {(float)x.x, (float)x.y}; }
devmod_both __half __low2half(__half2 x) { return x.x; }
devmod_both __half __high2half(__half2 x) { return x.y; }
devmod_both __half2 __low2half2(__half2 x) { return {x.x, x.x}; }
devmod_both __half2 __high2half2(__half2 x) { return {x.y, x.y}; }
devmod_both __half2 __lows2half2(__half2 x, __half2 y) { return {x.x, y.x}; }
devmod_both __half2 __highs2half2(__half2 x, __half2 y) { return {x.y, y.y}; }
devmod_both __half2 __lowhigh2highlow(__half2 x) { return {x.y, x.x}; }
#define DEVMOD_HALF __half
#define DEVMOD_HALF2 __half2
#include <devmod_hip_half.h>
#endif
