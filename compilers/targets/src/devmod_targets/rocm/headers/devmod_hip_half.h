/* The functions that __half and __hip_bfloat16 have by the same names. The header that includes it defines DEVMOD_HALF and DEVMOD_HALF2. */
#define DEVMOD_HALVES(name, name2, expression)                                                                   \
    devmod_function DEVMOD_HALF name(DEVMOD_HALF x, DEVMOD_HALF y) { return expression; }                        \
    devmod_function DEVMOD_HALF2 name2(DEVMOD_HALF2 x, DEVMOD_HALF2 y) { return {name(x.x, y.x), name(x.y, y.y)}; }
#define DEVMOD_HALVES1(name, name2, expression)                                                                  \
    devmod_function DEVMOD_HALF name(DEVMOD_HALF x) { return (DEVMOD_HALF)(expression); }                        \
    devmod_function DEVMOD_HALF2 name2(DEVMOD_HALF2 x) { return {name(x.x), name(x.y)}; }
#define DEVMOD_COMPARED(name, symbol)                                                                            \
    devmod_function bool name(DEVMOD_HALF x, DEVMOD_HALF y) { return x symbol y; }                               \
    devmod_function DEVMOD_HALF2 name##2(DEVMOD_HALF2 x, DEVMOD_HALF2 y) { return {(DEVMOD_HALF)(x.x symbol y.x), (DEVMOD_HALF)(x.y symbol y.y)}; }
#define DEVMOD_OPERATOR(symbol)                                                                                  \
    devmod_both DEVMOD_HALF2 operator symbol(DEVMOD_HALF2 x, DEVMOD_HALF2 y) { return {(DEVMOD_HALF)(x.x symbol y.x), (DEVMOD_HALF)(x.y symbol y.y)}; } \
    devmod_both DEVMOD_HALF2 &operator symbol##=(DEVMOD_HALF2 &x, DEVMOD_HALF2 y) { return x = x symbol y; }
DEVMOD_OPERATOR(+)
DEVMOD_OPERATOR(-)
DEVMOD_OPERATOR(*)
DEVMOD_OPERATOR(/)
devmod_both DEVMOD_HALF2 operator-(DEVMOD_HALF2 x) { return {(DEVMOD_HALF)-x.x, (DEVMOD_HALF)-x.y}; }
devmod_both bool operator==(DEVMOD_HALF2 x, DEVMOD_HALF2 y) { return x.x == y.x && x.y == y.y; }
#define DEVMOD_PAIRS(name2, name) devmod_function DEVMOD_HALF2 name2(DEVMOD_HALF2 x, DEVMOD_HALF2 y) { return {name(x.x, y.x), name(x.y, y.y)}; }
DEVMOD_PAIRS(__hadd2, __hadd)
DEVMOD_PAIRS(__hsub2, __hsub)
DEVMOD_PAIRS(__hmul2, __hmul)
DEVMOD_PAIRS(__h2div, __hdiv)
DEVMOD_HALVES(__hmin, __hmin2, (DEVMOD_HALF)__builtin_fminf((float)x, (float)y))
DEVMOD_HALVES(__hmax, __hmax2, (DEVMOD_HALF)__builtin_fmaxf((float)x, (float)y))
devmod_function DEVMOD_HALF2 __hfma2(DEVMOD_HALF2 x, DEVMOD_HALF2 y, DEVMOD_HALF2 z) { return {__hfma(x.x, y.x, z.x), __hfma(x.y, y.y, z.y)}; }
DEVMOD_HALVES1(__hneg, __hneg2, -x)
DEVMOD_HALVES1(__habs, __habs2, __builtin_fabsf((float)x))
DEVMOD_HALVES1(hsqrt, h2sqrt, __builtin_sqrtf((float)x))
DEVMOD_HALVES1(hrsqrt, h2rsqrt, 1 / __builtin_sqrtf((float)x))
DEVMOD_HALVES1(hrcp, h2rcp, 1 / (float)x)
DEVMOD_HALVES1(hexp, h2exp, __builtin_expf((float)x))
DEVMOD_HALVES1(hexp2, h2exp2, __builtin_exp2f((float)x))
DEVMOD_HALVES1(hexp10, h2exp10, __builtin_exp10f((float)x))
DEVMOD_HALVES1(hlog, h2log, __builtin_logf((float)x))
DEVMOD_HALVES1(hlog2, h2log2, __builtin_log2f((float)x))
DEVMOD_HALVES1(hlog10, h2log10, __builtin_log10f((float)x))
DEVMOD_HALVES1(hsin, h2sin, sinf((float)x))
DEVMOD_HALVES1(hcos, h2cos, cosf((float)x))
DEVMOD_HALVES1(hfloor, h2floor, __builtin_floorf((float)x))
DEVMOD_HALVES1(hceil, h2ceil, __builtin_ceilf((float)x))
DEVMOD_HALVES1(htrunc, h2trunc, __builtin_truncf((float)x))
DEVMOD_HALVES1(hrint, h2rint, __builtin_rintf((float)x))
DEVMOD_COMPARED(__heq, ==)
DEVMOD_COMPARED(__hne, !=)
DEVMOD_COMPARED(__hlt, <)
DEVMOD_COMPARED(__hle, <=)
DEVMOD_COMPARED(__hgt, >)
DEVMOD_COMPARED(__hge, >=)
devmod_function bool __hisnan(DEVMOD_HALF x) { return isnan((float)x); }
devmod_function bool __hisinf(DEVMOD_HALF x) { return isinf((float)x); }
#undef DEVMOD_PAIRS
#undef DEVMOD_HALVES
#undef DEVMOD_HALVES1
#undef DEVMOD_COMPARED
#undef DEVMOD_OPERATOR
#undef DEVMOD_HALF
#undef DEVMOD_HALF2
