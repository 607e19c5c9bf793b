/* Stream-ordered allocations and their pools. */
#include "cuda_standin.h"

static CUresult allocate_async(Pool *pool, CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    uint64_t address;
    CHECK(dptr, CUDA_ERROR_INVALID_VALUE);
    TRY(pool_allocate(pool, &address, bytesize, hStream));
    *dptr = address;
    return CUDA_SUCCESS;
}

FORWARD(cuMemAllocAsync, CURRENT, allocate_async(NULL, dptr, bytesize, hStream))

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                         CUstream hStream) {
    ENTER(CURRENT);
    Pool *from = handle_get(HANDLE_POOL, pool);
    CHECK(from, CUDA_ERROR_INVALID_VALUE);
    return allocate_async(from, dptr, bytesize, hStream);
}

FORWARD(cuMemFreeAsync, CURRENT, pool_free(dptr, hStream))

/* ---- pools
 * -----------------------------------------------------------------------------------------------------------------
 */

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
    ENTER(READY);
    CHECK(pool_out, CUDA_ERROR_INVALID_VALUE);
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    *pool_out = pool_default(dev)->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev) {
    ENTER(READY);
    CHECK(pool, CUDA_ERROR_INVALID_VALUE);
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    *pool = pool_current(dev)->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
    ENTER(READY);
    Pool *next = handle_get(HANDLE_POOL, pool);
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    CHECK(next && next->device == dev, CUDA_ERROR_INVALID_VALUE);
    devices[dev].pool = next;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
    ENTER(READY);
    CHECK(pool && poolProps && poolProps->allocType == CU_MEM_ALLOCATION_TYPE_PINNED,
          CUDA_ERROR_INVALID_VALUE);
    CHECK(poolProps->handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
              poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE,
          CUDA_ERROR_NOT_SUPPORTED);
    CHECK(device_valid(poolProps->location.id), CUDA_ERROR_INVALID_DEVICE);
    Pool *made = pool_make(poolProps->location.id);
    made->most = poolProps->maxSize;
    *pool = made->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool) {
    ENTER(READY);
    Pool *own = handle_get(HANDLE_POOL, pool);
    CHECK(own, CUDA_ERROR_INVALID_VALUE);
    return pool_destroy(own);
}

/* No freed memory is kept, so there is nothing to trim. */
CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
    ENTER(READY);
    (void)minBytesToKeep;
    CHECK(handle_get(HANDLE_POOL, pool), CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
    ENTER(READY);
    Pool *own = handle_get(HANDLE_POOL, pool);
    CHECK(own && value, CUDA_ERROR_INVALID_VALUE);
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        own->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = !*(int *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        own->threshold = *(cuuint64_t *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        CHECK(!*(cuuint64_t *)value, CUDA_ERROR_INVALID_VALUE);
        own->high = pool_used(own);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
    ENTER(READY);
    const Pool *own = handle_get(HANDLE_POOL, pool);
    CHECK(own && value, CUDA_ERROR_INVALID_VALUE);
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = !own->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(cuuint64_t *)value = own->threshold;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = pool_used(own);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = own->high;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count) {
    ENTER(READY);
    Pool *own = handle_get(HANDLE_POOL, pool);
    CHECK(own && map, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        int device = map[i].location.id;
        bool may_access = map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        CHECK(map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && device_valid(device),
              CUDA_ERROR_INVALID_DEVICE);
        CHECK(may_access || map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE,
              CUDA_ERROR_INVALID_VALUE);
        CHECK(may_access || device != own->device, CUDA_ERROR_INVALID_VALUE);
        own->access &= ~(1u << device);
        if (may_access)
            own->access |= 1u << device;
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
                                    CUmemLocation *location) {
    ENTER(READY);
    const Pool *own = handle_get(HANDLE_POOL, memPool);
    CHECK(own && flags && location, CUDA_ERROR_INVALID_VALUE);
    CHECK(location->type == CU_MEM_LOCATION_TYPE_DEVICE && device_valid(location->id),
          CUDA_ERROR_INVALID_DEVICE);
    *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (own->access >> location->id & 1)
        *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}
