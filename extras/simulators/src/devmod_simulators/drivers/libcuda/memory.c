/* Memory: device, pitched, managed, pinned and registered allocations. */
#include "cuda_standin.h"

FORWARD_IF(dptr, cuMemAlloc, CURRENT, memory_allocate(BLOCK_DEVICE, bytesize, 0, (uint64_t *)dptr))

API_IF((dptr && pPitch && WidthInBytes && Height), cuMemAllocPitch, CURRENT) {
    CHECK(ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16,
          CUDA_ERROR_INVALID_VALUE);
    *pPitch = (WidthInBytes + PITCH - 1) / PITCH * PITCH;
    return memory_allocate(BLOCK_DEVICE, *pPitch * Height, 0, (uint64_t *)dptr);
}

FORWARD_IF((dptr && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST)),
           cuMemAllocManaged, CURRENT,
           memory_allocate(BLOCK_MANAGED, bytesize, flags, (uint64_t *)dptr))

static CUresult release_memory(uint64_t address, bool host) {
    CHECK(address, CUDA_SUCCESS);
    TRY(refuse_in_capture());
    return memory_release(address, host);
}

FORWARD(cuMemFree, CURRENT, release_memory(dptr, false))

API_IF(pp, cuMemHostAlloc, CURRENT) {
    unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    CHECK(!(Flags & ~known), CUDA_ERROR_INVALID_VALUE);
    return memory_allocate(BLOCK_HOST, bytesize, Flags, (uint64_t *)pp);
}

ENTRY(cuMemAllocHost) {
    return cuMemHostAlloc(pp, bytesize, 0);
}

FORWARD(cuMemFreeHost, CURRENT, release_memory((uintptr_t)p, true))

FORWARD(cuMemHostRegister, CURRENT, memory_register(p, bytesize))

FORWARD(cuMemHostUnregister, CURRENT, memory_unregister(p))

FORWARD_IF((pdptr && !Flags && is_pinned(p, 1)), cuMemHostGetDevicePointer, CURRENT,
           memory_device_address((uintptr_t)p, (uint64_t *)pdptr))

API(cuMemHostGetFlags, CURRENT) {
    Block *block = arena_block((uintptr_t)p, 1);
    CHECK(pFlags && block && block->kind == BLOCK_HOST, CUDA_ERROR_INVALID_VALUE);
    *pFlags = block->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

API(cuMemGetAddressRange, CURRENT) {
    Block *block = arena_block(dptr, 1);
    CHECK(block && block->live, CUDA_ERROR_INVALID_VALUE);
    if (pbase)
        *pbase = block->start;
    if (psize)
        *psize = block->size;
    return CUDA_SUCCESS;
}

FORWARD(cuMemGetInfo, CURRENT, memory_info(free, total))
