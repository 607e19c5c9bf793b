/* The functions that a kernel may import: the helpers that clang calls for Hexagon, functions of <math.h>, <string.h> and <stdlib.h>, and
 * some of C++'s runtime library. */
#define _GNU_SOURCE /* sincos */
#include <math.h>
#include <stdlib.h>
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
    X(memcpy) X(memmove) X(memset) X(memcmp) X(memchr) X(strlen) X(strnlen) X(strcmp) X(strncmp) X(strcpy) X(strncpy) X(strcat)            \
    X(strncat) X(strchr) X(strrchr) X(strstr) X(strspn) X(strcspn) X(strpbrk)                                                             \
    X(abs) X(labs) X(llabs) X(qsort) X(bsearch) X(malloc) X(calloc) X(realloc) X(free) X(aligned_alloc) X(posix_memalign)                 \
    X(__fpclassifyf) X(__fpclassify) X(__signbitf) X(__signbit)                                                                           \
    X(ilogbf) X(llrintf) X(llroundf) X(logbf) X(nanf) X(nextafterf) X(remquof) X(scalbnf) X(sincosf)                                      \
    X(ilogb) X(llrint) X(llround) X(logb) X(nan) X(nextafter) X(remquo) X(scalbn) X(sincos)                                               \
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
static const export_entry exports[] = {
    HELPERS(ENTRY) FUNCTIONS(ENTRY)
    {"__assert_fail", (const void *)fail_assertion},
    {"abort", (const void *)fail_abort},
    /* operator new, new[], delete, delete[], and those of delete with a size */
    {"_Znwj", (const void *)cpp_new},
    {"_Znaj", (const void *)cpp_new},
    {"_ZdlPv", (const void *)free},
    {"_ZdaPv", (const void *)free},
    {"_ZdlPvj", (const void *)free},
    {"_ZdaPvj", (const void *)free},
    {"_ZNSt3__122__libcpp_verbose_abortEPKcz", (const void *)cpp_fail},
    {"__cxa_pure_virtual", (const void *)fail_abort},
    {"__cxa_atexit", (const void *)cpp_at_exit},
};

uint32_t export_address(const char *name)
{
    for (size_t number = 0; number < sizeof exports / sizeof *exports; number++)
        if (strcmp(exports[number].name, name) == 0)
            return (uint32_t)exports[number].address;
    return 0;
}
