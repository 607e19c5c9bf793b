/* The functions of cuda.h that this library lacks: an error with the name. The definitions are
 * weak, so a file that defines one of them needs no change here. */
#include "driver.h"

#include <stdio.h>

/* Each takes and ignores what its callers pass; cuda.h is not included, for these are not its
 * prototypes. cuGetProcAddress knows them by their section. */
#define MISSING(name, newer)                                                                       \
    __attribute__((weak, section("unsupported"))) int name(void) {                                 \
        static bool told;                                                                          \
        ENTER(READY);                                                                              \
        return refuse(#name, newer, &told);                                                        \
    }

static int refuse(const char *name, const char *newer, bool *told) {
    explain("the simulated GPU does not have %s", name);
    if (!*told)
        fprintf(stderr, "devmod-simulators: the simulated GPU does not have %s%s%s\n", name,
                *newer ? "; programs of today call " : "", newer);
    *told = true;
    return CODE_NOT_SUPPORTED;
}

#include "unsupported.h" /* a build writes it, of cuda.h */

/* NVIDIA's library has no other answer to it, also before cuInit. */
int cuProfilerInitialize(void) {
    return CODE_NOT_SUPPORTED;
}
