/* float16 of HIP: __half is clang's _Float16, with the conversions and the arithmetic by name. */
#pragma once
#include <devmod_hip.h>

typedef _Float16 __half;
typedef _Float16 half;
struct __attribute__((aligned(4))) __half2 { __half x, y; };
typedef __half2 half2;
devmod_function __half __float2half(float x) { return (__half)x; }
devmod_function float __half2float(__half x) { return (float)x; }
devmod_function __half2 __floats2half2_rn(float x, float y) { return __half2{(__half)x, (__half)y}; }
devmod_function float __low2float(__half2 x) { return (float)x.x; }
devmod_function float __high2float(__half2 x) { return (float)x.y; }
devmod_function __half __hadd(__half x, __half y) { return x + y; }
devmod_function __half __hsub(__half x, __half y) { return x - y; }
devmod_function __half __hmul(__half x, __half y) { return x * y; }
devmod_function __half __hdiv(__half x, __half y) { return x / y; }
devmod_function __half __hfma(__half x, __half y, __half z) { return __builtin_fmaf16(x, y, z); }
