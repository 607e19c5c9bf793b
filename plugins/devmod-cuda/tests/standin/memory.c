/* Memory: device, pitched, pinned, managed and stream-ordered allocations, pools, attributes of pointers. */
#include "cuda_standin.h"

#include <stdlib.h>
#include <string.h>

enum { REGISTRATIONS = 256, PITCH = 512 };

static struct {
    const char *start;
    size_t size;
} registered[REGISTRATIONS];

static uint64_t pinned_limit(void)
{
    return setting_number("host_memory", UINT64_C(4) << 30);
}

bool is_registered(uint64_t address, size_t size)
{
    const char *pointer = (const char *)(uintptr_t)address;
    for (int i = 0; i < REGISTRATIONS; i++)
        if (registered[i].start && pointer >= registered[i].start && size <= registered[i].size &&
            (size_t)(pointer - registered[i].start) <= registered[i].size - size)
            return true;
    return false;
}

bool is_pinned(const void *address, size_t size)
{
    return arena_block((uintptr_t)address, size) || is_registered((uintptr_t)address, size);
}

CUresult check_range(Context *context, uint64_t address, uint64_t size, const char *what)
{
    Block *block = arena_block(address, size);
    if (!block && is_registered(address, size))
        return CUDA_SUCCESS;
    if (!block) {
        explain("%s: %llu bytes at 0x%llx are not within one allocation", what, (unsigned long long)size, (unsigned long long)address);
        if (arena_contains(address))
            violation("%s: %llu bytes at 0x%llx are not within one allocation", what, (unsigned long long)size, (unsigned long long)address);
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)context; /* copies between devices need no peer access; kernels do */
    return CUDA_SUCCESS;
}

static CUresult allocate(BlockKind kind, uint64_t size, unsigned flags, uint64_t *address)
{
    Context *context = current_context();
    Block *block;
    CHECK(size, CUDA_ERROR_INVALID_VALUE);
    TRY(refuse_in_capture());
    uint64_t limit = kind == BLOCK_DEVICE ? device_memory() : pinned_limit();
    TRY((CUresult)arena_allocate(kind, context->device, size, limit, context, &block));
    block->flags = flags;
    *address = block->start;
    return CUDA_SUCCESS;
}

/* Free memory; pending work of the context runs before, as it does with the real driver. */
static CUresult release(uint64_t address, bool host)
{
    Block *block = arena_block(address, 1);
    if (!block || block->start != address || block->internal || (block->kind == BLOCK_HOST) != host) {
        violation("0x%llx is freed and is not the start of %s allocation", (unsigned long long)address, host ? "a host" : "a device");
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = context_run(block->owner);
    arena_free(address);
    return result;
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *dptr, size_t bytesize)
{
    ENTER(CURRENT);
    CHECK(dptr, CUDA_ERROR_INVALID_VALUE);
    uint64_t address;
    TRY(allocate(BLOCK_DEVICE, bytesize, 0, &address));
    *dptr = address;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned int ElementSizeBytes)
{
    ENTER(CURRENT);
    CHECK(dptr && pPitch && WidthInBytes && Height, CUDA_ERROR_INVALID_VALUE);
    CHECK(ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16, CUDA_ERROR_INVALID_VALUE);
    uint64_t address;
    size_t pitch = (WidthInBytes + PITCH - 1) / PITCH * PITCH;
    TRY(allocate(BLOCK_DEVICE, pitch * Height, 0, &address));
    *dptr = address;
    *pPitch = pitch;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    ENTER(CURRENT);
    CHECK(dptr && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST), CUDA_ERROR_INVALID_VALUE);
    uint64_t address;
    TRY(allocate(BLOCK_MANAGED, bytesize, flags, &address));
    *dptr = address;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFree(CUdeviceptr dptr)
{
    ENTER(CURRENT);
    CHECK(dptr, CUDA_SUCCESS);
    TRY(refuse_in_capture());
    return release(dptr, false);
}

CUresult CUDAAPI cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    ENTER(CURRENT);
    unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    CHECK(pp && !(Flags & ~known), CUDA_ERROR_INVALID_VALUE);
    uint64_t address;
    TRY(allocate(BLOCK_HOST, bytesize, Flags, &address));
    *pp = (void *)(uintptr_t)address;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocHost(void **pp, size_t bytesize)
{
    return cuMemHostAlloc(pp, bytesize, 0);
}

CUresult CUDAAPI cuMemFreeHost(void *p)
{
    ENTER(CURRENT);
    CHECK(p, CUDA_SUCCESS);
    return release((uintptr_t)p, true);
}

CUresult CUDAAPI cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
    ENTER(CURRENT);
    (void)Flags;
    CHECK(p && bytesize, CUDA_ERROR_INVALID_VALUE);
    CHECK(!is_pinned(p, 1), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    for (int i = 0; i < REGISTRATIONS; i++) {
        if (registered[i].start)
            continue;
        registered[i].start = p;
        registered[i].size = bytesize;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuMemHostUnregister(void *p)
{
    ENTER(CURRENT);
    for (int i = 0; i < REGISTRATIONS; i++) {
        if (!p || registered[i].start != p)
            continue;
        CUresult result = context_run(current_context());
        registered[i].start = NULL;
        return result;
    }
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    ENTER(CURRENT);
    CHECK(pdptr && !Flags && is_pinned(p, 1), CUDA_ERROR_INVALID_VALUE);
    *pdptr = (uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    ENTER(CURRENT);
    Block *block = arena_block((uintptr_t)p, 1);
    CHECK(pFlags && block && block->kind == BLOCK_HOST, CUDA_ERROR_INVALID_VALUE);
    *pFlags = block->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    ENTER(CURRENT);
    Block *block = arena_block(dptr, 1);
    CHECK(block && block->live, CUDA_ERROR_INVALID_VALUE);
    if (pbase)
        *pbase = block->start;
    if (psize)
        *psize = block->size;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetInfo(size_t *free, size_t *total)
{
    ENTER(CURRENT);
    CHECK(free && total, CUDA_ERROR_INVALID_VALUE);
    uint64_t used = arena_used(current_context()->device);
    *total = device_memory();
    *free = *total > used ? *total - used : 0;
    return CUDA_SUCCESS;
}

/* ---- stream-ordered memory -------------------------------------------------------------------------------------------------- */

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

/* ---- what a pointer is -------------------------------------------------------------------------------------------------------- */

static CUresult attribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    Block *block = arena_block(ptr, 1);
    bool host = !block && is_registered(ptr, 1);
    CHECK(data, CUDA_ERROR_INVALID_VALUE);
    CHECK(block || host, CUDA_ERROR_INVALID_VALUE);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = block ? ((Context *)block->owner)->handle : NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = host || block->kind == BLOCK_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = ptr;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        CHECK(host || block->kind != BLOCK_DEVICE, CUDA_ERROR_INVALID_VALUE);
        *(void **)data = (void *)(uintptr_t)ptr;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = block ? block->number : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned char *)data = block && block->kind == BLOCK_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = block ? block->device : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = block ? block->start : ptr;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = block ? block->size : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned char *)data = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned char *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(int *)data = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = block && block->from_pool ? devices[block->device].pool : NULL;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute attribute_, CUdeviceptr ptr)
{
    ENTER(CURRENT);
    return attribute(data, attribute_, ptr);
}

/* Unlike the function for one attribute, this one answers zeros for a pointer that CUDA does not know. */
CUresult CUDAAPI cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
    ENTER(READY);
    CHECK(numAttributes && attributes && data, CUDA_ERROR_INVALID_VALUE);
    bool known = arena_block(ptr, 1) || is_registered(ptr, 1);
    for (unsigned i = 0; i < numAttributes; i++) {
        if (known) {
            TRY(attribute(data[i], attributes[i], ptr));
            continue;
        }
        switch (attributes[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)data[i] = 0; break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned char *)data[i] = 0; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data[i] = -2; break;
        default: memset(data[i], 0, sizeof(void *)); break;
        }
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute attribute_, CUdeviceptr ptr)
{
    ENTER(CURRENT);
    CHECK(value && arena_block(ptr, 1), CUDA_ERROR_INVALID_VALUE);
    return attribute_ == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
