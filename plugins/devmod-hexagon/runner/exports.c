/* The functions that a kernel may import: the helpers that clang calls for Hexagon, memory functions, and the math library. */
#include <math.h>
#include <string.h>

#include "runner.h"

/* The compiler's helpers have no header and calling conventions of their own. Only their addresses are taken. */
#define HELPERS(X)                                                                                                                        \
    X(__hexagon_divsi3) X(__hexagon_udivsi3) X(__hexagon_modsi3) X(__hexagon_umodsi3)                                                     \
    X(__hexagon_divdi3) X(__hexagon_udivdi3) X(__hexagon_moddi3) X(__hexagon_umoddi3)                                                     \
    X(__hexagon_udivmodsi4) X(__hexagon_udivmoddi4)                                                                                       \
    X(__hexagon_divsf3) X(__hexagon_sqrtf) X(__hexagon_sqrt)                                                                              \
    X(__hexagon_adddf3) X(__hexagon_subdf3) X(__hexagon_muldf3) X(__hexagon_divdf3) X(__hexagon_fmadf4)                                   \
    X(__hexagon_mindf3) X(__hexagon_maxdf3)                                                                                               \
    X(__hexagon_memcpy_likely_aligned_min32bytes_mult8bytes)                                                                              \
    X(__extendhfsf2) X(__truncsfhf2) X(__truncdfhf2)

#define FUNCTIONS(X)                                                                                                                      \
    X(memcpy) X(memmove) X(memset) X(memcmp)                                                                                              \
    X(acosf) X(acoshf) X(asinf) X(asinhf) X(atanf) X(atan2f) X(atanhf) X(cbrtf) X(ceilf) X(copysignf) X(cosf) X(coshf) X(erff) X(erfcf)    \
    X(expf) X(exp2f) X(expm1f) X(fabsf) X(fdimf) X(floorf) X(fmaf) X(fmaxf) X(fminf) X(fmodf) X(frexpf) X(hypotf) X(ldexpf) X(lgammaf)     \
    X(logf) X(log10f) X(log1pf) X(log2f) X(lrintf) X(lroundf) X(modff) X(nearbyintf) X(powf) X(remainderf) X(rintf) X(roundf) X(sinf)      \
    X(sinhf) X(sqrtf) X(tanf) X(tanhf) X(tgammaf) X(truncf)                                                                               \
    X(acos) X(acosh) X(asin) X(asinh) X(atan) X(atan2) X(atanh) X(cbrt) X(ceil) X(copysign) X(cos) X(cosh) X(erf) X(erfc)                  \
    X(exp) X(exp2) X(expm1) X(fabs) X(fdim) X(floor) X(fma) X(fmax) X(fmin) X(fmod) X(frexp) X(hypot) X(ldexp) X(lgamma)                   \
    X(log) X(log10) X(log1p) X(log2) X(lrint) X(lround) X(modf) X(nearbyint) X(pow) X(remainder) X(rint) X(round) X(sin)                   \
    X(sinh) X(sqrt) X(tan) X(tanh) X(tgamma) X(trunc)

#define DECLARE(name) extern void name(void) __attribute__((weak));
HELPERS(DECLARE)

typedef struct {
    const char *name;
    const void *address;
} export_entry;

#define ENTRY(name) {#name, (const void *)name},
static const export_entry exports[] = {HELPERS(ENTRY) FUNCTIONS(ENTRY)};

uint32_t export_address(const char *name)
{
    for (size_t number = 0; number < sizeof exports / sizeof *exports; number++)
        if (strcmp(exports[number].name, name) == 0)
            return (uint32_t)exports[number].address;
    return 0;
}
