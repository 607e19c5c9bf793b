/* Copies. Each is one of the driver's in three dimensions. */
#include "runtime.h"

static cudaError_t submit_copy(const CUDA_MEMCPY3D *copy, At at) {
    if (!at.waits)
        FINISH(cuMemcpy3DAsync(copy, at.stream));
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    /* The driver's function without a stream uses the legacy one. As there, a copy between devices
     * is not waited for, nor one from pageable memory, which has been read. */
    bool to_host = copy->dstMemoryType == CU_MEMORYTYPE_HOST;
    bool from_pinned = copy->srcMemoryType == CU_MEMORYTYPE_HOST && runtime_knows(copy->srcHost);
    TRY(cuMemcpy3DAsync(copy, at.stream));
    if (to_host || from_pinned)
        TRY(cuStreamSynchronize(at.stream));
    return cudaSuccess;
#else
    FINISH(cuMemcpy3D(copy));
#endif
}

static cudaError_t copy_plane(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind, At at) {
    CUDA_MEMCPY3D copy = {.WidthInBytes = width, .Height = height, .Depth = 1};
    CHECK(width <= to_pitch && width <= from_pitch, cudaErrorInvalidPitchValue);
    TRY(runtime_source(&copy, from, from_pitch, 0, kind));
    TRY(runtime_target(&copy, to, to_pitch, 0, kind));
    return submit_copy(&copy, at);
}

PAIR(cudaMemcpy, copy_plane(dst, count, src, count, count, 1, kind, at))
PAIR(cudaMemcpy2D, copy_plane(dst, dpitch, src, spitch, width, height, kind, at))

static cudaError_t copy_space(const struct cudaMemcpy3DParms *params, At at) {
    CUDA_MEMCPY3D copy;
    TRY(runtime_copy(&copy, params));
    return submit_copy(&copy, at);
}

/* A pointer has its device within. */
static cudaError_t copy_to_peer(const struct cudaMemcpy3DPeerParms *p, At at) {
    CHECK(p, cudaErrorInvalidValue);
    struct cudaMemcpy3DParms params = {.srcArray = p->srcArray,
                                       .srcPos = p->srcPos,
                                       .srcPtr = p->srcPtr,
                                       .dstArray = p->dstArray,
                                       .dstPos = p->dstPos,
                                       .dstPtr = p->dstPtr,
                                       .extent = p->extent,
                                       .kind = cudaMemcpyDefault};
    return copy_space(&params, at);
}

PAIR(cudaMemcpy3D, copy_space(p, at))
PAIR(cudaMemcpy3DPeer, copy_to_peer(p, at))

/* ---- variables of the device
 * ------------------------------------------------------------------------------------------------------------
 */

static cudaError_t check_kind(enum cudaMemcpyKind kind, enum cudaMemcpyKind host) {
    CHECK(kind == host || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault,
          cudaErrorInvalidMemcpyDirection);
    return cudaSuccess;
}

static cudaError_t to_symbol(const void *symbol, const void *from, size_t count, size_t offset,
                             enum cudaMemcpyKind kind, At at) {
    void *to;
    TRY(check_kind(kind, cudaMemcpyHostToDevice));
    TRY(runtime_variable_bytes(symbol, offset, count, &to));
    return copy_plane(to, count, from, count, count, 1, kind, at);
}

static cudaError_t from_symbol(void *to, const void *symbol, size_t count, size_t offset,
                               enum cudaMemcpyKind kind, At at) {
    void *from;
    TRY(check_kind(kind, cudaMemcpyDeviceToHost));
    TRY(runtime_variable_bytes(symbol, offset, count, &from));
    return copy_plane(to, count, from, count, count, 1, kind, at);
}

PAIR(cudaMemcpyToSymbol, to_symbol(symbol, src, count, offset, kind, at))
PAIR(cudaMemcpyFromSymbol, from_symbol(dst, symbol, count, offset, kind, at))

/* ---- arrays
 * ----------------------------------------------------------------------------------------------------------------
 */

static void set_source(CUDA_MEMCPY3D *copy, cudaArray_const_t array, size_t x, size_t y) {
    copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy->srcArray = (CUarray)(uintptr_t)array;
    copy->srcXInBytes = x;
    copy->srcY = y;
}

static void set_target(CUDA_MEMCPY3D *copy, cudaArray_t array, size_t x, size_t y) {
    copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy->dstArray = (CUarray)array;
    copy->dstXInBytes = x;
    copy->dstY = y;
}

/* Set *bytes to the bytes of a row; those of a pointer are in one row. */
static cudaError_t row_of(CUmemorytype type, CUarray array, size_t *bytes) {
    size_t texel;
    CUDA_ARRAY3D_DESCRIPTOR form;
    *bytes = SIZE_MAX;
    if (type != CU_MEMORYTYPE_ARRAY)
        return cudaSuccess;
    TRY(runtime_texel(array, &texel));
    TRY(cuArray3DGetDescriptor(&form, array));
    *bytes = form.Width * texel;
    return cudaSuccess;
}

static void advance(size_t *x, size_t *y, size_t bytes, size_t row) {
    *x += bytes;
    if (*x < row)
        return;
    *x = 0;
    *y += 1;
}

/* Copy bytes that go on in the next row of an array. */
static cudaError_t copy_run(CUDA_MEMCPY3D copy, size_t count, At at) {
    size_t to_row;
    size_t from_row;
    copy.Height = copy.Depth = 1;
    TRY(row_of(copy.dstMemoryType, copy.dstArray, &to_row));
    TRY(row_of(copy.srcMemoryType, copy.srcArray, &from_row));
    while (count) {
        CHECK(copy.dstXInBytes < to_row && copy.srcXInBytes < from_row, cudaErrorInvalidValue);
        size_t to_left = to_row - copy.dstXInBytes;
        size_t from_left = from_row - copy.srcXInBytes;
        size_t part = to_left < from_left ? to_left : from_left;
        copy.WidthInBytes = part < count ? part : count;
        TRY(submit_copy(&copy, at));
        count -= copy.WidthInBytes;
        advance(&copy.dstXInBytes, &copy.dstY, copy.WidthInBytes, to_row);
        advance(&copy.srcXInBytes, &copy.srcY, copy.WidthInBytes, from_row);
    }
    return cudaSuccess;
}

/* `height` rows of `width` bytes, or a run of that many for no height. */
static cudaError_t copy_rows(CUDA_MEMCPY3D *copy, size_t width, size_t height, At at) {
    if (!height)
        return copy_run(*copy, width, at);
    copy->WidthInBytes = width;
    copy->Height = height;
    copy->Depth = 1;
    return submit_copy(copy, at);
}

static cudaError_t to_array(cudaArray_t array, size_t x, size_t y, const void *from, size_t pitch,
                            size_t width, size_t height, enum cudaMemcpyKind kind, At at) {
    CUDA_MEMCPY3D copy = {0};
    CHECK(width <= pitch, cudaErrorInvalidPitchValue);
    TRY(runtime_source(&copy, from, pitch, 0, kind));
    set_target(&copy, array, x, y);
    return copy_rows(&copy, width, height, at);
}

static cudaError_t from_array(void *to, size_t pitch, cudaArray_const_t array, size_t x, size_t y,
                              size_t width, size_t height, enum cudaMemcpyKind kind, At at) {
    CUDA_MEMCPY3D copy = {0};
    CHECK(width <= pitch, cudaErrorInvalidPitchValue);
    TRY(runtime_target(&copy, to, pitch, 0, kind));
    set_source(&copy, array, x, y);
    return copy_rows(&copy, width, height, at);
}

PAIR(cudaMemcpy2DToArray, to_array(dst, wOffset, hOffset, src, spitch, width, height, kind, at))
PAIR(cudaMemcpy2DFromArray, from_array(dst, dpitch, src, wOffset, hOffset, width, height, kind, at))
PAIR(cudaMemcpyToArray, to_array(dst, wOffset, hOffset, src, count, count, 0, kind, at))
PAIR(cudaMemcpyFromArray, from_array(dst, count, src, wOffset, hOffset, count, 0, kind, at))

/* Copies between arrays have no form for a stream. */
#define BETWEEN(name, width, height, ...)                                                          \
    cudaError_t CUDARTAPI name(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,              \
                               cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc,        \
                               __VA_ARGS__, enum cudaMemcpyKind kind) {                            \
        CUDA_MEMCPY3D copy = {0};                                                                  \
        ENTER();                                                                                   \
        CHECK(kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault,                       \
              cudaErrorInvalidMemcpyDirection);                                                    \
        set_target(&copy, dst, wOffsetDst, hOffsetDst);                                            \
        set_source(&copy, src, wOffsetSrc, hOffsetSrc);                                            \
        return copy_rows(&copy, width, height, (At){true, DEFAULT_STREAM});                        \
    }

BETWEEN(cudaMemcpy2DArrayToArray, width, height, size_t width, size_t height)
BETWEEN(cudaMemcpyArrayToArray, count, 0, size_t count)

/* ---- several at once
 * -------------------------------------------------------------------------------------------------------
 */

/* The attributes are hints. */
static cudaError_t copy_batch(void *const *to, const void *const *from, const size_t *sizes,
                              size_t count, cudaStream_t stream) {
    CHECK(to && from && sizes && count && stream, cudaErrorInvalidValue);
    for (size_t i = 0; i < count; i++)
        TRY(cudaMemcpyAsync(to[i], from[i], sizes[i], cudaMemcpyDefault, stream));
    return cudaSuccess;
}

#if RUNTIME_MAJOR >= 13
ENTRY(cudaMemcpyBatchAsync) {
    return copy_batch(dsts, srcs, sizes, count, stream);
}
#else
ENTRY(cudaMemcpyBatchAsync) {
    if (failIdx)
        *failIdx = SIZE_MAX; /* CUDA's answer where no single copy is the reason */
    return copy_batch(dsts, (const void *const *)srcs, sizes, count, stream);
}
#endif

#if CUDART_VERSION >= 13050 /* earlier headers lack it */
ENTRY(cudaMemcpyWithAttributesAsync) {
    return copy_batch(&dst, &src, &size, 1, stream);
}
#endif
