/* Stream-ordered allocations and the default pool of each device. */
#include "cuda_standin.h"

static int run_allocate(Op *op)
{
    Block *block = arena_block(op->data[0], 1);
    if (block)
        block->live = true;
    return 0;
}

static int run_free(Op *op)
{
    arena_free(op->data[0]);
    return 0;
}

static CUresult allocate_async(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    Stream *stream;
    Block *block;
    CHECK(dptr && bytesize, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_of(hStream, &stream));
    CHECK(!capture_active(stream), CUDA_ERROR_NOT_SUPPORTED);
    Context *context = (Context *)stream->group;
    TRY((CUresult)arena_allocate(BLOCK_DEVICE, context->device, bytesize, device_memory(), context, &block));
    block->live = false;
    block->from_pool = true;
    *dptr = block->start;
    Op *op = op_make("allocation", run_allocate, NULL, sizeof(uint64_t));
    op->data[0] = block->start;
    return submit(stream, op);
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    ENTER(CURRENT);
    return allocate_async(dptr, bytesize, hStream);
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    ENTER(CURRENT);
    CHECK(handle_get(HANDLE_POOL, pool), CUDA_ERROR_INVALID_VALUE);
    return allocate_async(dptr, bytesize, hStream);
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    ENTER(CURRENT);
    Stream *stream;
    Block *block = arena_block(dptr, 1);
    CHECK(dptr, CUDA_SUCCESS);
    TRY(stream_of(hStream, &stream));
    if (!block || block->start != dptr || block->kind != BLOCK_DEVICE || block->internal) {
        violation("0x%llx is freed and is not the start of a device allocation", (unsigned long long)dptr);
        return CUDA_ERROR_INVALID_VALUE;
    }
    Op *op = op_make("free", run_free, NULL, sizeof(uint64_t));
    op->data[0] = dptr;
    return submit(stream, op);
}

/* One pool for each device: the default one. */
CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    ENTER(READY);
    CHECK(pool_out, CUDA_ERROR_INVALID_VALUE);
    CHECK(dev >= 0 && dev < DEVICES && devices[dev].exists, CUDA_ERROR_INVALID_DEVICE);
    if (!devices[dev].pool)
        devices[dev].pool = handle_make(HANDLE_POOL, &devices[dev], NULL);
    *pool_out = devices[dev].pool;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    return cuDeviceGetDefaultMemPool(pool, dev);
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    ENTER(READY);
    (void)attr;
    CHECK(value && handle_get(HANDLE_POOL, pool), CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    ENTER(READY);
    Device *device = handle_get(HANDLE_POOL, pool);
    CHECK(device && value, CUDA_ERROR_INVALID_VALUE);
    bool small = attr == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES || attr == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
                 attr == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
    bool used = attr == CU_MEMPOOL_ATTR_USED_MEM_CURRENT || attr == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    if (small)
        *(int *)value = 1;
    else
        *(cuuint64_t *)value = used ? arena_used((int)(device - devices)) : 0;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    ENTER(READY);
    (void)minBytesToKeep;
    CHECK(handle_get(HANDLE_POOL, pool), CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}
