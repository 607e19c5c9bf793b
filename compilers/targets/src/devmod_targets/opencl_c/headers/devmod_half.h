// The functions of half, which libclc does not have: by those of float, whose results are rounded. Behind a definition here, a call with
// another type is one of half too, so this file and those that need it come last.

#define DEVMOD_WIDTHS(F) F() F(2) F(3) F(4) F(8) F(16)
DEVMOD_INLINE float devmod_wide(half x) { return x; }
DEVMOD_INLINE half devmod_narrow(float x) { return (half)x; }
DEVMOD_INLINE short devmod_answers(int x) { return x; }
#define DEVMOD_WIDE(n)                                                                                         \
    DEVMOD_INLINE float##n devmod_wide(half##n x) { return __builtin_convertvector(x, float##n); }             \
    DEVMOD_INLINE half##n devmod_narrow(float##n x) { return __builtin_convertvector(x, half##n); }            \
    DEVMOD_INLINE short##n devmod_answers(int##n x) { return __builtin_convertvector(x, short##n); }
DEVMOD_WIDE(2) DEVMOD_WIDE(3) DEVMOD_WIDE(4) DEVMOD_WIDE(8) DEVMOD_WIDE(16)

// -- functions of one, two and three numbers

// A definition hides what clang declares of the same name, so functions with names of devmod's own call those of float first.
#define DEVMOD_EACH(F, name) F(name, ) F(name, 2) F(name, 3) F(name, 4) F(name, 8) F(name, 16)
#define DEVMOD_FLOAT1(name, n) DEVMOD_INLINE float##n devmod_##name(float##n x) { return name(x); }
#define DEVMOD_OF1(name, n) half##n DEVMOD_OV name(half##n x) { return devmod_narrow(devmod_##name(devmod_wide(x))); }
#define DEVMOD_HALF1(name) DEVMOD_EACH(DEVMOD_FLOAT1, name) DEVMOD_EACH(DEVMOD_OF1, name)
DEVMOD_HALF1(acos) DEVMOD_HALF1(acosh) DEVMOD_HALF1(acospi) DEVMOD_HALF1(asin) DEVMOD_HALF1(asinh) DEVMOD_HALF1(asinpi)
DEVMOD_HALF1(atan) DEVMOD_HALF1(atanh) DEVMOD_HALF1(atanpi) DEVMOD_HALF1(cbrt) DEVMOD_HALF1(ceil) DEVMOD_HALF1(cos)
DEVMOD_HALF1(cosh) DEVMOD_HALF1(cospi) DEVMOD_HALF1(degrees) DEVMOD_HALF1(erf) DEVMOD_HALF1(erfc) DEVMOD_HALF1(exp)
DEVMOD_HALF1(exp10) DEVMOD_HALF1(exp2) DEVMOD_HALF1(expm1) DEVMOD_HALF1(fabs) DEVMOD_HALF1(floor) DEVMOD_HALF1(lgamma)
DEVMOD_HALF1(log) DEVMOD_HALF1(log10) DEVMOD_HALF1(log1p) DEVMOD_HALF1(log2) DEVMOD_HALF1(logb) DEVMOD_HALF1(radians)
DEVMOD_HALF1(rint) DEVMOD_HALF1(round) DEVMOD_HALF1(rsqrt) DEVMOD_HALF1(sign) DEVMOD_HALF1(sin) DEVMOD_HALF1(sinh)
DEVMOD_HALF1(sinpi) DEVMOD_HALF1(sqrt) DEVMOD_HALF1(tan) DEVMOD_HALF1(tanh) DEVMOD_HALF1(tanpi) DEVMOD_HALF1(tgamma)
DEVMOD_HALF1(trunc)

#define DEVMOD_FLOAT2(name, n) DEVMOD_INLINE float##n devmod_##name(float##n x, float##n y) { return name(x, y); }
#define DEVMOD_OF2(name, n) \
    half##n DEVMOD_OV name(half##n x, half##n y) { return devmod_narrow(devmod_##name(devmod_wide(x), devmod_wide(y))); }
#define DEVMOD_HALF2(name) DEVMOD_EACH(DEVMOD_FLOAT2, name) DEVMOD_EACH(DEVMOD_OF2, name)
// The second number may be one for all lanes.
#define DEVMOD_SCALAR2(name, n) half##n DEVMOD_OV name(half##n x, half y) { return name(x, (half##n)y); }
#define DEVMOD_HALF2_SCALAR(name)                                                                              \
    DEVMOD_HALF2(name)                                                                                         \
    DEVMOD_SCALAR2(name, 2) DEVMOD_SCALAR2(name, 3) DEVMOD_SCALAR2(name, 4) DEVMOD_SCALAR2(name, 8) DEVMOD_SCALAR2(name, 16)
DEVMOD_HALF2(atan2) DEVMOD_HALF2(atan2pi) DEVMOD_HALF2(copysign) DEVMOD_HALF2(fdim) DEVMOD_HALF2(fmod) DEVMOD_HALF2(hypot)
DEVMOD_HALF2(maxmag) DEVMOD_HALF2(minmag) DEVMOD_HALF2(pow) DEVMOD_HALF2(powr) DEVMOD_HALF2(remainder)
DEVMOD_HALF2_SCALAR(fmax) DEVMOD_HALF2_SCALAR(fmin) DEVMOD_HALF2_SCALAR(max) DEVMOD_HALF2_SCALAR(min)
DEVMOD_HALF2(step)
#define DEVMOD_STEP(n) half##n DEVMOD_OV step(half x, half##n y) { return step((half##n)x, y); }
DEVMOD_STEP(2) DEVMOD_STEP(3) DEVMOD_STEP(4) DEVMOD_STEP(8) DEVMOD_STEP(16)

#define DEVMOD_FLOAT3(n) \
    DEVMOD_INLINE float##n devmod_smoothstep(float##n x, float##n y, float##n z) { return smoothstep(x, y, z); }
DEVMOD_WIDTHS(DEVMOD_FLOAT3)
#define DEVMOD_OF3(n)                                                                                          \
    half##n DEVMOD_OV fma(half##n x, half##n y, half##n z) { return __builtin_elementwise_fma(x, y, z); }      \
    half##n DEVMOD_OV mad(half##n x, half##n y, half##n z) { return __builtin_elementwise_fma(x, y, z); }      \
    half##n DEVMOD_OV mix(half##n x, half##n y, half##n a) { return x + (y - x) * a; }                         \
    half##n DEVMOD_OV clamp(half##n x, half##n low, half##n high) { return fmin(fmax(x, low), high); }         \
    half##n DEVMOD_OV smoothstep(half##n x, half##n y, half##n z)                                              \
    {                                                                                                          \
        return devmod_narrow(devmod_smoothstep(devmod_wide(x), devmod_wide(y), devmod_wide(z)));                      \
    }
DEVMOD_WIDTHS(DEVMOD_OF3)
#define DEVMOD_SCALARS3(n)                                                                                     \
    half##n DEVMOD_OV mix(half##n x, half##n y, half a) { return x + (y - x) * a; }                            \
    half##n DEVMOD_OV clamp(half##n x, half low, half high) { return fmin(fmax(x, low), high); }               \
    half##n DEVMOD_OV smoothstep(half x, half y, half##n z) { return smoothstep((half##n)x, (half##n)y, z); }
DEVMOD_SCALARS3(2) DEVMOD_SCALARS3(3) DEVMOD_SCALARS3(4) DEVMOD_SCALARS3(8) DEVMOD_SCALARS3(16)

// -- functions with an integer

#define DEVMOD_FLOAT_INTEGER(n)                                                                                \
    DEVMOD_INLINE float##n devmod_ldexp(float##n x, int##n k) { return ldexp(x, k); }                          \
    DEVMOD_INLINE float##n devmod_pown(float##n x, int##n k) { return pown(x, k); }                            \
    DEVMOD_INLINE float##n devmod_rootn(float##n x, int##n k) { return rootn(x, k); }                          \
    DEVMOD_INLINE int##n devmod_ilogb(float##n x) { return ilogb(x); }                                         \
    DEVMOD_INLINE float##n devmod_fract(float##n x, private float##n *y) { return fract(x, y); }               \
    DEVMOD_INLINE float##n devmod_modf(float##n x, private float##n *y) { return modf(x, y); }                 \
    DEVMOD_INLINE float##n devmod_sincos(float##n x, private float##n *y) { return sincos(x, y); }             \
    DEVMOD_INLINE float##n devmod_frexp(float##n x, private int##n *y) { return frexp(x, y); }                 \
    DEVMOD_INLINE float##n devmod_lgamma_r(float##n x, private int##n *y) { return lgamma_r(x, y); }           \
    DEVMOD_INLINE float##n devmod_remquo(float##n x, float##n y, private int##n *z) { return remquo(x, y, z); }
DEVMOD_WIDTHS(DEVMOD_FLOAT_INTEGER)
#define DEVMOD_WITH_INTEGER(n)                                                                                 \
    half##n DEVMOD_OV ldexp(half##n x, int##n k) { return devmod_narrow(devmod_ldexp(devmod_wide(x), k)); }           \
    half##n DEVMOD_OV pown(half##n x, int##n k) { return devmod_narrow(devmod_pown(devmod_wide(x), k)); }             \
    half##n DEVMOD_OV rootn(half##n x, int##n k) { return devmod_narrow(devmod_rootn(devmod_wide(x), k)); }           \
    int##n DEVMOD_OV ilogb(half##n x) { return devmod_ilogb(devmod_wide(x)); }                                        \
    half##n DEVMOD_OV nan(ushort##n code) { return as_half##n((ushort##n)(code | (ushort)0x7e00)); }           \
    half##n DEVMOD_OV nextafter(half##n x, half##n y)                                                          \
    {                                                                                                          \
        short##n bits = as_short##n(x), sign = (short)0x8000, zero = (bits & (short)0x7fff) == (short)0 ? (short##n)-1 : (short##n)0; \
        short##n up = devmod_less(x, y), away = up ^ (bits >> (short)15);                                      \
        short##n next = bits + (away & (short)2) - (short)1;                                                   \
        short##n first = (short##n)1 | (~up & sign);                                                           \
        next = (zero & first) | (~zero & next);                                                                \
        half##n moved = as_half##n((short##n)next);                                                            \
        return devmod_pick(x + y, devmod_pick(moved, y, devmod_equal(x, y)), devmod_ordered(x, y));            \
    }
// Masks of all bits, for vectors and for numbers.
#define DEVMOD_MASKS(n)                                                                                        \
    DEVMOD_INLINE half##n devmod_pick(half##n x, half##n y, short##n mask)                                     \
    {                                                                                                          \
        return as_half##n((short##n)((as_short##n(x) & ~mask) | (as_short##n(y) & mask)));                     \
    }
DEVMOD_WIDTHS(DEVMOD_MASKS)
DEVMOD_INLINE short devmod_less(half x, half y) { return x < y ? -1 : 0; }
DEVMOD_INLINE short devmod_equal(half x, half y) { return x == y ? -1 : 0; }
DEVMOD_INLINE short devmod_ordered(half x, half y) { return x == x && y == y ? -1 : 0; }
#define DEVMOD_COMPARED(n)                                                                                     \
    DEVMOD_INLINE short##n devmod_less(half##n x, half##n y) { return x < y; }                                 \
    DEVMOD_INLINE short##n devmod_equal(half##n x, half##n y) { return x == y; }                               \
    DEVMOD_INLINE short##n devmod_ordered(half##n x, half##n y) { return (x == x) & (y == y); }
DEVMOD_COMPARED(2) DEVMOD_COMPARED(3) DEVMOD_COMPARED(4) DEVMOD_COMPARED(8) DEVMOD_COMPARED(16)
DEVMOD_WIDTHS(DEVMOD_WITH_INTEGER)
#define DEVMOD_ONE_INTEGER(n) half##n DEVMOD_OV ldexp(half##n x, int k) { return ldexp(x, (int##n)k); }
DEVMOD_ONE_INTEGER(2) DEVMOD_ONE_INTEGER(3) DEVMOD_ONE_INTEGER(4) DEVMOD_ONE_INTEGER(8) DEVMOD_ONE_INTEGER(16)

// -- functions with a second result, in each address space

#define DEVMOD_TO_MEMORY(n, space)                                                                             \
    half##n DEVMOD_OV fract(half##n x, space half##n *whole)                                                   \
    {                                                                                                          \
        float##n rest, part = devmod_fract(devmod_wide(x), &rest);                                                    \
        *whole = devmod_narrow(rest);                                                                          \
        half##n result = devmod_narrow(part);                                                                  \
        return devmod_pick(result, fmin(result, as_half##n((ushort##n)0x3bff)), devmod_ordered(result, result)); \
    }                                                                                                          \
    half##n DEVMOD_OV modf(half##n x, space half##n *whole)                                                    \
    {                                                                                                          \
        float##n rest, part = devmod_modf(devmod_wide(x), &rest);                                                     \
        *whole = devmod_narrow(rest);                                                                          \
        return devmod_narrow(part);                                                                            \
    }                                                                                                          \
    half##n DEVMOD_OV sincos(half##n x, space half##n *cosine)                                                 \
    {                                                                                                          \
        float##n rest, part = devmod_sincos(devmod_wide(x), &rest);                                                   \
        *cosine = devmod_narrow(rest);                                                                         \
        return devmod_narrow(part);                                                                            \
    }                                                                                                          \
    half##n DEVMOD_OV frexp(half##n x, space int##n *exponent)                                                 \
    {                                                                                                          \
        int##n rest;                                                                                           \
        float##n part = devmod_frexp(devmod_wide(x), &rest);                                                          \
        *exponent = rest;                                                                                      \
        return devmod_narrow(part);                                                                            \
    }                                                                                                          \
    half##n DEVMOD_OV lgamma_r(half##n x, space int##n *sign)                                                  \
    {                                                                                                          \
        int##n rest;                                                                                           \
        float##n part = devmod_lgamma_r(devmod_wide(x), &rest);                                                       \
        *sign = rest;                                                                                          \
        return devmod_narrow(part);                                                                            \
    }                                                                                                          \
    half##n DEVMOD_OV remquo(half##n x, half##n y, space int##n *quotient)                                     \
    {                                                                                                          \
        int##n rest;                                                                                           \
        float##n part = devmod_remquo(devmod_wide(x), devmod_wide(y), &rest);                                         \
        *quotient = rest;                                                                                      \
        return devmod_narrow(part);                                                                            \
    }
#define DEVMOD_TO_EACH(n) DEVMOD_TO_MEMORY(n, global) DEVMOD_TO_MEMORY(n, local) DEVMOD_TO_MEMORY(n, )
DEVMOD_WIDTHS(DEVMOD_TO_EACH)

// -- relations. Those of vectors are masks of short.

#define DEVMOD_TESTED1(name, n) DEVMOD_INLINE int##n devmod_##name(float##n x) { return name(x); }
#define DEVMOD_TEST1(name, n) short##n DEVMOD_OV name(half##n x) { return devmod_answers(devmod_##name(devmod_wide(x))); }
#define DEVMOD_VECTORS(F, name) F(name, 2) F(name, 3) F(name, 4) F(name, 8) F(name, 16)
#define DEVMOD_RELATION1(name)                                                                                 \
    DEVMOD_EACH(DEVMOD_TESTED1, name)                                                                          \
    int DEVMOD_OV name(half x) { return devmod_##name(devmod_wide(x)); }                                       \
    DEVMOD_VECTORS(DEVMOD_TEST1, name)
DEVMOD_RELATION1(isfinite) DEVMOD_RELATION1(isinf) DEVMOD_RELATION1(isnan) DEVMOD_RELATION1(signbit)
// A subnormal number of half is a normal one of float.
int DEVMOD_OV isnormal(half x) { return isfinite(x) && fabs(x) >= (half)0x1p-14f; }
#define DEVMOD_NORMAL(n) \
    short##n DEVMOD_OV isnormal(half##n x) { return isfinite(x) & (fabs(x) >= (half)0x1p-14f); }
DEVMOD_NORMAL(2) DEVMOD_NORMAL(3) DEVMOD_NORMAL(4) DEVMOD_NORMAL(8) DEVMOD_NORMAL(16)
#define DEVMOD_TESTED2(name, n) DEVMOD_INLINE int##n devmod_##name(float##n x, float##n y) { return name(x, y); }
#define DEVMOD_TEST2(name, n) \
    short##n DEVMOD_OV name(half##n x, half##n y) { return devmod_answers(devmod_##name(devmod_wide(x), devmod_wide(y))); }
#define DEVMOD_RELATION2(name)                                                                                 \
    DEVMOD_EACH(DEVMOD_TESTED2, name)                                                                          \
    int DEVMOD_OV name(half x, half y) { return devmod_##name(devmod_wide(x), devmod_wide(y)); }               \
    DEVMOD_VECTORS(DEVMOD_TEST2, name)
DEVMOD_RELATION2(isequal) DEVMOD_RELATION2(isnotequal) DEVMOD_RELATION2(isgreater) DEVMOD_RELATION2(isgreaterequal)
DEVMOD_RELATION2(isless) DEVMOD_RELATION2(islessequal) DEVMOD_RELATION2(islessgreater) DEVMOD_RELATION2(isordered)
DEVMOD_RELATION2(isunordered)
#define DEVMOD_CHOICE(n)                                                                                       \
    half##n DEVMOD_OV bitselect(half##n x, half##n y, half##n bits) { return devmod_pick(x, y, as_short##n(bits)); } \
    half##n DEVMOD_OV select(half##n x, half##n y, short##n c) { return devmod_pick(x, y, c >> (short)15); }   \
    half##n DEVMOD_OV select(half##n x, half##n y, ushort##n c) { return devmod_pick(x, y, as_short##n(c) >> (short)15); }
DEVMOD_CHOICE(2) DEVMOD_CHOICE(3) DEVMOD_CHOICE(4) DEVMOD_CHOICE(8) DEVMOD_CHOICE(16)
half DEVMOD_OV bitselect(half x, half y, half bits) { return devmod_pick(x, y, as_short(bits)); }
half DEVMOD_OV select(half x, half y, short c) { return c ? y : x; }
half DEVMOD_OV select(half x, half y, ushort c) { return c ? y : x; }

// -- geometry

#define DEVMOD_FLOAT_GEOMETRY(n)                                                                               \
    DEVMOD_INLINE float devmod_dot(float##n x, float##n y) { return dot(x, y); }                               \
    DEVMOD_INLINE float devmod_length(float##n x) { return length(x); }                                        \
    DEVMOD_INLINE float devmod_distance(float##n x, float##n y) { return distance(x, y); }                     \
    DEVMOD_INLINE float##n devmod_normalize(float##n x) { return normalize(x); }
DEVMOD_FLOAT_GEOMETRY() DEVMOD_FLOAT_GEOMETRY(2) DEVMOD_FLOAT_GEOMETRY(3) DEVMOD_FLOAT_GEOMETRY(4)
#define DEVMOD_GEOMETRY(n)                                                                                     \
    half DEVMOD_OV dot(half##n x, half##n y) { return devmod_narrow(devmod_dot(devmod_wide(x), devmod_wide(y))); }    \
    half DEVMOD_OV length(half##n x) { return devmod_narrow(devmod_length(devmod_wide(x))); }                         \
    half DEVMOD_OV distance(half##n x, half##n y) { return devmod_narrow(devmod_distance(devmod_wide(x), devmod_wide(y))); } \
    half##n DEVMOD_OV normalize(half##n x) { return devmod_narrow(devmod_normalize(devmod_wide(x))); }                \
    half DEVMOD_OV fast_length(half##n x) { return length(x); }                                                \
    half DEVMOD_OV fast_distance(half##n x, half##n y) { return distance(x, y); }                              \
    half##n DEVMOD_OV fast_normalize(half##n x) { return normalize(x); }
DEVMOD_GEOMETRY() DEVMOD_GEOMETRY(2) DEVMOD_GEOMETRY(3) DEVMOD_GEOMETRY(4)
DEVMOD_INLINE float3 devmod_cross(float3 x, float3 y) { return cross(x, y); }
DEVMOD_INLINE float4 devmod_cross(float4 x, float4 y) { return cross(x, y); }
half3 DEVMOD_OV cross(half3 x, half3 y) { return devmod_narrow(devmod_cross(devmod_wide(x), devmod_wide(y))); }
half4 DEVMOD_OV cross(half4 x, half4 y) { return devmod_narrow(devmod_cross(devmod_wide(x), devmod_wide(y))); }

// -- loads, stores and shuffles

#define DEVMOD_LOADED(n, space)                                                                                \
    half##n DEVMOD_OV vload##n(size_t at, const space half *p)                                                 \
    {                                                                                                          \
        half##n result;                                                                                        \
        for (int lane = 0; lane < n; lane++)                                                                   \
            result[lane] = p[n * at + lane];                                                                   \
        return result;                                                                                         \
    }
#define DEVMOD_STORED_HALF(n, space)                                                                           \
    void DEVMOD_OV vstore##n(half##n x, size_t at, space half *p)                                              \
    {                                                                                                          \
        for (int lane = 0; lane < n; lane++)                                                                   \
            p[n * at + lane] = x[lane];                                                                        \
    }
#define DEVMOD_MOVED(n)                                                                                        \
    DEVMOD_LOADED(n, global) DEVMOD_LOADED(n, local) DEVMOD_LOADED(n, constant) DEVMOD_LOADED(n, ) \
    DEVMOD_STORED_HALF(n, global) DEVMOD_STORED_HALF(n, local) DEVMOD_STORED_HALF(n, )
DEVMOD_MOVED(2) DEVMOD_MOVED(3) DEVMOD_MOVED(4) DEVMOD_MOVED(8) DEVMOD_MOVED(16)
#define DEVMOD_SHUFFLED(n, m)                                                                                  \
    half##n DEVMOD_OV shuffle(half##m x, ushort##n mask)                                                       \
    {                                                                                                          \
        half##n result;                                                                                        \
        for (int lane = 0; lane < n; lane++)                                                                   \
            result[lane] = x[mask[lane] % m];                                                                  \
        return result;                                                                                         \
    }                                                                                                          \
    half##n DEVMOD_OV shuffle2(half##m x, half##m y, ushort##n mask)                                           \
    {                                                                                                          \
        half##n result;                                                                                        \
        for (int lane = 0; lane < n; lane++)                                                                   \
            result[lane] = mask[lane] / m % 2 ? y[mask[lane] % m] : x[mask[lane] % m];                         \
        return result;                                                                                         \
    }
#define DEVMOD_SHUFFLED_TO(n) DEVMOD_SHUFFLED(n, 2) DEVMOD_SHUFFLED(n, 4) DEVMOD_SHUFFLED(n, 8) DEVMOD_SHUFFLED(n, 16)
DEVMOD_SHUFFLED_TO(2) DEVMOD_SHUFFLED_TO(4) DEVMOD_SHUFFLED_TO(8) DEVMOD_SHUFFLED_TO(16)

// -- copies of a work-group. The stride is that of the global memory.

#define DEVMOD_COPY(name, n, to_space, from_space, to_stride, from_stride, ...)                                \
    event_t DEVMOD_OV name(to_space half##n *to, const from_space half##n *from, size_t count, __VA_ARGS__ event_t event) \
    {                                                                                                          \
        for (size_t each = get_local_linear_id(); each < count; each += devmod_threads())                      \
            to[each * to_stride] = from[each * from_stride];                                                   \
        return event;                                                                                          \
    }
#define DEVMOD_COPIES(n)                                                                                       \
    DEVMOD_COPY(async_work_group_copy, n, local, global, 1, 1, )                                               \
    DEVMOD_COPY(async_work_group_copy, n, global, local, 1, 1, )                                               \
    DEVMOD_COPY(async_work_group_strided_copy, n, local, global, 1, stride, size_t stride, )                   \
    DEVMOD_COPY(async_work_group_strided_copy, n, global, local, stride, 1, size_t stride, )                   \
    void DEVMOD_OV prefetch(const global half##n *p, size_t count) {}
DEVMOD_WIDTHS(DEVMOD_COPIES)

// -- conversions to half with each rounding. A double, and an integer as a double, is first one of float, rounded to odd, so that it is
// rounded once.

DEVMOD_INLINE float devmod_odd(double x)
{
    float near = (float)x;
    if ((double)near == x || x != x || as_uint(near) & 1)
        return near;
    // Toward the exact value, whose last bit is then 1. An infinite number becomes the largest one.
    return as_float(as_uint(near) + (__builtin_fabs((double)near) < __builtin_fabs(x) ? 1u : -1u));
}
// A number over 2^16 is infinite in half, or the largest one.
DEVMOD_INLINE float devmod_small(long x) { return (int)(x > 0x20000 ? 0x20000 : x < -0x20000 ? -0x20000 : x); }
DEVMOD_INLINE float devmod_small(ulong x) { return (int)(x > 0x20000 ? 0x20000 : x); }
DEVMOD_INLINE half devmod_from_float(float x, int mode)
{
    half near = (half)x;
    float back = near;
    // Toward zero (1), up (2) and down (3).
    bool less = back < x, more = back > x;
    bool down = mode == 3 || (mode == 1 && x > 0), up = mode == 2 || (mode == 1 && x < 0);
    if ((more && down) || (less && up)) {
        short bits = as_short(near);
        if ((bits & 0x7fff) == 0)
            return as_half((short)(up ? 1 : 0x8001));
        return as_half((short)(bits + ((bits > 0) == up ? 1 : -1)));
    }
    return near;
}
#define DEVMOD_FROM(type, cast)                                                                                \
    DEVMOD_INLINE half devmod_to_half(type x, int mode) { return devmod_from_float(cast(x), mode); }
DEVMOD_FROM(char, (float))
DEVMOD_FROM(uchar, (float))
DEVMOD_FROM(short, (float))
DEVMOD_FROM(ushort, (float))
DEVMOD_FROM(half, (float))
DEVMOD_FROM(float, )
DEVMOD_FROM(double, devmod_odd)
DEVMOD_FROM(int, devmod_odd)
DEVMOD_FROM(uint, devmod_odd)
DEVMOD_FROM(long, devmod_small)
DEVMOD_FROM(ulong, devmod_small)
#define DEVMOD_MODES(F, type) F(type, , 0) F(type, _rte, 0) F(type, _rtz, 1) F(type, _rtp, 2) F(type, _rtn, 3)
