/* Stream-ordered allocations and the default pool of each device. */
#include "cuda_standin.h"

static CUresult allocate_async(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    uint64_t address;
    CHECK(dptr, CUDA_ERROR_INVALID_VALUE);
    TRY(pool_allocate(&address, bytesize, hStream));
    *dptr = address;
    return CUDA_SUCCESS;
}

FORWARD(cuMemAllocAsync, CURRENT, allocate_async(dptr, bytesize, hStream), CUdeviceptr *dptr,
        size_t bytesize, CUstream hStream)

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                         CUstream hStream) {
    ENTER(CURRENT);
    CHECK(handle_get(HANDLE_POOL, pool), CUDA_ERROR_INVALID_VALUE);
    return allocate_async(dptr, bytesize, hStream);
}

FORWARD(cuMemFreeAsync, CURRENT, pool_free(dptr, hStream), CUdeviceptr dptr, CUstream hStream)
FORWARD(cuDeviceGetMemPool, READY, pool_of(dev, (void **)pool), CUmemoryPool *pool, CUdevice dev)

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
    ENTER(READY);
    (void)attr;
    CHECK(value && handle_get(HANDLE_POOL, pool), CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
    ENTER(READY);
    Device *device = handle_get(HANDLE_POOL, pool);
    CHECK(device && value, CUDA_ERROR_INVALID_VALUE);
    bool small = attr == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
                 attr == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
                 attr == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
    bool used =
        attr == CU_MEMPOOL_ATTR_USED_MEM_CURRENT || attr == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    if (small)
        *(int *)value = 1;
    else
        *(cuuint64_t *)value = used ? arena_used((int)(device - devices)) : 0;
    return CUDA_SUCCESS;
}
