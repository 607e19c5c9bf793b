// The built-in functions of OpenCL C for numbers, which devmod's definitions of the functions of vectors call. The file of the target
// precedes it: it has the ids of work-items, the barriers, the lanes of sub-groups, and DEVMOD_F32 and DEVMOD_F64, the symbols of the
// target's library of mathematics. A program of which no definition uses a part does without it: clang takes 1 to 10 ms for each.
#define OV static __attribute__((overloadable, always_inline, unused))
#define DECLARED extern __attribute__((overloadable, const))

#ifdef DEVMOD_NUMBERS
// -- the library of mathematics

#define DEVMOD_LIBRARY1(name)                               \
    DECLARED float lib_##name(float) __asm__(DEVMOD_F32(#name, 1)); \
    DECLARED double lib_##name(double) __asm__(DEVMOD_F64(#name, 1));
#define DEVMOD_LIBRARY2(name)                                      \
    DECLARED float lib_##name(float, float) __asm__(DEVMOD_F32(#name, 2)); \
    DECLARED double lib_##name(double, double) __asm__(DEVMOD_F64(#name, 2));
#define DEVMOD_PLAIN1(name)  \
    DEVMOD_LIBRARY1(name)    \
    OV float m_##name(float x) { return lib_##name(x); } \
    OV double m_##name(double x) { return lib_##name(x); }
#define DEVMOD_PLAIN2(name)  \
    DEVMOD_LIBRARY2(name)    \
    OV float m_##name(float x, float y) { return lib_##name(x, y); } \
    OV double m_##name(double x, double y) { return lib_##name(x, y); }
DEVMOD_PLAIN1(acos) DEVMOD_PLAIN1(acosh) DEVMOD_PLAIN1(asin) DEVMOD_PLAIN1(asinh) DEVMOD_PLAIN1(atan) DEVMOD_PLAIN1(atanh)
DEVMOD_PLAIN1(cbrt) DEVMOD_PLAIN1(cos) DEVMOD_PLAIN1(cosh) DEVMOD_PLAIN1(cospi) DEVMOD_PLAIN1(erf) DEVMOD_PLAIN1(erfc)
DEVMOD_PLAIN1(exp) DEVMOD_PLAIN1(exp10) DEVMOD_PLAIN1(exp2) DEVMOD_PLAIN1(expm1) DEVMOD_PLAIN1(lgamma) DEVMOD_PLAIN1(log)
DEVMOD_PLAIN1(log10) DEVMOD_PLAIN1(log1p) DEVMOD_PLAIN1(log2) DEVMOD_PLAIN1(sin) DEVMOD_PLAIN1(sinh) DEVMOD_PLAIN1(sinpi)
DEVMOD_PLAIN1(tan) DEVMOD_PLAIN1(tanh) DEVMOD_PLAIN1(tgamma)
DEVMOD_PLAIN2(atan2) DEVMOD_PLAIN2(fmod) DEVMOD_PLAIN2(hypot) DEVMOD_PLAIN2(pow)
#define DEVMOD_FAST(name) \
    DECLARED float lib_native_##name(float) __asm__(DEVMOD_FAST32(#name)); \
    OV float m_native_##name(float x) { return lib_native_##name(x); }
DEVMOD_FAST(sin) DEVMOD_FAST(cos) DEVMOD_FAST(exp) DEVMOD_FAST(log) DEVMOD_FAST(log2) DEVMOD_FAST(log10)

// -- mathematics without a library. `bits` is an integer of the size of the number, and `digits` are those of its mantissa.

OV float devmod_from(int x) { return as_float(x); }
OV double devmod_from(long x) { return as_double(x); }
OV int devmod_bits(float x) { return as_int(x); }
OV long devmod_bits(double x) { return as_long(x); }
#define DEVMOD_REAL(type, bits, ubits, digits, bias, f, pi)                                                                  \
    OV type m_fabs(type x) { return __builtin_fabs##f(x); }                                                                  \
    OV type m_ceil(type x) { return __builtin_ceil##f(x); }                                                                  \
    OV type m_floor(type x) { return __builtin_floor##f(x); }                                                                \
    OV type m_trunc(type x) { return __builtin_trunc##f(x); }                                                                \
    OV type m_rint(type x) { return __builtin_rint##f(x); }                                                                  \
    OV type m_copysign(type x, type y) { return __builtin_copysign##f(x, y); }                                               \
    OV type m_round(type x)                                                                                                  \
    {                                                                                                                        \
        type whole = m_trunc(x);                                                                                             \
        return m_copysign(m_fabs(x - whole) >= (type)0.5 ? whole + m_copysign((type)1, x) : whole, x);                       \
    }                                                                                                                        \
    OV type m_sqrt(type x) { return __builtin_sqrt##f(x); }                                                                  \
    OV type m_rsqrt(type x) { return 1 / __builtin_sqrt##f(x); }                                                             \
    OV type m_fma(type x, type y, type z) { return __builtin_fma##f(x, y, z); }                                              \
    OV type m_mad(type x, type y, type z) { return __builtin_fma##f(x, y, z); }                                              \
    OV type m_fmax(type x, type y) { return __builtin_fmax##f(x, y); }                                                       \
    OV type m_fmin(type x, type y) { return __builtin_fmin##f(x, y); }                                                       \
    OV type m_fdim(type x, type y) { return x > y ? x - y : x <= y ? 0 : x + y; }                                            \
    OV type m_maxmag(type x, type y)                                                                                         \
    {                                                                                                                        \
        return m_fabs(x) > m_fabs(y) ? x : m_fabs(y) > m_fabs(x) ? y : m_fmax(x, y);                                         \
    }                                                                                                                        \
    OV type m_minmag(type x, type y)                                                                                         \
    {                                                                                                                        \
        return m_fabs(x) < m_fabs(y) ? x : m_fabs(y) < m_fabs(x) ? y : m_fmin(x, y);                                         \
    }                                                                                                                        \
    OV type m_acospi(type x) { return m_acos(x) / (type)pi; }                                                                \
    OV type m_asinpi(type x) { return m_asin(x) / (type)pi; }                                                                \
    OV type m_atanpi(type x) { return m_atan(x) / (type)pi; }                                                                \
    OV type m_atan2pi(type y, type x) { return m_atan2(y, x) / (type)pi; }                                                   \
    OV type m_tanpi(type x) { return m_sinpi(x) / m_cospi(x); }                                                              \
    OV type m_powr(type x, type y) { return x < 0 ? (type)NAN : m_pow(x, y); }                                               \
    OV type m_pown(type x, int y) { return m_pow(x, (type)y); }                                                              \
    OV type m_rootn(type x, int y)                                                                                           \
    {                                                                                                                        \
        type size = m_pow(m_fabs(x), 1 / (type)y);                                                                           \
        return y == 0 || (x < 0 && !(y & 1)) ? (type)NAN : y & 1 ? m_copysign(size, x) : size;                               \
    }                                                                                                                        \
    OV type m_sincos(type x, generic type *cosine)                                                                           \
    {                                                                                                                        \
        *cosine = m_cos(x);                                                                                                  \
        return m_sin(x);                                                                                                     \
    }                                                                                                                        \
    OV type m_fract(type x, generic type *whole)                                                                             \
    {                                                                                                                        \
        *whole = m_floor(x);                                                                                                 \
        type rest = x - *whole, most = devmod_from((bits)(((bits)bias << (digits - 1)) - 1));                                \
        return x != x ? x : __builtin_isinf(x) ? m_copysign((type)0, x) : rest < most ? rest : most;                         \
    }                                                                                                                        \
    OV type m_modf(type x, generic type *whole)                                                                              \
    {                                                                                                                        \
        *whole = m_trunc(x);                                                                                                 \
        return m_copysign(__builtin_isinf(x) ? (type)0 : x - *whole, x);                                                     \
    }                                                                                                                        \
    /* The exponent of a number: subnormal numbers are scaled first. */                                                      \
    OV int devmod_exponent(type x)                                                                                           \
    {                                                                                                                        \
        int exponent = (int)((ubits)(devmod_bits(x) << 1) >> digits);                                                        \
        type scaled = x * devmod_from((bits)(bias + digits) << (digits - 1));                                                \
        return exponent ? exponent - bias : (int)((ubits)(devmod_bits(scaled) << 1) >> digits) - bias - digits;              \
    }                                                                                                                        \
    OV int m_ilogb(type x)                                                                                                   \
    {                                                                                                                        \
        return x != x ? FP_ILOGBNAN : __builtin_isinf(x) ? 2147483647 : x == 0 ? FP_ILOGB0 : devmod_exponent(x);             \
    }                                                                                                                        \
    OV type m_logb(type x)                                                                                                   \
    {                                                                                                                        \
        return x != x ? x : __builtin_isinf(x) ? (type)INFINITY : x == 0 ? -(type)INFINITY : (type)devmod_exponent(x);       \
    }                                                                                                                        \
    /* A power of two, from the least to the greatest normal one. */                                                         \
    OV type devmod_power_##bits(int n) { return devmod_from((bits)(n + bias) << (digits - 1)); }                                    \
    OV type m_ldexp(type x, int n)                                                                                           \
    {                                                                                                                        \
        n = n > 3 * bias ? 3 * bias : n < -3 * bias - digits ? -3 * bias - digits : n;                                       \
        for (int step = 0; step < 3; step++) {                                                                               \
            int part = n > bias ? bias : n < digits - bias ? digits - bias : n;                                              \
            x *= devmod_power_##bits(part);                                                                                         \
            n -= part;                                                                                                       \
        }                                                                                                                    \
        return x * devmod_power_##bits(n > 0 ? 0 : n < digits - bias ? digits - bias : n);                                          \
    }                                                                                                                        \
    OV type m_frexp(type x, generic int *exponent)                                                                           \
    {                                                                                                                        \
        bool special = x == 0 || x != x || __builtin_isinf(x);                                                               \
        *exponent = special ? 0 : devmod_exponent(x) + 1;                                                                    \
        type scaled = x * (m_fabs(x) < devmod_power_##bits(1 - bias) ? devmod_power_##bits(digits) : (type)1);                             \
        bits mantissa = (bits)1 << (digits - 1), rest = devmod_bits(scaled) & (mantissa - 1);                                \
        return special ? x : m_copysign(devmod_from(rest | (bits)(bias - 1) << (digits - 1)), x);                            \
    }                                                                                                                        \
    OV type m_nextafter(type x, type y)                                                                                      \
    {                                                                                                                        \
        bits value = devmod_bits(x);                                                                                         \
        if (x != x || y != y)                                                                                                \
            return x + y;                                                                                                    \
        if (x == y)                                                                                                          \
            return y;                                                                                                        \
        if (x == 0)                                                                                                          \
            return m_copysign(devmod_from((bits)1), y);                                                                      \
        return devmod_from(value + ((x < y) == (x > 0) ? 1 : -1));                                                           \
    }                                                                                                                        \
    /* The rest by an even multiple of y has the parity of the quotient, which a tie needs. */                               \
    OV type m_remainder(type x, type y)                                                                                      \
    {                                                                                                                        \
        type size = m_fabs(y), rest = m_fabs(x), infinity = (type)INFINITY;                                                  \
        if (x != x || y != y || rest == infinity || size == 0)                                                               \
            return (type)NAN;                                                                                                \
        if (size == infinity)                                                                                                \
            return x;                                                                                                        \
        rest = size + size < infinity ? m_fmod(rest, size + size) : rest;                                                    \
        if (rest > size - rest) {                                                                                            \
            rest -= size;                                                                                                    \
            if (rest >= size - rest)                                                                                         \
                rest -= size;                                                                                                \
        }                                                                                                                    \
        return devmod_bits(x) < 0 ? -rest : rest;                                                                            \
    }                                                                                                                        \
    OV type m_remquo(type x, type y, generic int *quotient)                                                                  \
    {                                                                                                                        \
        type rest = m_remainder(x, y), whole = m_rint((x - rest) / y);                                                       \
        type low = whole - 128 * m_trunc(whole / 128);                                                                       \
        *quotient = low == low && !__builtin_isinf(low) ? (int)low : 0;                                                      \
        return rest;                                                                                                         \
    }                                                                                                                        \
    OV type m_lgamma_r(type x, generic int *sign)                                                                            \
    {                                                                                                                        \
        type whole = m_floor(x);                                                                                             \
        *sign = x < 0 && x == whole ? 0 : x < 0 && whole != 2 * m_floor(whole / 2) ? -1 : 1;                                 \
        return m_lgamma(x);                                                                                                  \
    }                                                                                                                        \
    OV type m_nan(ubits code) { return devmod_from((bits)(code | (ubits)(2 * bias + 1) << (digits - 1) | (ubits)1 << (digits - 2))); } \
    OV type m_degrees(type x) { return x * (type)(180 / pi); }                                                               \
    OV type m_radians(type x) { return x * (type)(pi / 180); }                                                               \
    OV type m_mix(type x, type y, type a) { return x + (y - x) * a; }                                                        \
    OV type m_sign(type x) { return x > 0 ? (type)1 : x < 0 ? (type)-1 : x == 0 ? x : (type)0; }                             \
    OV type m_step(type edge, type x) { return x < edge ? (type)0 : (type)1; }                                               \
    OV type m_smoothstep(type low, type high, type x)                                                                        \
    {                                                                                                                        \
        type t = m_fmin(m_fmax((x - low) / (high - low), (type)0), (type)1);                                                 \
        return t * t * (3 - 2 * t);                                                                                          \
    }                                                                                                                        \
    OV type m_max(type x, type y) { return x < y ? y : x; }                                                                  \
    OV type m_min(type x, type y) { return y < x ? y : x; }                                                                  \
    OV type m_clamp(type x, type low, type high) { return m_fmin(m_fmax(x, low), high); }                                    \
    OV int m_isequal(type x, type y) { return x == y; }                                                                      \
    OV int m_isnotequal(type x, type y) { return x != y; }                                                                   \
    OV int m_isgreater(type x, type y) { return x > y; }                                                                     \
    OV int m_isgreaterequal(type x, type y) { return x >= y; }                                                               \
    OV int m_isless(type x, type y) { return x < y; }                                                                        \
    OV int m_islessequal(type x, type y) { return x <= y; }                                                                  \
    OV int m_islessgreater(type x, type y) { return x < y || x > y; }                                                        \
    OV int m_isordered(type x, type y) { return x == x && y == y; }                                                          \
    OV int m_isunordered(type x, type y) { return x != x || y != y; }                                                        \
    OV int m_isnan(type x) { return x != x; }                                                                                \
    OV int m_isinf(type x) { return __builtin_isinf(x) != 0; }                                                               \
    OV int m_isfinite(type x) { return __builtin_isfinite(x) != 0; }                                                         \
    OV int m_isnormal(type x) { return __builtin_isnormal(x) != 0; }                                                         \
    OV int m_signbit(type x) { return devmod_bits(x) < 0; }                                                                  \
    OV type m_select(type x, type y, bits c) { return c ? y : x; }                                                           \
    OV type m_select(type x, type y, ubits c) { return c ? y : x; }                                                          \
    OV type m_bitselect(type x, type y, type c)                                                                              \
    {                                                                                                                        \
        return devmod_from((devmod_bits(x) & ~devmod_bits(c)) | (devmod_bits(y) & devmod_bits(c)));                          \
    }
DEVMOD_REAL(float, int, uint, 24, 127, f, M_PI)
#ifdef DEVMOD_DOUBLE
DEVMOD_REAL(double, long, ulong, 53, 1023, , M_PI)
#endif
OV float m_native_exp2(float x) { return m_exp2(x); }
OV float m_native_exp10(float x) { return m_native_exp(x * 2.30258509299404568402f); }
OV float m_native_tan(float x) { return m_native_sin(x) / m_native_cos(x); }
OV float m_native_sqrt(float x) { return m_sqrt(x); }
OV float m_native_rsqrt(float x) { return m_rsqrt(x); }
OV float m_native_recip(float x) { return 1 / x; }
OV float m_native_divide(float x, float y) { return x / y; }
OV float m_native_powr(float x, float y) { return m_exp2(y * m_native_log2(x)); }

#ifdef DEVMOD_INTEGERS
// -- integers. `wide` has twice the bits, or is the integer itself for the greatest.

#define DEVMOD_INTEGER(type, unsigned_type, bits, min_value, max_value)                                                      \
    OV type m_max(type x, type y) { return x < y ? y : x; }                                                                  \
    OV type m_min(type x, type y) { return y < x ? y : x; }                                                                  \
    OV type m_clamp(type x, type low, type high) { return m_min(m_max(x, low), high); }                                      \
    OV unsigned_type m_abs_diff(type x, type y) { return x > y ? (unsigned_type)x - (unsigned_type)y : (unsigned_type)y - (unsigned_type)x; } \
    OV type m_hadd(type x, type y) { return (x & y) + ((x ^ y) >> 1); }                                                      \
    OV type m_rhadd(type x, type y) { return (x | y) - ((x ^ y) >> 1); }                                                     \
    OV type m_add_sat(type x, type y) { return __builtin_elementwise_add_sat(x, y); }                                        \
    OV type m_sub_sat(type x, type y) { return __builtin_elementwise_sub_sat(x, y); }                                        \
    OV type m_popcount(type x) { return __builtin_elementwise_popcount(x); }                                                 \
    OV type m_rotate(type x, type y)                                                                                         \
    {                                                                                                                        \
        unsigned_type v = x, n = (unsigned_type)y & (bits - 1);                                                              \
        return (type)(unsigned_type)(v << n | v >> ((bits - n) & (bits - 1)));                                               \
    }                                                                                                                        \
    OV type m_select(type x, type y, signed_##type c) { return c ? y : x; }                                                  \
    OV type m_select(type x, type y, unsigned_type c) { return c ? y : x; }                                                  \
    OV type m_bitselect(type x, type y, type c) { return (x & ~c) | (y & c); }
typedef char signed_char; typedef char signed_uchar; typedef short signed_short; typedef short signed_ushort;
typedef int signed_int; typedef int signed_uint; typedef long signed_long; typedef long signed_ulong;
DEVMOD_INTEGER(char, uchar, 8, CHAR_MIN, CHAR_MAX)
DEVMOD_INTEGER(uchar, uchar, 8, 0, UCHAR_MAX)
DEVMOD_INTEGER(short, ushort, 16, SHRT_MIN, SHRT_MAX)
DEVMOD_INTEGER(ushort, ushort, 16, 0, USHRT_MAX)
DEVMOD_INTEGER(int, uint, 32, INT_MIN, INT_MAX)
DEVMOD_INTEGER(uint, uint, 32, 0, UINT_MAX)
DEVMOD_INTEGER(long, ulong, 64, LONG_MIN, LONG_MAX)
DEVMOD_INTEGER(ulong, ulong, 64, 0, ULONG_MAX)
#define DEVMOD_ABS(type, unsigned_type) \
    OV unsigned_type m_abs(type x) { return x < 0 ? -(unsigned_type)x : (unsigned_type)x; } \
    OV unsigned_type m_abs(unsigned_type x) { return x; }
DEVMOD_ABS(char, uchar) DEVMOD_ABS(short, ushort) DEVMOD_ABS(int, uint) DEVMOD_ABS(long, ulong)
#define DEVMOD_ZEROS(type, bits, up)                                                                                    \
    OV type m_clz(type x) { return up x ? __builtin_clzl((ulong)(up x)) - (64 - bits) : bits; }                         \
    OV type m_ctz(type x) { return up x ? __builtin_ctzl((ulong)(up x)) : bits; }
DEVMOD_ZEROS(char, 8, (uchar)) DEVMOD_ZEROS(uchar, 8, (uchar)) DEVMOD_ZEROS(short, 16, (ushort)) DEVMOD_ZEROS(ushort, 16, (ushort))
DEVMOD_ZEROS(int, 32, (uint)) DEVMOD_ZEROS(uint, 32, (uint)) DEVMOD_ZEROS(long, 64, (ulong)) DEVMOD_ZEROS(ulong, 64, (ulong))
#define DEVMOD_WIDE(type, wide, bits, min_value, max_value)                                                             \
    OV type m_mul_hi(type x, type y) { return (type)(((wide)x * y) >> bits); }                                          \
    OV type m_mad_sat(type x, type y, type z)                                                                           \
    {                                                                                                                   \
        wide result = (wide)x * y + z;                                                                                  \
        return result < (wide)min_value ? (type)min_value : result > (wide)max_value ? (type)max_value : (type)result;  \
    }                                                                                                                   \
    OV type m_mad_hi(type x, type y, type z) { return m_mul_hi(x, y) + z; }
DEVMOD_WIDE(char, int, 8, CHAR_MIN, CHAR_MAX)
DEVMOD_WIDE(uchar, int, 8, 0, UCHAR_MAX)
DEVMOD_WIDE(short, int, 16, SHRT_MIN, SHRT_MAX)
DEVMOD_WIDE(ushort, uint, 16, 0, USHRT_MAX)
DEVMOD_WIDE(int, long, 32, INT_MIN, INT_MAX)
DEVMOD_WIDE(uint, ulong, 32, 0, UINT_MAX)
DEVMOD_WIDE(long, __int128, 64, LONG_MIN, LONG_MAX)
DEVMOD_WIDE(ulong, unsigned __int128, 64, 0, ULONG_MAX)
OV int m_mul24(int x, int y) { return ((x << 8) >> 8) * ((y << 8) >> 8); }
OV uint m_mul24(uint x, uint y) { return (x & 0xffffff) * (y & 0xffffff); }
OV int m_mad24(int x, int y, int z) { return m_mul24(x, y) + z; }
OV uint m_mad24(uint x, uint y, uint z) { return m_mul24(x, y) + z; }
OV short m_upsample(char high, uchar low) { return (short)((ushort)(uchar)high << 8 | low); }
OV ushort m_upsample(uchar high, uchar low) { return (ushort)high << 8 | low; }
OV int m_upsample(short high, ushort low) { return (int)((uint)(ushort)high << 16 | low); }
OV uint m_upsample(ushort high, ushort low) { return (uint)high << 16 | low; }
OV long m_upsample(int high, uint low) { return (long)((ulong)(uint)high << 32 | low); }
OV ulong m_upsample(uint high, uint low) { return (ulong)high << 32 | low; }
#endif
#ifdef DEVMOD_CONVERSIONS

// -- conversions with a rounding: the exact value of a number of floating point to the integers and back

#define DEVMOD_ROUND(type)                                                         \
    OV type devmod_rte(type x) { return m_rint(x); }                               \
    OV type devmod_rtz(type x) { return m_trunc(x); }                              \
    OV type devmod_rtp(type x) { return m_ceil(x); }                               \
    OV type devmod_rtn(type x) { return m_floor(x); }
DEVMOD_ROUND(float) DEVMOD_ROUND(double)
OV half devmod_next(half x, bool up)
{
    short v = as_short(x);
    return v == 0 || v == (short)0x8000 ? as_half((short)(up ? 1 : 0x8001)) : as_half((short)(v + ((v > 0) == up ? 1 : -1)));
}
OV float devmod_next(float x, bool up) { return m_nextafter(x, up ? (float)INFINITY : -(float)INFINITY); }
// The number `near` is a conversion to the nearest, and `back` its exact value, compared with the exact value before the conversion.
#define DEVMOD_DIRECTED(near, less, greater, is_negative, mode)                                                             \
    ((mode) == 1 ? ((is_negative ? (less) : (greater)) ? devmod_next(near, is_negative) : near)                             \
     : (mode) == 2 ? ((less) ? devmod_next(near, true) : near)                                                              \
                   : ((greater) ? devmod_next(near, false) : near))
// 1: toward zero, 2: up, 3: down
OV half devmod_to_half(float x, int mode)
{
    half near = (half)x;
    float back = (float)near;
    return DEVMOD_DIRECTED(near, back < x, back > x, x < 0, mode);
}
OV half devmod_to_half(double x, int mode)
{
    half near = (half)x;
    double back = (double)near;
    return DEVMOD_DIRECTED(near, back < x, back > x, x < 0, mode);
}
OV float devmod_to_float(double x, int mode)
{
    float near = (float)x;
    double back = (double)near;
    return DEVMOD_DIRECTED(near, back < x, back > x, x < 0, mode);
}
#define DEVMOD_FROM_INTEGER(source, target)                                                                                  \
    OV target devmod_##source##_to_##target(source x, int mode)                                                              \
    {                                                                                                                        \
        target near = (target)x;                                                                                             \
        /* The greatest numbers round to a power of two that the integer type does not have. */                              \
        bool above = near >= (target)0x1p63 && sizeof(source) == 8 ? (near >= (target)0x1p64 || ((source)-1 < 0)) : false;   \
        __int128 exact = x, back = above ? (__int128)(ulong)(near / 2) * 2 : (__int128)(source)near;                         \
        return DEVMOD_DIRECTED(near, back < exact, back > exact, exact < 0, mode);                                           \
    }
OV double devmod_next(double x, bool up) { return m_nextafter(x, up ? (double)INFINITY : -(double)INFINITY); }
DEVMOD_FROM_INTEGER(int, float) DEVMOD_FROM_INTEGER(uint, float) DEVMOD_FROM_INTEGER(long, float) DEVMOD_FROM_INTEGER(ulong, float)
DEVMOD_FROM_INTEGER(long, double) DEVMOD_FROM_INTEGER(ulong, double)
OV half devmod_short_to_half(short x, int mode) { return devmod_to_half((float)x, mode); }
OV half devmod_ushort_to_half(ushort x, int mode) { return devmod_to_half((float)x, mode); }
OV half devmod_int_to_half(int x, int mode) { return devmod_to_half((double)x, mode); }
OV half devmod_uint_to_half(uint x, int mode) { return devmod_to_half((double)x, mode); }
OV half devmod_long_to_half(long x, int mode) { return devmod_to_half((double)x, mode); }
OV half devmod_ulong_to_half(ulong x, int mode) { return devmod_to_half((double)x, mode); }
#endif
#endif

// -- threads

local ulong *devmod_values(void) __asm__("devmod_values");

DEVMOD_DEVICE uint devmod_linear(void) { return (devmod_local(2) * devmod_size(1) + devmod_local(1)) * devmod_size(0) + devmod_local(0); }
DEVMOD_DEVICE uint devmod_threads(void) { return devmod_size(0) * devmod_size(1) * devmod_size(2); }
// The lanes of this thread's sub-group.
DEVMOD_DEVICE uint devmod_lanes(void)
{
    uint first = devmod_linear() / DEVMOD_WAVE * DEVMOD_WAVE, rest = devmod_threads() - first;
    return rest < DEVMOD_WAVE ? rest : DEVMOD_WAVE;
}
