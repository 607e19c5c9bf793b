/* Managed memory: advice and prefetches. They are hints: what they say is kept for a whole
 * allocation. */
#include "cuda_standin.h"

/* The numbers of places: a device's, or one of these. */
enum { NOWHERE = CU_DEVICE_INVALID, HOST = CU_DEVICE_CPU };

static CUresult managed_block(CUdeviceptr address, size_t count, Block **block) {
    CHECK(count, CUDA_ERROR_INVALID_VALUE);
    *block = arena_block(address, count);
    CHECK(*block && (*block)->kind == BLOCK_MANAGED, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult place_of(CUmemLocation location, int *place) {
    *place = HOST;
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        CHECK(location.type >= CU_MEM_LOCATION_TYPE_HOST &&
                  location.type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
              CUDA_ERROR_INVALID_VALUE);
        return CUDA_SUCCESS;
    }
    CHECK(device_valid(location.id), CUDA_ERROR_INVALID_DEVICE);
    *place = location.id;
    return CUDA_SUCCESS;
}

/* The bit of a place. */
static unsigned bit_of(int place) {
    return 1u << (place - HOST);
}

static CUresult advise(CUdeviceptr address, size_t count, CUmem_advise advice,
                       CUmemLocation location) {
    Block *block;
    int place;
    TRY(managed_block(address, count, &block));
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
        block->read_mostly = true;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        block->read_mostly = false;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        block->preferred = NOWHERE;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        TRY(place_of(location, &place));
        block->preferred = place;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        TRY(place_of(location, &place));
        block->accessed_by |= bit_of(place);
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        TRY(place_of(location, &place));
        block->accessed_by &= ~bit_of(place);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

FORWARD(cuMemAdvise, CURRENT, advise(devPtr, count, advice, location))

API_IF(!flags, cuMemPrefetchAsync, CURRENT) {
    Stream *stream;
    Block *block;
    int place;
    TRY(stream_of(hStream, &stream));
    TRY(managed_block(devPtr, count, &block));
    TRY(place_of(location, &place));
    block->prefetched = place;
    return CUDA_SUCCESS;
}

/* Ranges of managed memory, and places for them: each from the range with its number on. */
typedef struct {
    const CUdeviceptr *addresses;
    const size_t *sizes;
    size_t count;
    const CUmemLocation *locations;
    const size_t *firsts;
    size_t location_count;
} Batch;

/* Check the whole batch, and prefetch its ranges, if there are locations, when `acts`. */
static CUresult visit_batch(const Batch *batch, bool acts) {
    size_t number = 0;
    int place = NOWHERE;
    for (size_t i = 0; i < batch->count; i++) {
        Block *block;
        TRY(managed_block(batch->addresses[i], batch->sizes[i], &block));
        if (number < batch->location_count && batch->firsts[number] == i)
            TRY(place_of(batch->locations[number++], &place));
        CHECK(!batch->location_count || number, CUDA_ERROR_INVALID_VALUE);
        if (acts && number)
            block->prefetched = place;
    }
    CHECK(number == batch->location_count, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult submit_batch(const Batch *batch, bool discards, unsigned long long flags,
                             CUstream handle) {
    Stream *stream;
    CHECK(batch->addresses && batch->sizes && batch->count && !flags, CUDA_ERROR_INVALID_VALUE);
    CHECK(handle && handle != CU_STREAM_LEGACY, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_of(handle, &stream));
    TRY(visit_batch(batch, false));
    /* What was discarded is no value of before. */
    for (size_t i = 0; i < batch->count && discards; i++)
        TRY(submit_fill((Fill){batch->addresses[i], 0, batch->sizes[i], 1, 1, 0xA5}, handle, true));
    return visit_batch(batch, true);
}

FORWARD(cuMemDiscardBatchAsync, CURRENT,
        submit_batch(&(Batch){dptrs, sizes, count, NULL, NULL, 0}, true, flags, hStream))

#define WHOLE_BATCH &(Batch){dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs}

FORWARD_IF((prefetchLocs && prefetchLocIdxs && numPrefetchLocs), cuMemPrefetchBatchAsync, CURRENT,
           submit_batch(WHOLE_BATCH, false, flags, hStream))
FORWARD_IF((prefetchLocs && prefetchLocIdxs && numPrefetchLocs), cuMemDiscardAndPrefetchBatchAsync,
           CURRENT, submit_batch(WHOLE_BATCH, true, flags, hStream))

API(cuMemRangeGetAttribute, CURRENT) {
    Block *block;
    int *places = data;
    size_t room = dataSize / sizeof *places;
    CHECK(data && room && dataSize % sizeof *places == 0, CUDA_ERROR_INVALID_VALUE);
    TRY(managed_block(devPtr, count, &block));
    for (size_t i = 0; i < room; i++)
        places[i] = NOWHERE;
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        places[0] = block->read_mostly;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        places[0] = block->preferred;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        places[0] = block->prefetched;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        for (int place = HOST; place < DEVICES && room; place++) {
            if (!(block->accessed_by & bit_of(place)))
                continue;
            *places++ = place;
            room--;
        }
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

API_IF(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
           flags == CU_MEM_ATTACH_SINGLE,
       cuStreamAttachMemAsync, CURRENT) {
    Stream *stream;
    Block *block;
    TRY(stream_of(hStream, &stream));
    TRY(managed_block(dptr, length ? length : 1, &block));
    /* The host may access the memory at any time, as on each device since Pascal. */
    CHECK(block->start == dptr && (!length || length == block->size), CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

/* ---- the forms of before CUDA 12.2, with a device for a place */

static CUmemLocation location_of(CUdevice device) {
    if (device == CU_DEVICE_CPU)
        return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

#undef cuMemAdvise
CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                             CUdevice device) {
    return cuMemAdvise_v2(devPtr, count, advice, location_of(device));
}

#undef cuMemPrefetchAsync
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                    CUstream hStream) {
    return cuMemPrefetchAsync_v2(devPtr, count, location_of(dstDevice), 0, hStream);
}
