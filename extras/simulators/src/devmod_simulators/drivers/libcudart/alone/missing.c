/* The functions of NVIDIA's library that this one lacks: an error with the name. The definitions
 * are weak, so a file that defines one of them needs no change here. */
#include <stdbool.h>

#include "version.h"

/* This file includes none of NVIDIA's headers, for these are not its prototypes: each function
 * ignores what its callers pass. */
int runtime_missing(const char *name, bool *told);

#define MISSING(name)                                                                              \
    __attribute__((weak)) int name(void) {                                                         \
        static bool told;                                                                          \
        return runtime_missing(#name, &told);                                                      \
    }

#include "missing.h" /* a build writes it: the functions of NVIDIA's headers */

#if RUNTIME_MAJOR >= 13 /* no header has them */
MISSING(__cudaGetProcAddress)
MISSING(cudaSubgridCreate)
MISSING(cudaSubgridWorkerGridCreate)
MISSING(cudaSubgridWorksetCreate)
#endif
