/* Memory: device, pitched, managed, pinned and registered allocations. */
#include "cuda_standin.h"

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *dptr, size_t bytesize) {
    ENTER(CURRENT);
    CHECK(dptr, CUDA_ERROR_INVALID_VALUE);
    uint64_t address;
    TRY(memory_allocate(BLOCK_DEVICE, bytesize, 0, &address));
    *dptr = address;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
                                 size_t Height, unsigned int ElementSizeBytes) {
    ENTER(CURRENT);
    CHECK(dptr && pPitch && WidthInBytes && Height, CUDA_ERROR_INVALID_VALUE);
    CHECK(ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16,
          CUDA_ERROR_INVALID_VALUE);
    uint64_t address;
    size_t pitch = (WidthInBytes + PITCH - 1) / PITCH * PITCH;
    TRY(memory_allocate(BLOCK_DEVICE, pitch * Height, 0, &address));
    *dptr = address;
    *pPitch = pitch;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
    ENTER(CURRENT);
    CHECK(dptr && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST),
          CUDA_ERROR_INVALID_VALUE);
    uint64_t address;
    TRY(memory_allocate(BLOCK_MANAGED, bytesize, flags, &address));
    *dptr = address;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFree(CUdeviceptr dptr) {
    ENTER(CURRENT);
    CHECK(dptr, CUDA_SUCCESS);
    TRY(refuse_in_capture());
    return memory_release(dptr, false);
}

CUresult CUDAAPI cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags) {
    ENTER(CURRENT);
    unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    CHECK(pp && !(Flags & ~known), CUDA_ERROR_INVALID_VALUE);
    uint64_t address;
    TRY(memory_allocate(BLOCK_HOST, bytesize, Flags, &address));
    *pp = (void *)(uintptr_t)address;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocHost(void **pp, size_t bytesize) {
    return cuMemHostAlloc(pp, bytesize, 0);
}

CUresult CUDAAPI cuMemFreeHost(void *p) {
    ENTER(CURRENT);
    CHECK(p, CUDA_SUCCESS);
    TRY(refuse_in_capture());
    return memory_release((uintptr_t)p, true);
}

CUresult CUDAAPI cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags) {
    ENTER(CURRENT);
    (void)Flags;
    return memory_register(p, bytesize);
}

FORWARD(cuMemHostUnregister, CURRENT, memory_unregister(p))

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *pdptr, void *p, unsigned int Flags) {
    ENTER(CURRENT);
    uint64_t address;
    CHECK(pdptr && !Flags && is_pinned(p, 1), CUDA_ERROR_INVALID_VALUE);
    TRY(memory_device_address((uintptr_t)p, &address));
    *pdptr = address;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *pFlags, void *p) {
    ENTER(CURRENT);
    Block *block = arena_block((uintptr_t)p, 1);
    CHECK(pFlags && block && block->kind == BLOCK_HOST, CUDA_ERROR_INVALID_VALUE);
    *pFlags = block->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
    ENTER(CURRENT);
    Block *block = arena_block(dptr, 1);
    CHECK(block && block->live, CUDA_ERROR_INVALID_VALUE);
    if (pbase)
        *pbase = block->start;
    if (psize)
        *psize = block->size;
    return CUDA_SUCCESS;
}

FORWARD(cuMemGetInfo, CURRENT, memory_info(free, total))
