/* Functions that pycuda links and the stand-in does not have: texture references, arrays of two
 * dimensions, IPC, the linker. */

#include "driver.h"

/* Each takes and ignores what its callers pass; cuda.h is not included, for these are not its
 * prototypes. */
#define UNSUPPORTED(name)                                                                          \
    int name(void) {                                                                               \
        ENTER(READY);                                                                              \
        return CODE_NOT_SUPPORTED;                                                                 \
    }

#include "unsupported.h" /* a build writes it, of unsupported.txt */

/* NVIDIA's library has no other answer to it, also before cuInit. */
int cuProfilerInitialize(void) {
    return CODE_NOT_SUPPORTED;
}
