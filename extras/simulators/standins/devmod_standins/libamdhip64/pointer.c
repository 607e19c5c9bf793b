/* What a pointer is. The numbers of the types of memory have changed with HIP 6, and the answer for
 * an unknown pointer too. */
#include "hip_standin.h"

/* Return the number of the host's or a device's memory. */
static int type_number(bool host) {
    int old = host ? 0 : 1;
    return hip_since(6) ? old + 1 : old;
}

HIP(hipPointerGetAttributes, CURRENT) {
    enum { INVALID_DEVICE = -2 };
    Block *block = arena_block((uintptr_t)ptr, 1);
    CHECK(attributes && ptr, CODE_INVALID_VALUE);
    *attributes = (hipPointerAttribute_t){.device = INVALID_DEVICE};
    if (!block)
        return hip_since(6) ? CODE_SUCCESS : CODE_INVALID_VALUE;
    bool host = block->kind == BLOCK_HOST;
    *attributes = (hipPointerAttribute_t){
        .type = type_number(host),
        .device = block->device,
        .devicePointer = (void *)(uintptr_t)ptr,
        .hostPointer = host ? (void *)(uintptr_t)ptr : NULL,
        .allocationFlags = block->flags,
    };
    return CODE_SUCCESS;
}
