/* bfloat16 of HIP: __hip_bfloat16 is clang's __bf16, which computes in float and rounds to the nearest. */
#pragma once
#include <devmod_hip.h>
#include <devmod_hip_complete.h>

typedef __bf16 __hip_bfloat16;
struct __attribute__((aligned(4))) __hip_bfloat162 { __hip_bfloat16 x, y; };
devmod_both __hip_bfloat16 __float2bfloat16(float x) { return (__hip_bfloat16)x; }
devmod_both __hip_bfloat16 __float2bfloat16_rn(float x) { return (__hip_bfloat16)x; }
devmod_both __hip_bfloat16 __double2bfloat16(double x) { return (__hip_bfloat16)x; }
devmod_both float __bfloat162float(__hip_bfloat16 x) { return (float)x; }
devmod_both unsigned short __bfloat16_as_ushort(__hip_bfloat16 x) { return __builtin_bit_cast(unsigned short, x); }
devmod_both short __bfloat16_as_short(__hip_bfloat16 x) { return __builtin_bit_cast(short, x); }
devmod_both __hip_bfloat16 __ushort_as_bfloat16(unsigned short x) { return __builtin_bit_cast(__hip_bfloat16, x); }
devmod_both __hip_bfloat16 __short_as_bfloat16(short x) { return __builtin_bit_cast(__hip_bfloat16, x); }
devmod_function __hip_bfloat16 __hadd(__hip_bfloat16 x, __hip_bfloat16 y) { return x + y; }
devmod_function __hip_bfloat16 __hsub(__hip_bfloat16 x, __hip_bfloat16 y) { return x - y; }
devmod_function __hip_bfloat16 __hmul(__hip_bfloat16 x, __hip_bfloat16 y) { return x * y; }
devmod_function __hip_bfloat16 __hdiv(__hip_bfloat16 x, __hip_bfloat16 y) { return x / y; }
devmod_function __hip_bfloat16 __hfma(__hip_bfloat16 x, __hip_bfloat16 y, __hip_bfloat16 z)
{
    return (__hip_bfloat16)__builtin_fmaf((float)x, (float)y, (float)z);
}
devmod_both __hip_bfloat16 __low2bfloat16(__hip_bfloat162 x) { return x.x; }
devmod_both __hip_bfloat16 __high2bfloat16(__hip_bfloat162 x) { return x.y; }
devmod_both float __low2float(__hip_bfloat162 x) { return (float)x.x; }
devmod_both float __high2float(__hip_bfloat162 x) { return (float)x.y; }
#define DEVMOD_HALF __hip_bfloat16
#define DEVMOD_HALF2 __hip_bfloat162
#include <devmod_hip_half.h>
devmod_both __hip_bfloat162 make_bfloat162(__hip_bfloat16 x, __hip_bfloat16 y) { return {x, y}; }
devmod_both __hip_bfloat162 __halves2bfloat162(__hip_bfloat16 x, __hip_bfloat16 y) { return {x, y}; }
devmod_both __hip_bfloat162 __bfloat162bfloat162(__hip_bfloat16 x) { return {x, x}; }
devmod_both __hip_bfloat162 __floats2bfloat162_rn(float x, float y) { return {(__hip_bfloat16)x, (__hip_bfloat16)y}; }
devmod_both __hip_bfloat162 __float2bfloat162_rn(float x) { return __floats2bfloat162_rn(x, x); }
devmod_both __hip_bfloat162 __float22bfloat162_rn(float2 x) { return __floats2bfloat162_rn(x.x, x.y); }
devmod_both float2 __bfloat1622float2(__hip_bfloat162 x) { return {(float)x.x, (float)x.y}; }
