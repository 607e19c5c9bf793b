/* The math functions of HIP that amdgcn computes without a device library. */
#pragma once
#ifndef devmod_function /* without devmod_hip.h */
#define __device__ __attribute__((device))
#define devmod_function static __attribute__((device, always_inline, unused)) inline
#endif

#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif
#define HUGE_VALF __builtin_inff()
#define HUGE_VAL __builtin_inf()
#define FP_ILOGB0 (-__INT_MAX__ - 1)
#define FP_ILOGBNAN (-__INT_MAX__ - 1)
#define M_E 2.71828182845904523536
#define M_LOG2E 1.44269504088896340736
#define M_LOG10E 0.43429448190325182765
#define M_LN10 2.30258509299404568402
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT1_2 0.70710678118654752440
#define M_SQRT2 1.41421356237309504880

#define DEVMOD_UNARY(name) \
    devmod_function float name##f(float x) { return __builtin_##name##f(x); }
#define DEVMOD_BOTH(name)                                                     \
    DEVMOD_UNARY(name)                                                        \
    devmod_function float name(float x) { return __builtin_##name##f(x); }    \
    devmod_function double name(double x) { return __builtin_##name(x); }
#define DEVMOD_BINARY(name)                                                             \
    devmod_function float name##f(float x, float y) { return __builtin_##name##f(x, y); } \
    devmod_function float name(float x, float y) { return __builtin_##name##f(x, y); }  \
    devmod_function double name(double x, double y) { return __builtin_##name(x, y); }
/* Functions that LLVM computes for float and double. */
DEVMOD_BOTH(fabs)
DEVMOD_BOTH(floor)
DEVMOD_BOTH(ceil)
DEVMOD_BOTH(trunc)
DEVMOD_BOTH(rint)
DEVMOD_BOTH(nearbyint)
DEVMOD_BOTH(round)
DEVMOD_BOTH(sqrt)
DEVMOD_BINARY(fmin)
DEVMOD_BINARY(fmax)
DEVMOD_BINARY(copysign)
devmod_function float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
devmod_function float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
devmod_function double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
devmod_function float fmodf(float x, float y) { return __builtin_fmodf(x, y); }
devmod_function float fmod(float x, float y) { return __builtin_fmodf(x, y); }
devmod_function double fmod(double x, double y) { return __builtin_fmod(x, y); }
/* Functions that LLVM computes for float. */
#define DEVMOD_FLOAT(name)                                                    \
    DEVMOD_UNARY(name)                                                        \
    devmod_function float name(float x) { return __builtin_##name##f(x); }
DEVMOD_FLOAT(exp)
DEVMOD_FLOAT(exp2)
DEVMOD_FLOAT(log)
DEVMOD_FLOAT(log2)
DEVMOD_FLOAT(log10)
devmod_function float exp10f(float x) { return __builtin_exp10f(x); }
devmod_function float rsqrtf(float x) { return 1 / __builtin_sqrtf(x); }
devmod_function float rsqrt(float x) { return 1 / __builtin_sqrtf(x); }
devmod_function double rsqrt(double x) { return 1 / __builtin_sqrt(x); }
devmod_function float __frcp_rn(float x) { return 1 / x; }
devmod_function float __fdividef(float x, float y) { return x * __builtin_amdgcn_rcpf(y); }
devmod_function float __expf(float x) { return __builtin_amdgcn_exp2f(x * (float)M_LOG2E); }
devmod_function float __logf(float x) { return __builtin_amdgcn_logf(x) * (float)M_LN2; }
devmod_function float __log2f(float x) { return __builtin_amdgcn_logf(x); }
/* Functions of ROCm's device library. The linker's error names them. */
#define DEVMOD_OCML(type, name, library)                                                                         \
    extern "C" __device__ type __ocml_##library(type);                                                           \
    devmod_function type name(type x) { return __ocml_##library(x); }
#define DEVMOD_OCML2(type, name, library)                                                                        \
    extern "C" __device__ type __ocml_##library(type, type);                                                     \
    devmod_function type name(type x, type y) { return __ocml_##library(x, y); }
/* The angle minus a multiple of π/2, by three constants whose sum is π/2 to 70 bits. The quadrant is the multiple modulo 4. */
devmod_function float devmod_reduce(float x, int *quadrant)
{
    const float high = 1.5703125f, middle = 4.837512969970703125e-4f, low = 7.54978995489188e-8f;
    float whole = __builtin_rintf(x * 0.636619772f);
    *quadrant = (int)whole & 3;
    return __builtin_fmaf(-whole, low, __builtin_fmaf(-whole, middle, __builtin_fmaf(-whole, high, x)));
}
/* The polynomials of the Cephes library, for angles up to π/4. */
devmod_function float devmod_sine(float x)
{
    float square = x * x;
    float sum = __builtin_fmaf(square, __builtin_fmaf(square, -1.9515295891e-4f, 8.3321608736e-3f), -1.6666654611e-1f);
    return __builtin_fmaf(x * square, sum, x);
}
devmod_function float devmod_cosine(float x)
{
    float square = x * x;
    float sum = __builtin_fmaf(square, __builtin_fmaf(square, 2.443315711809948e-5f, -1.388731625493765e-3f), 4.166664568298827e-2f);
    return __builtin_fmaf(square * square, sum, __builtin_fmaf(square, -0.5f, 1));
}
#ifdef DEVMOD_DEVICE_LIBS
DEVMOD_OCML(float, sinf, sin_f32)
DEVMOD_OCML(float, cosf, cos_f32)
DEVMOD_OCML2(float, powf, pow_f32)
DEVMOD_OCML(float, tanhf, tanh_f32)
DEVMOD_OCML(float, coshf, cosh_f32)
DEVMOD_OCML(float, sinhf, sinh_f32)
DEVMOD_OCML(float, erff, erf_f32)
#else
devmod_function float sinf(float x)
{
    int quadrant;
    float angle = devmod_reduce(x, &quadrant);
    float result = quadrant & 1 ? devmod_cosine(angle) : devmod_sine(angle);
    return quadrant & 2 ? -result : result;
}
devmod_function float cosf(float x)
{
    int quadrant;
    float angle = devmod_reduce(x, &quadrant);
    float result = quadrant & 1 ? devmod_sine(angle) : devmod_cosine(angle);
    return quadrant == 1 || quadrant == 2 ? -result : result;
}
/* An odd exponent keeps the sign of the base. */
devmod_function float powf(float x, float y)
{
    float result = __builtin_exp2f(y * __builtin_log2f(__builtin_fabsf(x)));
    bool is_whole = __builtin_truncf(y) == y, is_odd = is_whole && __builtin_fabsf(__builtin_fmodf(y, 2)) == 1;
    if (y == 0 || x == 1 || (x == -1 && __builtin_isinf(y)))
        return 1;
    if (x < 0 && !is_whole && !__builtin_isinf(x))
        return NAN;
    return is_odd ? __builtin_copysignf(result, x) : result;
}
devmod_function float tanhf(float x)
{
    float size = __builtin_fabsf(x), twice = __builtin_expf(-2 * size);
    float result = size < 0.02f ? size - size * size * size * (1.0f / 3) : (1 - twice) / (1 + twice);
    return __builtin_copysignf(result, x);
}
/* Half of expf(size), which is infinite before its half is. */
devmod_function float devmod_half_exp(float size)
{
    float root = __builtin_expf(0.5f * size);
    return 0.5f * root * root;
}
devmod_function float coshf(float x)
{
    float size = __builtin_fabsf(x);
    return size > 88 ? devmod_half_exp(size) : 0.5f * (__builtin_expf(x) + __builtin_expf(-x));
}
devmod_function float sinhf(float x)
{
    float size = __builtin_fabsf(x);
    float result = size < 0.02f ? size + size * size * size * (1.0f / 6) : size > 88 ? devmod_half_exp(size) : 0.5f * (__builtin_expf(size) - __builtin_expf(-size));
    return __builtin_copysignf(result, x);
}
/* The minimax polynomial of Abramowitz and Stegun, 7.1.26, has an error of 1.5e-7. */
devmod_function float erff(float x)
{
    float size = __builtin_fabsf(x), t = 1 / (1 + 0.3275911f * size);
    float sum = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    return __builtin_copysignf(1 - sum * __builtin_expf(-size * size), x);
}
#endif
devmod_function float sin(float x) { return sinf(x); }
devmod_function float cos(float x) { return cosf(x); }
/* The processor's instructions take the angle in turns. */
devmod_function float __sinf(float x) { return __builtin_amdgcn_sinf(x * 0.159154943f); }
devmod_function float __cosf(float x) { return __builtin_amdgcn_cosf(x * 0.159154943f); }
devmod_function void sincosf(float x, float *sine, float *cosine)
{
    *sine = sinf(x);
    *cosine = cosf(x);
}
devmod_function float pow(float x, float y) { return powf(x, y); }
devmod_function float tanh(float x) { return tanhf(x); }
/* -- for float and double, so that none is converted to the other */

#define DEVMOD_PREDICATES(type, f)                                                                               \
    devmod_function bool isnan(type x) { return __builtin_isnan(x); }                                            \
    devmod_function bool isinf(type x) { return __builtin_isinf(x); }                                            \
    devmod_function bool isfinite(type x) { return __builtin_isfinite(x); }                                      \
    devmod_function bool isnormal(type x) { return __builtin_isnormal(x); }                                      \
    devmod_function bool signbit(type x) { return __builtin_signbit(x); }                                        \
    devmod_function type abs(type x) { return __builtin_fabs##f(x); }
DEVMOD_PREDICATES(float, f)
DEVMOD_PREDICATES(double, )
devmod_function float min(float a, float b) { return __builtin_fminf(a, b); }
devmod_function float max(float a, float b) { return __builtin_fmaxf(a, b); }
devmod_function double min(double a, double b) { return __builtin_fmin(a, b); }
devmod_function double max(double a, double b) { return __builtin_fmax(a, b); }
devmod_function double min(float a, double b) { return __builtin_fmin(a, b); }
devmod_function double max(float a, double b) { return __builtin_fmax(a, b); }
devmod_function double min(double a, float b) { return __builtin_fmin(a, b); }
devmod_function double max(double a, float b) { return __builtin_fmax(a, b); }

/* -- functions of double in ROCm's device library */

DEVMOD_OCML(double, exp, exp_f64)
DEVMOD_OCML(double, exp2, exp2_f64)
DEVMOD_OCML(double, log, log_f64)
DEVMOD_OCML(double, log2, log2_f64)
DEVMOD_OCML(double, log10, log10_f64)
DEVMOD_OCML(double, sin, sin_f64)
DEVMOD_OCML(double, cos, cos_f64)
DEVMOD_OCML(double, tanh, tanh_f64)
DEVMOD_OCML2(double, pow, pow_f64)
