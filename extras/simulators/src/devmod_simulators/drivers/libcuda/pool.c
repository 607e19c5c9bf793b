/* Stream-ordered allocations and their pools. */
#include "cuda_standin.h"

static CUresult pool_of(CUmemoryPool handle, Pool **pool) {
    *pool = handle_get(HANDLE_POOL, handle);
    return *pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#define WITH_POOL(name, need, handle, call) WITH(name, need, Pool *own, pool_of(handle, &own), call)

FORWARD(cuMemAllocAsync, CURRENT, pool_allocate(NULL, (uint64_t *)dptr, bytesize, hStream))

WITH_POOL(cuMemAllocFromPoolAsync, CURRENT, pool,
          pool_allocate(own, (uint64_t *)dptr, bytesize, hStream))

FORWARD(cuMemFreeAsync, CURRENT, pool_free(dptr, hStream))

/* ---- pools */

/* Read the kind and the place of the pools of a location. */
static CUresult read_location(const CUmemLocation *location, CUmemAllocationType type,
                              BlockKind *kind, int *place) {
    bool is_managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;
    CHECK(location && (is_managed || type == CU_MEM_ALLOCATION_TYPE_PINNED),
          CUDA_ERROR_INVALID_VALUE);
    *kind = is_managed ? BLOCK_MANAGED : BLOCK_HOST;
    switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        CHECK(device_valid(location->id), CUDA_ERROR_INVALID_DEVICE);
        *place = location->id;
        if (!is_managed)
            *kind = BLOCK_DEVICE;
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
        *place = POOL_HOST;
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        CHECK(!location->id, CUDA_ERROR_INVALID_VALUE); /* there is one node */
        *place = POOL_HOST_NODE;
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_NONE:
        CHECK(is_managed, CUDA_ERROR_INVALID_VALUE);
        *place = POOL_ANYWHERE;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult give_pool(CUmemoryPool *result, const CUmemLocation *location,
                          CUmemAllocationType type, Pool *(*choose)(BlockKind, int)) {
    BlockKind kind;
    int place;
    CHECK(result, CUDA_ERROR_INVALID_VALUE);
    TRY(read_location(location, type, &kind, &place));
    *result = choose(kind, place)->handle;
    return CUDA_SUCCESS;
}

static CUresult take_pool(CUmemoryPool handle, const CUmemLocation *location,
                          CUmemAllocationType type) {
    BlockKind kind;
    int place;
    Pool *pool = handle_get(HANDLE_POOL, handle);
    TRY(read_location(location, type, &kind, &place));
    CHECK(pool && pool->kind == kind && pool->place == place, CUDA_ERROR_INVALID_VALUE);
    pool_choose(pool);
    return CUDA_SUCCESS;
}

FORWARD(cuMemGetDefaultMemPool, READY, give_pool(pool_out, location, type, pool_default))
FORWARD(cuMemGetMemPool, READY, give_pool(pool, location, type, pool_current))
FORWARD(cuMemSetMemPool, READY, take_pool(pool, location, type))

/* The pools of a device's own memory. */
#define OF_DEVICE(device)                                                                          \
    &(CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},                           \
        CU_MEM_ALLOCATION_TYPE_PINNED

FORWARD(cuDeviceGetDefaultMemPool, READY, give_pool(pool_out, OF_DEVICE(dev), pool_default))
FORWARD(cuDeviceGetMemPool, READY, give_pool(pool, OF_DEVICE(dev), pool_current))
FORWARD(cuDeviceSetMemPool, READY, take_pool(pool, OF_DEVICE(dev)))

API_IF((pool && poolProps), cuMemPoolCreate, READY) {
    BlockKind kind;
    int place;
    TRY(read_location(&poolProps->location, poolProps->allocType, &kind, &place));
    if (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
        bool may_share = kind == BLOCK_DEVICE || (kind == BLOCK_HOST && place == POOL_HOST_NODE);
        return may_share ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    }
    CHECK(kind != BLOCK_MANAGED || (!poolProps->maxSize && !poolProps->usage),
          CUDA_ERROR_INVALID_VALUE);
    Pool *made = pool_make(kind, place);
    made->most = poolProps->maxSize;
    *pool = made->handle;
    return CUDA_SUCCESS;
}

WITH_POOL(cuMemPoolDestroy, READY, pool, pool_destroy(own))

/* No freed memory is kept, so there is nothing to trim. */
WITH_POOL(cuMemPoolTrimTo, READY, pool, CUDA_SUCCESS)

/* Read an attribute of a pool, or set it. */
static CUresult use_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value,
                              bool sets) {
    Pool *own = handle_get(HANDLE_POOL, handle);
    cuuint64_t *bytes = value;
    int *flag = value;
    CHECK(own && value, CUDA_ERROR_INVALID_VALUE);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        if (sets)
            own->reuse[attribute] = !*flag;
        else
            *flag = !own->reuse[attribute];
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        if (sets)
            own->threshold = *bytes;
        else
            *bytes = own->threshold;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        CHECK(!sets, CUDA_ERROR_INVALID_VALUE);
        *bytes = pool_used(own);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        CHECK(!sets || !*bytes, CUDA_ERROR_INVALID_VALUE); /* it can only be reset */
        if (sets)
            own->high = pool_used(own);
        else
            *bytes = own->high;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

FORWARD(cuMemPoolSetAttribute, READY, use_attribute(pool, attr, value, true))
FORWARD(cuMemPoolGetAttribute, READY, use_attribute(pool, attr, value, false))

API(cuMemPoolSetAccess, READY) {
    Pool *own = handle_get(HANDLE_POOL, pool);
    CHECK(own && map, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        int device = map[i].location.id;
        bool may_access = map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        CHECK(map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && device_valid(device),
              CUDA_ERROR_INVALID_DEVICE);
        CHECK(may_access || map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE,
              CUDA_ERROR_INVALID_VALUE);
        CHECK(may_access || device != own->place, CUDA_ERROR_INVALID_VALUE);
        own->access &= ~(1u << device);
        if (may_access)
            own->access |= 1u << device;
    }
    return CUDA_SUCCESS;
}

API(cuMemPoolGetAccess, READY) {
    const Pool *own = handle_get(HANDLE_POOL, memPool);
    CHECK(own && flags && location, CUDA_ERROR_INVALID_VALUE);
    bool is_host = location->type == CU_MEM_LOCATION_TYPE_HOST;
    CHECK(is_host || (location->type == CU_MEM_LOCATION_TYPE_DEVICE && device_valid(location->id)),
          CUDA_ERROR_INVALID_DEVICE);
    bool may_access = is_host ? own->kind != BLOCK_DEVICE : own->access >> location->id & 1;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (may_access)
        *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}
