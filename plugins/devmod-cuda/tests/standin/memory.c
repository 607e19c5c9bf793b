/* Memory: device, pitched, managed, pinned and registered allocations. */
#include "cuda_standin.h"

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
