/* The math functions of HIP that amdgcn computes without a device library. */
#pragma once

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
/* An odd exponent keeps the sign of the base. */
devmod_function float powf(float x, float y)
{
    float result = __builtin_exp2f(y * __builtin_log2f(__builtin_fabsf(x)));
    bool is_whole = __builtin_truncf(y) == y, is_odd = is_whole && __builtin_fabsf(__builtin_fmodf(y, 2)) == 1;
    if (y == 0 || x == 1)
        return 1;
    if (x < 0)
        return is_whole ? (is_odd ? -result : result) : NAN;
    return result;
}
devmod_function float pow(float x, float y) { return powf(x, y); }
devmod_function float tanhf(float x)
{
    float size = __builtin_fabsf(x), twice = __builtin_expf(-2 * size);
    float result = size < 0.02f ? size - size * size * size * (1.0f / 3) : (1 - twice) / (1 + twice);
    return __builtin_copysignf(result, x);
}
devmod_function float coshf(float x) { return 0.5f * (__builtin_expf(x) + __builtin_expf(-x)); }
devmod_function float sinhf(float x)
{
    float size = __builtin_fabsf(x);
    float result = size < 0.02f ? size + size * size * size * (1.0f / 6) : 0.5f * (__builtin_expf(size) - __builtin_expf(-size));
    return __builtin_copysignf(result, x);
}
/* The minimax polynomial of Abramowitz and Stegun, 7.1.26, has an error of 1.5e-7. */
devmod_function float erff(float x)
{
    float size = __builtin_fabsf(x), t = 1 / (1 + 0.3275911f * size);
    float sum = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    return __builtin_copysignf(1 - sum * __builtin_expf(-size * size), x);
}
devmod_function float tanf(float x) { return sinf(x) / cosf(x); }
devmod_function float tanh(float x) { return tanhf(x); }
devmod_function float erf(float x) { return erff(x); }

/* -- parts of a number, whole numbers, and sums of squares, for float and double */

#define DEVMOD_PARTS(type, f, bits)                                                                               \
    devmod_function bool isnan(type x) { return __builtin_isnan(x); }                                            \
    devmod_function bool isinf(type x) { return __builtin_isinf(x); }                                            \
    devmod_function bool isfinite(type x) { return __builtin_isfinite(x); }                                      \
    devmod_function bool isnormal(type x) { return __builtin_isnormal(x); }                                      \
    devmod_function bool signbit(type x) { return __builtin_signbit(x); }                                        \
    devmod_function type abs(type x) { return __builtin_fabs##f(x); }                                            \
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
devmod_function float min(float a, float b) { return __builtin_fminf(a, b); }
devmod_function float max(float a, float b) { return __builtin_fmaxf(a, b); }
devmod_function double min(double a, double b) { return __builtin_fmin(a, b); }
devmod_function double max(double a, double b) { return __builtin_fmax(a, b); }
devmod_function double min(float a, double b) { return __builtin_fmin(a, b); }
devmod_function double max(float a, double b) { return __builtin_fmax(a, b); }
devmod_function double min(double a, float b) { return __builtin_fmin(a, b); }
devmod_function double max(double a, float b) { return __builtin_fmax(a, b); }

/* -- more functions of float */

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
    return power == 1 ? x : less == -1 || isinf(power) ? less : less * x / __builtin_logf(power);
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
    return x > 1e9f ? __builtin_logf(x) + (float)M_LN2 : log1pf(less + __builtin_sqrtf(less * (x + 1)));
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
/* An angle in half turns: the remainder by a whole number of quarter turns is exact. */
devmod_function void sincospif(float x, float *sine, float *cosine)
{
    float whole = __builtin_rintf(2 * x), angle = (x - 0.5f * whole) * (float)M_PI;
    int quadrant = (int)__builtin_fmodf(whole, 4) & 3;
    float s = devmod_sine(angle), c = devmod_cosine(angle);
    *sine = quadrant & 1 ? c : s;
    *cosine = quadrant & 1 ? s : c;
    *sine = quadrant & 2 ? -*sine : *sine;
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

/* -- functions of ROCm's device library. The linker's error names them. */

#define DEVMOD_OCML(type, name, library)                                                                         \
    extern "C" __device__ type __ocml_##library(type);                                                           \
    devmod_function type name(type x) { return __ocml_##library(x); }
DEVMOD_OCML(double, exp, exp_f64)
DEVMOD_OCML(double, exp2, exp2_f64)
DEVMOD_OCML(double, exp10, exp10_f64)
DEVMOD_OCML(double, expm1, expm1_f64)
DEVMOD_OCML(double, log, log_f64)
DEVMOD_OCML(double, log2, log2_f64)
DEVMOD_OCML(double, log10, log10_f64)
DEVMOD_OCML(double, log1p, log1p_f64)
DEVMOD_OCML(double, sin, sin_f64)
DEVMOD_OCML(double, cos, cos_f64)
DEVMOD_OCML(double, tan, tan_f64)
DEVMOD_OCML(double, sinpi, sinpi_f64)
DEVMOD_OCML(double, cospi, cospi_f64)
DEVMOD_OCML(double, asin, asin_f64)
DEVMOD_OCML(double, acos, acos_f64)
DEVMOD_OCML(double, atan, atan_f64)
DEVMOD_OCML(double, sinh, sinh_f64)
DEVMOD_OCML(double, cosh, cosh_f64)
DEVMOD_OCML(double, tanh, tanh_f64)
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
#define DEVMOD_OCML2(name)                                                                                       \
    extern "C" __device__ double __ocml_##name##_f64(double, double);                                            \
    devmod_function double name(double x, double y) { return __ocml_##name##_f64(x, y); }
DEVMOD_OCML2(pow)
DEVMOD_OCML2(atan2)
/* pow(x, 2): an integer exponent has the type of the base. */
devmod_function float pow(float x, int n) { return powf(x, (float)n); }
devmod_function double pow(double x, int n) { return pow(x, (double)n); }
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
