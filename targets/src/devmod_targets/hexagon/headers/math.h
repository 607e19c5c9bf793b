#pragma once
#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif
#ifndef __cplusplus
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)
#endif
#ifdef __cplusplus
extern "C" {
#endif
float acosf(float);
float acoshf(float);
float asinf(float);
float asinhf(float);
float atanf(float);
float atanhf(float);
float cbrtf(float);
float ceilf(float);
float cosf(float);
float coshf(float);
float erff(float);
float erfcf(float);
float expf(float);
float exp2f(float);
float expm1f(float);
float fabsf(float);
float floorf(float);
float lgammaf(float);
float logf(float);
float log10f(float);
float log1pf(float);
float log2f(float);
float nearbyintf(float);
float rintf(float);
float roundf(float);
float sinf(float);
float sinhf(float);
float sqrtf(float);
float tanf(float);
float tanhf(float);
float tgammaf(float);
float truncf(float);
float atan2f(float, float);
float copysignf(float, float);
float fdimf(float, float);
float fmaxf(float, float);
float fminf(float, float);
float fmodf(float, float);
float hypotf(float, float);
float powf(float, float);
float remainderf(float, float);
float fmaf(float, float, float);
float frexpf(float, int *);
float ldexpf(float, int);
float modff(float, float *);
long lrintf(float);
long lroundf(float);
double acos(double);
double acosh(double);
double asin(double);
double asinh(double);
double atan(double);
double atanh(double);
double cbrt(double);
double ceil(double);
double cos(double);
double cosh(double);
double erf(double);
double erfc(double);
double exp(double);
double exp2(double);
double expm1(double);
double fabs(double);
double floor(double);
double lgamma(double);
double log(double);
double log10(double);
double log1p(double);
double log2(double);
double nearbyint(double);
double rint(double);
double round(double);
double sin(double);
double sinh(double);
double sqrt(double);
double tan(double);
double tanh(double);
double tgamma(double);
double trunc(double);
double atan2(double, double);
double copysign(double, double);
double fdim(double, double);
double fmax(double, double);
double fmin(double, double);
double fmod(double, double);
double hypot(double, double);
double pow(double, double);
double remainder(double, double);
double fma(double, double, double);
double frexp(double, int *);
double ldexp(double, int);
double modf(double, double *);
long lrint(double);
long lround(double);
#ifdef __cplusplus
}
#endif
#define M_E 2.71828182845904523536
#define M_LOG2E 1.44269504088896340736
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
