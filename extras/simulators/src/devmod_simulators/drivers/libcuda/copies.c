/* Copies. */
#include "cuda_standin.h"

FORWARD(cuMemcpy, CURRENT, copy_linear(dst, src, ByteCount, NULL, false, 0))
FORWARD(cuMemcpyAsync, CURRENT, copy_linear(dst, src, ByteCount, hStream, true, 0))
FORWARD(cuMemcpyHtoD, CURRENT,
        copy_linear(dstDevice, (uintptr_t)srcHost, ByteCount, NULL, false, TO_DEVICE))
FORWARD(cuMemcpyHtoDAsync, CURRENT,
        copy_linear(dstDevice, (uintptr_t)srcHost, ByteCount, hStream, true, TO_DEVICE))
FORWARD(cuMemcpyDtoH, CURRENT,
        copy_linear((uintptr_t)dstHost, srcDevice, ByteCount, NULL, false, FROM_DEVICE))
FORWARD(cuMemcpyDtoHAsync, CURRENT,
        copy_linear((uintptr_t)dstHost, srcDevice, ByteCount, hStream, true, FROM_DEVICE))
FORWARD(cuMemcpyDtoD, CURRENT,
        copy_linear(dstDevice, srcDevice, ByteCount, NULL, false, TO_DEVICE | FROM_DEVICE))
FORWARD(cuMemcpyDtoDAsync, CURRENT,
        copy_linear(dstDevice, srcDevice, ByteCount, hStream, true, TO_DEVICE | FROM_DEVICE))

static CUresult peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                     size_t size, CUstream stream, bool async) {
    Context *context;
    TRY(context_of(to_context, &context));
    TRY(context_of(from_context, &context));
    return copy_linear(to, from, size, stream, async, TO_DEVICE | FROM_DEVICE);
}

FORWARD(cuMemcpyPeer, CURRENT,
        peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL, false))
FORWARD(cuMemcpyPeerAsync, CURRENT,
        peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, true))

/* Set a side of a copy in two or three dimensions. Arrays are sides of copies in three dimensions
 * alone. */
static CUresult set_side(Side *side, CUmemorytype type, const void *host, CUdeviceptr device,
                         size_t offset, size_t pitch, size_t slice) {
    CHECK(type != CU_MEMORYTYPE_ARRAY, CUDA_ERROR_NOT_SUPPORTED);
    CHECK(type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE ||
              type == CU_MEMORYTYPE_UNIFIED,
          CUDA_ERROR_INVALID_VALUE);
    *side = (Side){(type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device) + offset, pitch, slice};
    return CUDA_SUCCESS;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *p, CUstream stream, bool async) {
    CHECK(p, CUDA_ERROR_INVALID_VALUE);
    Copy copy = {.width = p->WidthInBytes, .height = p->Height, .depth = 1};
    size_t to_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes,
           from_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes;
    CHECK(to_pitch >= p->WidthInBytes + p->dstXInBytes &&
              from_pitch >= p->WidthInBytes + p->srcXInBytes,
          CUDA_ERROR_INVALID_VALUE);
    TRY(set_side(&copy.to, p->dstMemoryType, p->dstHost, p->dstDevice,
                 p->dstY * to_pitch + p->dstXInBytes, to_pitch, 0));
    TRY(set_side(&copy.from, p->srcMemoryType, p->srcHost, p->srcDevice,
                 p->srcY * from_pitch + p->srcXInBytes, from_pitch, 0));
    int kinds = (p->dstMemoryType == CU_MEMORYTYPE_DEVICE ? TO_DEVICE : 0) |
                (p->srcMemoryType == CU_MEMORYTYPE_DEVICE ? FROM_DEVICE : 0);
    return submit_copy(copy, stream, async, kinds);
}

FORWARD(cuMemcpy2D, CURRENT, copy_2d(pCopy, NULL, false))
FORWARD(cuMemcpy2DUnaligned, CURRENT, copy_2d(pCopy, NULL, false))
FORWARD(cuMemcpy2DAsync, CURRENT, copy_2d(pCopy, hStream, true))

/* The same in three dimensions. An array has a pitch of its own, and ignores the copy's. */
static CUresult set_space(Side *side, CUmemorytype type, const void *host, CUdeviceptr device,
                          CUarray array, const size_t at[3], size_t pitch, size_t height,
                          const size_t extent[3]) {
    if (type == CU_MEMORYTYPE_ARRAY)
        return array_side(side, array, at, extent);
    if (!pitch)
        pitch = extent[0];
    CHECK(inside(pitch, at[0], extent[0]), CUDA_ERROR_INVALID_VALUE);
    size_t slice = pitch * (height ? height : extent[1]);
    return set_side(side, type, host, device, at[2] * slice + at[1] * pitch + at[0], pitch, slice);
}

/* Read the parameters of a copy, and which sides must be memory of a device. */
CUresult read_copy(const CUDA_MEMCPY3D *p, Copy *result, int *kinds) {
    CHECK(p, CUDA_ERROR_INVALID_VALUE);
    Copy copy = {.width = p->WidthInBytes, .height = p->Height, .depth = p->Depth};
    const size_t extent[3] = {p->WidthInBytes, p->Height, p->Depth};
    const size_t to[3] = {p->dstXInBytes, p->dstY, p->dstZ};
    const size_t from[3] = {p->srcXInBytes, p->srcY, p->srcZ};
    TRY(set_space(&copy.to, p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, to,
                  p->dstPitch, p->dstHeight, extent));
    TRY(set_space(&copy.from, p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, from,
                  p->srcPitch, p->srcHeight, extent));
    *kinds = (p->dstMemoryType == CU_MEMORYTYPE_DEVICE ? TO_DEVICE : 0) |
             (p->srcMemoryType == CU_MEMORYTYPE_DEVICE ? FROM_DEVICE : 0);
    *result = copy;
    return CUDA_SUCCESS;
}

static CUresult copy_3d(const CUDA_MEMCPY3D *p, CUstream stream, bool async) {
    Copy copy;
    int kinds;
    TRY(read_copy(p, &copy, &kinds));
    return submit_copy(copy, stream, async, kinds);
}

FORWARD(cuMemcpy3D, CURRENT, copy_3d(pCopy, NULL, false))
FORWARD(cuMemcpy3D_v2_ptds, CURRENT, copy_3d(pCopy, CU_STREAM_PER_THREAD, false))
FORWARD(cuMemcpy3DAsync, CURRENT, copy_3d(pCopy, hStream, true))

/* Several at once: the attributes are hints, which are checked. */
static CUresult copy_batch(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *sizes,
                           size_t count, const CUmemcpyAttributes *hints, const size_t *firsts,
                           size_t hint_count, CUstream stream) {
    CHECK(to && from && sizes && count && hints && firsts, CUDA_ERROR_INVALID_VALUE);
    CHECK(hint_count && hint_count <= count && !firsts[0], CUDA_ERROR_INVALID_VALUE);
    CHECK(stream && stream != CU_STREAM_LEGACY, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < hint_count; i++) {
        CHECK(!i || firsts[i] > firsts[i - 1], CUDA_ERROR_INVALID_VALUE);
        CHECK(firsts[i] < count, CUDA_ERROR_INVALID_VALUE);
        CHECK(hints[i].srcAccessOrder >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
                  hints[i].srcAccessOrder <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY,
              CUDA_ERROR_INVALID_VALUE);
    }
    for (size_t i = 0; i < count; i++)
        TRY(copy_linear(to[i], from[i], sizes[i], stream, true, 0));
    return CUDA_SUCCESS;
}

FORWARD(cuMemcpyBatchAsync, CURRENT,
        copy_batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream))

/* The form of CUDA 12.8, which tells the copy that failed. */
#undef cuMemcpyBatchAsync
CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                    size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                                    size_t numAttrs, size_t *failIdx, CUstream hStream) {
    if (failIdx)
        *failIdx = SIZE_MAX; /* CUDA's answer where no single copy is the reason */
    return cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
}
