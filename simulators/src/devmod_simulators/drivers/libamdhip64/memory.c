/* Memory: device, pitched, managed, pinned and registered allocations. */
#include "hip_standin.h"

/* Zero bytes are a null pointer and no error, unlike in CUDA. */
static int allocate(BlockKind kind, void **ptr, size_t size, unsigned flags)
{
    uint64_t address = 0;
    CHECK(ptr, CODE_INVALID_VALUE);
    if (size)
        TRY(memory_allocate(kind, size, flags, &address));
    *ptr = (void *)(uintptr_t)address;
    return CODE_SUCCESS;
}

HIP(hipMalloc, CURRENT, (void **ptr, size_t size), (ptr, size))
{
    return allocate(BLOCK_DEVICE, ptr, size, 0);
}

static int allocate_pitch(void **ptr, size_t *pitch, size_t width, size_t height)
{
    CHECK(pitch, CODE_INVALID_VALUE);
    size_t row = (width + PITCH - 1) / PITCH * PITCH;
    TRY(allocate(BLOCK_DEVICE, ptr, row * height, 0));
    *pitch = row;
    return CODE_SUCCESS;
}

HIP(hipMallocPitch, CURRENT, (void **ptr, size_t *pitch, size_t width, size_t height), (ptr, pitch, width, height))
{
    return allocate_pitch(ptr, pitch, width, height);
}

HIP(hipMemAllocPitch, CURRENT, (void **dptr, size_t *pitch, size_t widthInBytes, size_t height, unsigned elementSizeBytes),
    (dptr, pitch, widthInBytes, height, elementSizeBytes))
{
    CHECK(elementSizeBytes == 4 || elementSizeBytes == 8 || elementSizeBytes == 16, CODE_INVALID_VALUE);
    return allocate_pitch(dptr, pitch, widthInBytes, height);
}

HIP(hipMallocManaged, CURRENT, (void **dev_ptr, size_t size, unsigned flags), (dev_ptr, size, flags))
{
    CHECK(flags == hipMemAttachGlobal || flags == hipMemAttachHost, CODE_INVALID_VALUE);
    return allocate(BLOCK_MANAGED, dev_ptr, size, flags);
}

HIP(hipFree, CURRENT, (void *ptr), (ptr))
{
    CHECK(ptr, CODE_SUCCESS);
    TRY(refuse_in_capture());
    return memory_release((uintptr_t)ptr, false);
}

static int allocate_host(void **ptr, size_t size, unsigned flags)
{
    unsigned known = hipHostMallocPortable | hipHostMallocMapped | hipHostMallocWriteCombined | 0xe0000000u;
    CHECK(!(flags & ~known), CODE_INVALID_VALUE);
    return allocate(BLOCK_HOST, ptr, size, flags);
}

HIP(hipHostMalloc, CURRENT, (void **ptr, size_t size, unsigned flags), (ptr, size, flags))
{
    return allocate_host(ptr, size, flags);
}

HIP(hipHostAlloc, CURRENT, (void **ptr, size_t size, unsigned flags), (ptr, size, flags))
{
    return allocate_host(ptr, size, flags);
}

HIP(hipMemAllocHost, CURRENT, (void **ptr, size_t size), (ptr, size))
{
    return allocate_host(ptr, size, 0);
}

HIP(hipHostFree, CURRENT, (void *ptr), (ptr))
{
    CHECK(ptr, CODE_SUCCESS);
    return memory_release((uintptr_t)ptr, true);
}

HIP(hipHostRegister, CURRENT, (void *hostPtr, size_t sizeBytes, unsigned flags), (hostPtr, sizeBytes, flags))
{
    (void)flags;
    return memory_register(hostPtr, sizeBytes);
}

HIP(hipHostUnregister, CURRENT, (void *hostPtr), (hostPtr))
{
    return memory_unregister(hostPtr);
}

HIP(hipHostGetDevicePointer, CURRENT, (void **devPtr, void *hstPtr, unsigned flags), (devPtr, hstPtr, flags))
{
    CHECK(devPtr && !flags && is_pinned(hstPtr, 1), CODE_INVALID_VALUE);
    *devPtr = hstPtr;
    return CODE_SUCCESS;
}

HIP(hipHostGetFlags, CURRENT, (unsigned *flagsPtr, void *hostPtr), (flagsPtr, hostPtr))
{
    Block *block = arena_block((uintptr_t)hostPtr, 1);
    CHECK(flagsPtr && block && block->kind == BLOCK_HOST, CODE_INVALID_VALUE);
    *flagsPtr = block->flags;
    return CODE_SUCCESS;
}

HIP(hipMemGetAddressRange, CURRENT, (void **pbase, size_t *psize, void *dptr), (pbase, psize, dptr))
{
    Block *block = arena_block((uintptr_t)dptr, 1);
    CHECK(block && block->live && !block->internal, CODE_NOT_FOUND);
    if (pbase)
        *pbase = (void *)(uintptr_t)block->start;
    if (psize)
        *psize = block->size;
    return CODE_SUCCESS;
}

HIP(hipMemGetInfo, CURRENT, (size_t *free, size_t *total), (free, total))
{
    return memory_info(free, total);
}

/* ---- in the order of a stream ------------------------------------------------------------------------------------------------ */

static int allocate_in_stream(void **ptr, size_t size, hipStream_t stream)
{
    uint64_t address = 0;
    CHECK(ptr, CODE_INVALID_VALUE);
    if (size)
        TRY(pool_allocate(&address, size, stream));
    *ptr = (void *)(uintptr_t)address;
    return CODE_SUCCESS;
}

HIP(hipMallocAsync, CURRENT, (void **dev_ptr, size_t size, hipStream_t stream), (dev_ptr, size, stream))
{
    return allocate_in_stream(dev_ptr, size, stream);
}

HIP(hipMallocFromPoolAsync, CURRENT, (void **dev_ptr, size_t size, hipMemPool_t mem_pool, hipStream_t stream),
    (dev_ptr, size, mem_pool, stream))
{
    CHECK(handle_get(HANDLE_POOL, mem_pool), CODE_INVALID_VALUE);
    return allocate_in_stream(dev_ptr, size, stream);
}

HIP(hipFreeAsync, CURRENT, (void *dev_ptr, hipStream_t stream), (dev_ptr, stream))
{
    return pool_free((uintptr_t)dev_ptr, stream);
}

HIP(hipDeviceGetDefaultMemPool, READY, (hipMemPool_t *mem_pool, int device), (mem_pool, device))
{
    return pool_of(device, mem_pool);
}

HIP(hipDeviceGetMemPool, READY, (hipMemPool_t *mem_pool, int device), (mem_pool, device))
{
    return pool_of(device, mem_pool);
}

HIP(hipMemPoolSetAttribute, READY, (hipMemPool_t mem_pool, int attr, void *value), (mem_pool, attr, value))
{
    CHECK(value && attr && handle_get(HANDLE_POOL, mem_pool), CODE_INVALID_VALUE);
    return CODE_SUCCESS;
}

HIP(hipMemPoolGetAttribute, READY, (hipMemPool_t mem_pool, int attr, void *value), (mem_pool, attr, value))
{
    Device *device = handle_get(HANDLE_POOL, mem_pool);
    CHECK(device && value, CODE_INVALID_VALUE);
    bool used = attr == hipMemPoolAttrUsedMemCurrent || attr == hipMemPoolAttrReservedMemCurrent;
    if (attr < hipMemPoolAttrReleaseThreshold)
        *(int *)value = 1;
    else
        *(uint64_t *)value = used ? arena_used((int)(device - devices)) : 0;
    return CODE_SUCCESS;
}

HIP(hipMemPoolTrimTo, READY, (hipMemPool_t mem_pool, size_t min_bytes_to_hold), (mem_pool, min_bytes_to_hold))
{
    (void)min_bytes_to_hold;
    CHECK(handle_get(HANDLE_POOL, mem_pool), CODE_INVALID_VALUE);
    return CODE_SUCCESS;
}
