// devmod's corrections of libclc 22.1.8, which tools/libclc.py links into its bitcode: functions
// whose errors exceed the bounds of OpenCL C 3.0 ("Relative Error as ULPs", "Edge Case Behavior").
//
// libclc_NAME is libclc's own NAME. A function that is defined here replaces it, with its vectors.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

#define OV __attribute__((overloadable))
#define INLINE static inline __attribute__((always_inline))

// The vectors of a function of one and of two arguments.
#define V1(F, R, T)                                                                                \
    R##2 OV F(T##2 x) {                                                                            \
        return (R##2)(F(x.x), F(x.y));                                                             \
    }                                                                                              \
    R##3 OV F(T##3 x) {                                                                            \
        return (R##3)(F(x.x), F(x.y), F(x.z));                                                     \
    }                                                                                              \
    R##4 OV F(T##4 x) {                                                                            \
        return (R##4)(F(x.lo), F(x.hi));                                                           \
    }                                                                                              \
    R##8 OV F(T##8 x) {                                                                            \
        return (R##8)(F(x.lo), F(x.hi));                                                           \
    }                                                                                              \
    R##16 OV F(T##16 x) {                                                                          \
        return (R##16)(F(x.lo), F(x.hi));                                                          \
    }
#define V2(F, R, T, U)                                                                             \
    R##2 OV F(T##2 x, U##2 y) {                                                                    \
        return (R##2)(F(x.x, y.x), F(x.y, y.y));                                                   \
    }                                                                                              \
    R##3 OV F(T##3 x, U##3 y) {                                                                    \
        return (R##3)(F(x.x, y.x), F(x.y, y.y), F(x.z, y.z));                                      \
    }                                                                                              \
    R##4 OV F(T##4 x, U##4 y) {                                                                    \
        return (R##4)(F(x.lo, y.lo), F(x.hi, y.hi));                                               \
    }                                                                                              \
    R##8 OV F(T##8 x, U##8 y) {                                                                    \
        return (R##8)(F(x.lo, y.lo), F(x.hi, y.hi));                                               \
    }                                                                                              \
    R##16 OV F(T##16 x, U##16 y) {                                                                 \
        return (R##16)(F(x.lo, y.lo), F(x.hi, y.hi));                                              \
    }
// The vectors of a function with a pointer in an address space.
#define VP(F, T, U, A)                                                                             \
    T##2 OV F(T##2 x, A U##2 * p) {                                                                \
        U a, b;                                                                                    \
        T##2 r = (T##2)(F(x.x, &a), F(x.y, &b));                                                   \
        *p = (U##2)(a, b);                                                                         \
        return r;                                                                                  \
    }                                                                                              \
    T##3 OV F(T##3 x, A U##3 * p) {                                                                \
        U a, b, c;                                                                                 \
        T##3 r = (T##3)(F(x.x, &a), F(x.y, &b), F(x.z, &c));                                       \
        *p = (U##3)(a, b, c);                                                                      \
        return r;                                                                                  \
    }                                                                                              \
    VP_HALVES(F, T##4, T##2, U##4, U##2, A)                                                        \
    VP_HALVES(F, T##8, T##4, U##8, U##4, A)                                                        \
    VP_HALVES(F, T##16, T##8, U##16, U##8, A)
#define VP_HALVES(F, T, S, U, P, A)                                                                \
    T OV F(T x, A U *p) {                                                                          \
        P a, b;                                                                                    \
        T r = (T)(F(x.lo, &a), F(x.hi, &b));                                                       \
        *p = (U)(a, b);                                                                            \
        return r;                                                                                  \
    }
// A function with a pointer in each address space, of a function that returns both values.
#define EACH_SPACE(F, T, U)                                                                        \
    IN_SPACE(F, T, U, private)                                                                     \
    IN_SPACE(F, T, U, local)                                                                       \
    IN_SPACE(F, T, U, global)                                                                      \
    IN_GENERIC(F, T, U)
#define IN_SPACE(F, T, U, A)                                                                       \
    T OV F(T x, A U *p) {                                                                          \
        U y;                                                                                       \
        T r = devmod_##F(x, &y);                                                                   \
        *p = y;                                                                                    \
        return r;                                                                                  \
    }                                                                                              \
    VP(F, T, U, A)
#ifdef __NVPTX__ // private pointers are generic ones
#define IN_GENERIC(F, T, U)
#else
#define IN_GENERIC(F, T, U) IN_SPACE(F, T, U, generic)
#endif

// -- -0: the result of libclc is 0

#define OF_ZERO(F)                                                                                 \
    double OV libclc_##F(double x);                                                                \
    double OV F(double x) {                                                                        \
        return x == 0 ? x : libclc_##F(x);                                                         \
    }                                                                                              \
    V1(F, double, double)
OF_ZERO(asin)
OF_ZERO(asinpi)
OF_ZERO(atan)
OF_ZERO(atanpi)
OF_ZERO(erf)
OF_ZERO(expm1)
OF_ZERO(sin)
OF_ZERO(tan)

double OV libclc_sincos(double x, private double *p);
INLINE double OV devmod_sincos(double x, private double *p) {
    double r = libclc_sincos(x, p);
    return x == 0 ? x : r;
}
EACH_SPACE(sincos, double, double)

// fract(-0) and fract(-INFINITY) are -0.
#define FRACT(T)                                                                                   \
    T OV libclc_fract(T x, private T *p);                                                          \
    INLINE T OV devmod_fract(T x, private T *p) {                                                  \
        T r = libclc_fract(x, p);                                                                  \
        return x == 0 || isinf(x) ? copysign(r, x) : r;                                            \
    }                                                                                              \
    EACH_SPACE(fract, T, T)
FRACT(float)
FRACT(double)

// -- large arguments: libclc reads beyond the end of a table

#define HYPERBOLIC(F)                                                                              \
    double OV libclc_##F(double x);                                                                \
    double OV F(double x) {                                                                        \
        double r = libclc_##F(fabs(x) <= 711 ? x : 0);                                             \
        return fabs(x) <= 711 ? r : F##_OF_LARGE(x);                                               \
    }                                                                                              \
    V1(F, double, double)
#define cosh_OF_LARGE(x) (isnan(x) ? (x) : INFINITY)
#define sinh_OF_LARGE(x) (isnan(x) ? (x) : copysign((double)INFINITY, x))
HYPERBOLIC(cosh)
HYPERBOLIC(sinh)

// -- the gamma function: libclc's is exp(lgamma(x)), with errors of hundreds of ULP

// Lanczos' approximation with 13 terms and g = 6.02468..., in the rational form of Boost's
// documents.
INLINE double devmod_lanczos(double x) {
    double a, b;
    if (x < 5) {
        a = 2.5066282746310002701649081771338373386264310793408;
        a = fma(a, x, 210.82427775157934587250973392071336271166969580291);
        a = fma(a, x, 8071.6720023658162106380029022722506138218516325024);
        a = fma(a, x, 186056.26539522349504029498971604569928220784236328);
        a = fma(a, x, 2876370.6289353724412254090516208496135991145378768);
        a = fma(a, x, 31426415.585400194380614231628318205362874684987640);
        a = fma(a, x, 248874557.86205415651146038641322942321632125127801);
        a = fma(a, x, 1439720407.3117216736632230727949123939715485786372);
        a = fma(a, x, 6039542586.3520280050642916443072979210699388420708);
        a = fma(a, x, 17921034426.037209699919755754458931112671403265390);
        a = fma(a, x, 35711959237.355668049440185451547166705960488635843);
        a = fma(a, x, 42919803642.649098768957899047001988850926355848959);
        a = fma(a, x, 23531376880.410759688572007674451636754734846804940);
        b = x + 66;
        b = fma(b, x, 1925);
        b = fma(b, x, 32670);
        b = fma(b, x, 357423);
        b = fma(b, x, 2637558);
        b = fma(b, x, 13339535);
        b = fma(b, x, 45995730);
        b = fma(b, x, 105258076);
        b = fma(b, x, 150917976);
        b = fma(b, x, 120543840);
        b = fma(b, x, 39916800);
        return a / (b * x);
    }
    double y = 1 / x;
    a = 23531376880.410759688572007674451636754734846804940;
    a = fma(a, y, 42919803642.649098768957899047001988850926355848959);
    a = fma(a, y, 35711959237.355668049440185451547166705960488635843);
    a = fma(a, y, 17921034426.037209699919755754458931112671403265390);
    a = fma(a, y, 6039542586.3520280050642916443072979210699388420708);
    a = fma(a, y, 1439720407.3117216736632230727949123939715485786372);
    a = fma(a, y, 248874557.86205415651146038641322942321632125127801);
    a = fma(a, y, 31426415.585400194380614231628318205362874684987640);
    a = fma(a, y, 2876370.6289353724412254090516208496135991145378768);
    a = fma(a, y, 186056.26539522349504029498971604569928220784236328);
    a = fma(a, y, 8071.6720023658162106380029022722506138218516325024);
    a = fma(a, y, 210.82427775157934587250973392071336271166969580291);
    a = fma(a, y, 2.5066282746310002701649081771338373386264310793408);
    b = fma(39916800.0, y, 120543840);
    b = fma(b, y, 150917976);
    b = fma(b, y, 105258076);
    b = fma(b, y, 45995730);
    b = fma(b, y, 13339535);
    b = fma(b, y, 2637558);
    b = fma(b, y, 357423);
    b = fma(b, y, 32670);
    b = fma(b, y, 1925);
    b = fma(b, y, 66);
    b = fma(b, y, 1);
    return a / b;
}

double OV libclc_pow(double x, double y);

double OV tgamma(double x) {
    double a = fabs(x);
    if (a < 0x1p-60)
        return 1 / x;
    if (isnan(x) || (x < 0 && x == trunc(x)))
        return NAN;
    if (a > 200)
        return x > 0 ? INFINITY : copysign(0.0, sinpi(x));

    const double shift = 5.524680040776729583740234375; // g - 0.5
    double y = a + shift;
    // The rounding error of y.
    double error = a > shift ? (y - a) - shift : (y - shift) - a;
    error = error * 6.02468004077672958 / y;
    double sum = devmod_lanczos(a);
    // One power would exceed the range.
    double power = libclc_pow(y, a < 140 ? a - 0.5 : a / 2 - 0.25);
    if (x > 0) {
        double r = sum / exp(y);
        r = fma(error, r, r) * power;
        return a < 140 ? r : r * power;
    }
    double r = -M_PI / sinpi(a) / a * exp(y) / sum;
    r = fma(-error, r, r) / power;
    return a < 140 ? r : r / power;
}
V1(tgamma, double, double)
float OV tgamma(float x) {
    return tgamma((double)x);
}
V1(tgamma, float, float)

// lgamma(x) is -log(|x|) near 0, where libclc's for x < 0 divides by 0, and lgamma(-INFINITY) is
// INFINITY. For float, libclc's has errors of 11 ULP near the poles.
#define LGAMMA(T, RESULT)                                                                          \
    T OV libclc_lgamma_r(T x, private int *p);                                                     \
    INLINE T OV devmod_lgamma_r(T x, private int *p) {                                             \
        T r = RESULT;                                                                              \
        if (fabs(x) < (T)0x1p-60) {                                                                \
            *p = signbit(x) ? -1 : 1;                                                              \
            r = -log(fabs(x));                                                                     \
        }                                                                                          \
        return isinf(x) ? fabs(x) : r;                                                             \
    }                                                                                              \
    T OV lgamma(T x) {                                                                             \
        int s;                                                                                     \
        return devmod_lgamma_r(x, &s);                                                             \
    }                                                                                              \
    V1(lgamma, T, T)                                                                               \
    EACH_SPACE(lgamma_r, T, int)
LGAMMA(double, libclc_lgamma_r(x, p))
LGAMMA(float, x < 0 ? (float)devmod_lgamma_r((double)x, p) : libclc_lgamma_r(x, p))

// -- powers: a product with log2(x) exceeds the range of int

// The power of a finite x > 0, if it is infinite or zero; else NaN.
INLINE double devmod_limit_of_power(double x, double y) {
    if (fabs(y) < 0x1p14)
        return NAN;
    double exponent = y * log2(x);
    return exponent > 1100 ? INFINITY : exponent < -1100 ? 0 : NAN;
}

INLINE bool devmod_is_finite_power(double x, double y) {
    return x != 0 && isfinite(x) && isfinite(y);
}

double OV pow(double x, double y) {
    if (devmod_is_finite_power(x, y)) {
        double limit = devmod_limit_of_power(fabs(x), y);
        if (!isnan(limit)) {
            if (x > 0)
                return limit;
            if (y != trunc(y))
                return NAN;
            return y / 2 == trunc(y / 2) ? limit : -limit;
        }
    }
    return libclc_pow(x, y);
}
V2(pow, double, double, double)

double OV libclc_powr(double x, double y);
double OV powr(double x, double y) {
    if (x > 0 && devmod_is_finite_power(x, y)) {
        double limit = devmod_limit_of_power(x, y);
        if (!isnan(limit))
            return limit;
    }
    return libclc_powr(x, y);
}
V2(powr, double, double, double)

// libclc's roots of 1 and -1 are 0 for results near the smallest normal number.
float OV libclc_rootn(float x, int n);
float OV rootn(float x, int n) {
    if (n == 1)
        return x;
    return n == -1 ? 1 / x : libclc_rootn(x, n);
}
V2(rootn, float, float, int)

// -- remainders: exact, where libclc's are wrong for quotients beyond 2^1000 and for subnormal
// numbers

// The number m * 2^e of an argument, and back. `BITS` are those of the significand.
#define REMAINDERS(T, U, BITS, EXPONENTS)                                                          \
    INLINE T OV devmod_number(U sign, ulong m, int e, T type) {                                    \
        if (m == 0)                                                                                \
            return as_##T(sign);                                                                   \
        int up = min((int)clz(m) - 64 + BITS, e - 1);                                              \
        U r = (U)(up < 0 ? m >> -up : m << up);                                                    \
        U one = (U)1 << (BITS - 1);                                                                \
        if (r >= one)                                                                              \
            r += ((U)(e - up - 1)) << (BITS - 1);                                                  \
        return as_##T(r | sign);                                                                   \
    }                                                                                              \
    INLINE T OV devmod_divide(T x, T y, bool nearest, private int *quotient) {                     \
        U one = (U)1 << (BITS - 1);                                                                \
        U ux = as_##U(fabs(x)), uy = as_##U(fabs(y)), sign = as_##U(x) ^ ux;                       \
        *quotient = 0;                                                                             \
        if (isnan(x) || isnan(y) || isinf(x) || y == 0)                                            \
            return NAN;                                                                            \
        if (isinf(y))                                                                              \
            return x;                                                                              \
        int ex = max((int)(ux >> (BITS - 1)), 1), ey = max((int)(uy >> (BITS - 1)), 1);            \
        ulong mx = ux & (one - 1), my = uy & (one - 1);                                            \
        mx |= ux >= one ? one : 0;                                                                 \
        my |= uy >= one ? one : 0;                                                                 \
        if (ey > 1) { /* so that x < y / 2 where ex < ey */                                        \
            my <<= 1;                                                                              \
            ey -= 1;                                                                               \
        }                                                                                          \
        if (ex < ey)                                                                               \
            return x;                                                                              \
        ulong q = mx / my, r = mx % my;                                                            \
        for (int rest = ex - ey; rest > 0;) {                                                      \
            int step = min(rest, 63 - BITS);                                                       \
            r <<= step;                                                                            \
            q = (q << step) + r / my;                                                              \
            r %= my;                                                                               \
            rest -= step;                                                                          \
        }                                                                                          \
        if (nearest && (2 * r > my || (2 * r == my && (q & 1)))) {                                 \
            r = my - r;                                                                            \
            sign ^= (U)1 << (BITS + EXPONENTS - 1);                                                \
            q += 1;                                                                                \
        }                                                                                          \
        int low = (int)(q & 127);                                                                  \
        *quotient = signbit(x) != signbit(y) ? -low : low;                                         \
        return devmod_number(sign, r, ey, x);                                                      \
    }                                                                                              \
    T OV fmod(T x, T y) {                                                                          \
        int q;                                                                                     \
        return devmod_divide(x, y, false, &q);                                                     \
    }                                                                                              \
    V2(fmod, T, T, T)                                                                              \
    T OV remainder(T x, T y) {                                                                     \
        int q;                                                                                     \
        return devmod_divide(x, y, true, &q);                                                      \
    }                                                                                              \
    V2(remainder, T, T, T)                                                                         \
    REMQUO(T, private)                                                                             \
    REMQUO(T, local)                                                                               \
    REMQUO(T, global)                                                                              \
    REMQUO_GENERIC(T)
#define REMQUO(T, A)                                                                               \
    T OV remquo(T x, T y, A int *p) {                                                              \
        int q;                                                                                     \
        T r = devmod_divide(x, y, true, &q);                                                       \
        *p = q;                                                                                    \
        return r;                                                                                  \
    }                                                                                              \
    REMQUO_N(T, A, 2)                                                                              \
    REMQUO_N(T, A, 3)                                                                              \
    REMQUO_N(T, A, 4)                                                                              \
    REMQUO_N(T, A, 8)                                                                              \
    REMQUO_N(T, A, 16)
#define REMQUO_N(T, A, N)                                                                          \
    T##N OV remquo(T##N x, T##N y, A int##N *p) {                                                  \
        T##N r;                                                                                    \
        int##N q;                                                                                  \
        for (int i = 0; i < N; i++) {                                                              \
            int part;                                                                              \
            r[i] = devmod_divide(x[i], y[i], true, &part);                                         \
            q[i] = part;                                                                           \
        }                                                                                          \
        *p = q;                                                                                    \
        return r;                                                                                  \
    }
#ifdef __NVPTX__
#define REMQUO_GENERIC(T)
#else
#define REMQUO_GENERIC(T) REMQUO(T, generic)
#endif
REMAINDERS(float, uint, 24, 8)
REMAINDERS(double, ulong, 53, 11)

#ifdef __NVPTX__
// -- ldexp: libclc's of float gives 0 for subnormal numbers, and that of double is wrong for NaN
// and for exponents near the limits of int

INLINE double devmod_scale(int n) {
    return as_double((ulong)(n + 1023) << 52);
}

float OV ldexp(float x, int n) {
    return (double)x * devmod_scale(clamp(n, -400, 400));
}
V2(ldexp, float, float, int)

double OV ldexp(double x, int n) {
    n = clamp(n, -2200, 2200);
    // Only the last product rounds.
    for (; n > 1023; n -= 1023)
        x *= 0x1p1023;
    for (; n < -1022; n += 969)
        x *= 0x1p-969;
    return x * devmod_scale(n);
}
V2(ldexp, double, double, int)
#define LDEXP_SCALAR(T, N)                                                                         \
    T##N OV ldexp(T##N x, int n) {                                                                 \
        return ldexp(x, (int##N)n);                                                                \
    }
#define LDEXP_SCALARS(T)                                                                           \
    LDEXP_SCALAR(T, 2) LDEXP_SCALAR(T, 3) LDEXP_SCALAR(T, 4) LDEXP_SCALAR(T, 8) LDEXP_SCALAR(T, 16)
LDEXP_SCALARS(float)
LDEXP_SCALARS(double)
#endif

#ifdef __AMDGCN__
// libclc has the functions of half for this target alone. These have the errors of those of float.
half OV tgamma(half x) {
    return tgamma((float)x);
}
V1(tgamma, half, half)
half OV lgamma(half x) {
    return lgamma((float)x);
}
V1(lgamma, half, half)
INLINE half OV devmod_lgamma_r(half x, private int *p) {
    return devmod_lgamma_r((float)x, p);
}
EACH_SPACE(lgamma_r, half, int)

// LLVM computes these by the processor's own instructions. libclc has integers and tables instead.
#define EACH_WIDTH(MACRO, F, T)                                                                    \
    MACRO(F, T) MACRO(F, T##2) MACRO(F, T##3) MACRO(F, T##4) MACRO(F, T##8) MACRO(F, T##16)
#define OF_LLVM(F, T)                                                                              \
    T OV F(T x) {                                                                                  \
        return __builtin_elementwise_##F(x);                                                       \
    }
#define OF_LLVM3(F, T)                                                                             \
    T OV F(T x, T y, T z) {                                                                        \
        return __builtin_elementwise_##F(x, y, z);                                                 \
    }
#define OF_PROCESSOR(F)                                                                            \
    EACH_WIDTH(OF_LLVM, F, float)                                                                  \
    half OV F(half x) {                                                                            \
        return F((float)x);                                                                        \
    }                                                                                              \
    V1(F, half, half)
OF_PROCESSOR(exp)
OF_PROCESSOR(exp2)
OF_PROCESSOR(exp10)
OF_PROCESSOR(log)
OF_PROCESSOR(log2)
OF_PROCESSOR(log10)
EACH_WIDTH(OF_LLVM3, fma, half)
EACH_WIDTH(OF_LLVM3, fma, float)
EACH_WIDTH(OF_LLVM3, fma, double)

// The hidden arguments of HIP have the sizes of a block 8 bytes behind their places in the packet.
constant char *devmod_packet(void) {
    return (constant char *)__builtin_amdgcn_implicitarg_ptr() + 8;
}
#endif
