/* Copies.
 *
 * Pageable host memory is read when the function is called (the driver stages it), pinned memory when the copy runs. A copy to pageable memory
 * is done when the function returns. A copy from pageable memory, one between devices and a fill are not: a stream that does not wait
 * for them reads old data.
 */
#include "cuda_standin.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t address;
    size_t pitch, slice; /* bytes of a row and of a plane */
} Side;

typedef struct {
    Side to, from;
    size_t width, height, depth;
    unsigned char *staged; /* rows of the source, packed */
} Copy;

static size_t extent(const Side *side, const Copy *copy)
{
    return (copy->depth - 1) * side->slice + (copy->height - 1) * side->pitch + copy->width;
}

unsigned char *memory_at(uint64_t address, size_t size)
{
    if (!arena_contains(address))
        return (unsigned char *)(uintptr_t)address;
    Block *block = arena_block(address, size);
    return block && block->live ? arena_view(address) : NULL;
}

static void copy_rows(const Copy *copy, unsigned char *to, size_t to_pitch, size_t to_slice, const unsigned char *from, size_t from_pitch,
                      size_t from_slice)
{
    for (size_t z = 0; z < copy->depth; z++)
        for (size_t y = 0; y < copy->height; y++)
            memmove(to + z * to_slice + y * to_pitch, from + z * from_slice + y * from_pitch, copy->width);
}

static int run_copy(Op *op)
{
    Copy *copy = (Copy *)op->data;
    unsigned char *to = memory_at(copy->to.address, extent(&copy->to, copy));
    const unsigned char *from = copy->staged ? copy->staged : memory_at(copy->from.address, extent(&copy->from, copy));
    if (!to || !from) {
        explain("a copy ran on memory that is not allocated: from 0x%llx to 0x%llx", (unsigned long long)copy->from.address,
                (unsigned long long)copy->to.address);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (copy->staged)
        copy_rows(copy, to, copy->to.pitch, copy->to.slice, from, copy->width, copy->width * copy->height);
    else
        copy_rows(copy, to, copy->to.pitch, copy->to.slice, from, copy->from.pitch, copy->from.slice);
    return 0;
}

static void drop_copy(Op *op)
{
    free(((Copy *)op->data)->staged);
}

/* What the address of a side is for CUDA. */
typedef enum { SIDE_DEVICE, SIDE_PINNED, SIDE_PAGEABLE } Where;

static CUresult where(const Side *side, const Copy *copy, bool must_be_device, Where *result)
{
    size_t size = extent(side, copy);
    Block *block = arena_block(side->address, size);
    CHECK(side->address, CUDA_ERROR_INVALID_VALUE);
    if (block) {
        *result = block->kind == BLOCK_HOST ? SIDE_PINNED : SIDE_DEVICE;
        return CUDA_SUCCESS;
    }
    if (is_registered(side->address, size)) {
        *result = SIDE_PINNED;
        return CUDA_SUCCESS;
    }
    if (must_be_device || arena_contains(side->address))
        return check_range(current_context(), side->address, size, "copy");
    *result = SIDE_PAGEABLE;
    return CUDA_SUCCESS;
}

/* The kinds of the two sides that the function names. */
enum { TO_DEVICE = 1, FROM_DEVICE = 2 };

static CUresult submit_copy(Copy copy, CUstream hStream, bool async, int kinds)
{
    Where to, from;
    Stream *stream;
    TRY(stream_of(hStream, &stream));
    if (!copy.width || !copy.height || !copy.depth)
        return CUDA_SUCCESS;
    TRY(where(&copy.to, &copy, kinds & TO_DEVICE, &to));
    TRY(where(&copy.from, &copy, kinds & FROM_DEVICE, &from));
    if (!async)
        TRY(refuse_in_capture());
    bool pageable = from == SIDE_PAGEABLE;
    if (pageable && !capture_active(stream)) {
        copy.staged = malloc(copy.width * copy.height * copy.depth);
        CHECK(copy.staged, CUDA_ERROR_OUT_OF_MEMORY);
        copy_rows(&copy, copy.staged, copy.width, copy.width * copy.height, (const unsigned char *)(uintptr_t)copy.from.address,
                  copy.from.pitch, copy.from.slice);
    }
    Op *op = op_make("copy", run_copy, drop_copy, sizeof copy);
    *(Copy *)op->data = copy;
    bool wait = to == SIDE_PAGEABLE || (!async && (to == SIDE_PINNED || from == SIDE_PINNED));
    if (capture_active(stream)) /* a graph copies at its launch */
        return submit(stream, op);
    return submit_and(stream, op, wait);
}

static CUresult linear(uint64_t to, uint64_t from, size_t size, CUstream stream, bool async, int kinds)
{
    Copy copy = {{to, size, size}, {from, size, size}, size, 1, 1, NULL};
    return submit_copy(copy, stream, async, kinds);
}

CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    ENTER(CURRENT);
    return linear(dst, src, ByteCount, NULL, false, 0);
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
    ENTER(CURRENT);
    return linear(dst, src, ByteCount, hStream, true, 0);
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
    ENTER(CURRENT);
    return linear(dstDevice, (uintptr_t)srcHost, ByteCount, NULL, false, TO_DEVICE);
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
    ENTER(CURRENT);
    return linear(dstDevice, (uintptr_t)srcHost, ByteCount, hStream, true, TO_DEVICE);
}

CUresult CUDAAPI cuMemcpyDtoH(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    ENTER(CURRENT);
    return linear((uintptr_t)dstHost, srcDevice, ByteCount, NULL, false, FROM_DEVICE);
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
    ENTER(CURRENT);
    return linear((uintptr_t)dstHost, srcDevice, ByteCount, hStream, true, FROM_DEVICE);
}

CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
    ENTER(CURRENT);
    return linear(dstDevice, srcDevice, ByteCount, NULL, false, TO_DEVICE | FROM_DEVICE);
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
    ENTER(CURRENT);
    return linear(dstDevice, srcDevice, ByteCount, hStream, true, TO_DEVICE | FROM_DEVICE);
}

static CUresult peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size, CUstream stream, bool async)
{
    Context *context;
    TRY(context_of(to_context, &context));
    TRY(context_of(from_context, &context));
    return linear(to, from, size, stream, async, TO_DEVICE | FROM_DEVICE);
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount)
{
    ENTER(CURRENT);
    return peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL, false);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                                   size_t ByteCount, CUstream hStream)
{
    ENTER(CURRENT);
    return peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, true);
}

/* Set a side of a copy in two or three dimensions. Arrays (textures) are not supported. */
static CUresult set_side(Side *side, CUmemorytype type, const void *host, CUdeviceptr device, size_t offset, size_t pitch, size_t slice)
{
    CHECK(type != CU_MEMORYTYPE_ARRAY, CUDA_ERROR_NOT_SUPPORTED);
    CHECK(type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED, CUDA_ERROR_INVALID_VALUE);
    *side = (Side){(type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device) + offset, pitch, slice};
    return CUDA_SUCCESS;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *p, CUstream stream, bool async)
{
    CHECK(p, CUDA_ERROR_INVALID_VALUE);
    Copy copy = {.width = p->WidthInBytes, .height = p->Height, .depth = 1};
    size_t to_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes, from_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes;
    CHECK(to_pitch >= p->WidthInBytes + p->dstXInBytes && from_pitch >= p->WidthInBytes + p->srcXInBytes, CUDA_ERROR_INVALID_VALUE);
    TRY(set_side(&copy.to, p->dstMemoryType, p->dstHost, p->dstDevice, p->dstY * to_pitch + p->dstXInBytes, to_pitch, 0));
    TRY(set_side(&copy.from, p->srcMemoryType, p->srcHost, p->srcDevice, p->srcY * from_pitch + p->srcXInBytes, from_pitch, 0));
    int kinds = (p->dstMemoryType == CU_MEMORYTYPE_DEVICE ? TO_DEVICE : 0) | (p->srcMemoryType == CU_MEMORYTYPE_DEVICE ? FROM_DEVICE : 0);
    return submit_copy(copy, stream, async, kinds);
}

CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D *pCopy)
{
    ENTER(CURRENT);
    return copy_2d(pCopy, NULL, false);
}

CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *pCopy)
{
    ENTER(CURRENT);
    return copy_2d(pCopy, NULL, false);
}

CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    ENTER(CURRENT);
    return copy_2d(pCopy, hStream, true);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *p, CUstream stream, bool async)
{
    CHECK(p, CUDA_ERROR_INVALID_VALUE);
    Copy copy = {.width = p->WidthInBytes, .height = p->Height, .depth = p->Depth};
    size_t to_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes, from_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes;
    size_t to_slice = to_pitch * (p->dstHeight ? p->dstHeight : p->Height), from_slice = from_pitch * (p->srcHeight ? p->srcHeight : p->Height);
    size_t to_offset = p->dstZ * to_slice + p->dstY * to_pitch + p->dstXInBytes;
    size_t from_offset = p->srcZ * from_slice + p->srcY * from_pitch + p->srcXInBytes;
    CHECK(to_pitch >= p->WidthInBytes + p->dstXInBytes && from_pitch >= p->WidthInBytes + p->srcXInBytes, CUDA_ERROR_INVALID_VALUE);
    TRY(set_side(&copy.to, p->dstMemoryType, p->dstHost, p->dstDevice, to_offset, to_pitch, to_slice));
    TRY(set_side(&copy.from, p->srcMemoryType, p->srcHost, p->srcDevice, from_offset, from_pitch, from_slice));
    int kinds = (p->dstMemoryType == CU_MEMORYTYPE_DEVICE ? TO_DEVICE : 0) | (p->srcMemoryType == CU_MEMORYTYPE_DEVICE ? FROM_DEVICE : 0);
    return submit_copy(copy, stream, async, kinds);
}

CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D *pCopy)
{
    ENTER(CURRENT);
    return copy_3d(pCopy, NULL, false);
}

CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    ENTER(CURRENT);
    return copy_3d(pCopy, hStream, true);
}
