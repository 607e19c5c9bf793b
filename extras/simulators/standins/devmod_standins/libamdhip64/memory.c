/* Memory: device, pitched and pinned allocations. */
#include "hip_standin.h"

/* Zero bytes are a null pointer and no error, unlike in CUDA. */
static int allocate(BlockKind kind, void **ptr, size_t size, unsigned flags) {
    uint64_t address = 0;
    CHECK(ptr, CODE_INVALID_VALUE);
    if (size)
        TRY(memory_allocate(kind, size, flags, &address));
    *ptr = (void *)(uintptr_t)address;
    return CODE_SUCCESS;
}

HIP_FORWARD(hipMalloc, CURRENT, allocate(BLOCK_DEVICE, ptr, size, 0))

HIP(hipMallocPitch, CURRENT) {
    CHECK(pitch, CODE_INVALID_VALUE);
    size_t row = (width + PITCH - 1) / PITCH * PITCH;
    TRY(allocate(BLOCK_DEVICE, ptr, row * height, 0));
    *pitch = row;
    return CODE_SUCCESS;
}

HIP(hipFree, CURRENT) {
    CHECK(ptr, CODE_SUCCESS);
    TRY(refuse_in_capture());
    return memory_release((uintptr_t)ptr, false);
}

HIP(hipHostMalloc, CURRENT) {
    unsigned known =
        hipHostMallocPortable | hipHostMallocMapped | hipHostMallocWriteCombined | 0xe0000000u;
    CHECK(!(flags & ~known), CODE_INVALID_VALUE);
    return allocate(BLOCK_HOST, ptr, size, flags);
}

HIP(hipHostFree, CURRENT) {
    CHECK(ptr, CODE_SUCCESS);
    return memory_release((uintptr_t)ptr, true);
}

HIP(hipMemGetAddressRange, CURRENT) {
    Block *block = arena_block((uintptr_t)dptr, 1);
    CHECK(block && block->live && !block->internal, CODE_NOT_FOUND);
    if (pbase)
        *pbase = (void *)(uintptr_t)block->start;
    if (psize)
        *psize = block->size;
    return CODE_SUCCESS;
}

HIP_FORWARD(hipMemGetInfo, CURRENT, memory_info(free, total))

/* ---- in the order of a stream */

HIP(hipMallocAsync, CURRENT) {
    uint64_t address = 0;
    CHECK(dev_ptr, CODE_INVALID_VALUE);
    if (size)
        TRY(pool_allocate(NULL, &address, size, stream));
    *dev_ptr = (void *)(uintptr_t)address;
    return CODE_SUCCESS;
}

HIP_FORWARD(hipFreeAsync, CURRENT, pool_free((uintptr_t)dev_ptr, stream))
