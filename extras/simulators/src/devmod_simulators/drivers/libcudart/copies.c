/* Copies. Each is one of the driver's in three dimensions. */
#include "runtime.h"

static cudaError_t submit_copy(CUDA_MEMCPY3D copy, At at) {
    FINISH(at.waits ? MEMCPY_3D(&copy) : cuMemcpy3DAsync(&copy, at.stream));
}

static cudaError_t copy_plane(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind, At at) {
    Side target, source;
    CHECK(width <= to_pitch && width <= from_pitch, cudaErrorInvalidPitchValue);
    TRY(runtime_pointer(&source, from, from_pitch, 0, kind, cudaMemcpyDeviceToHost));
    TRY(runtime_pointer(&target, to, to_pitch, 0, kind, cudaMemcpyHostToDevice));
    return submit_copy(runtime_copy(target, source, width, height, 1), at);
}

PAIR(cudaMemcpy, copy_plane(dst, count, src, count, count, 1, kind, at))
PAIR(cudaMemcpy2D, copy_plane(dst, dpitch, src, spitch, width, height, kind, at))

static cudaError_t copy_space(const struct cudaMemcpy3DParms *params, At at) {
    CUDA_MEMCPY3D copy;
    TRY(runtime_space(&copy, params));
    return submit_copy(copy, at);
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

/* ---- variables of the device */

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

/* ---- arrays */

/* Set *bytes to the bytes of a row; those of a pointer are in one row. */
static cudaError_t row_of(const Side *side, size_t *bytes) {
    size_t texel;
    CUDA_ARRAY3D_DESCRIPTOR form;
    *bytes = SIZE_MAX;
    if (side->type != CU_MEMORYTYPE_ARRAY)
        return cudaSuccess;
    TRY(runtime_texel(side->array, &texel));
    TRY(cuArray3DGetDescriptor(&form, side->array));
    *bytes = form.Width * texel;
    return cudaSuccess;
}

static void advance(Side *side, size_t bytes, size_t row) {
    side->x += bytes;
    if (side->x < row)
        return;
    side->x = 0;
    side->y += 1;
}

/* Copy bytes that go on in the next row of an array. */
static cudaError_t copy_run(Side to, Side from, size_t count, At at) {
    size_t to_row;
    size_t from_row;
    TRY(row_of(&to, &to_row));
    TRY(row_of(&from, &from_row));
    while (count) {
        CHECK(to.x < to_row && from.x < from_row, cudaErrorInvalidValue);
        size_t to_left = to_row - to.x;
        size_t from_left = from_row - from.x;
        size_t part = to_left < from_left ? to_left : from_left;
        if (part > count)
            part = count;
        TRY(submit_copy(runtime_copy(to, from, part, 1, 1), at));
        count -= part;
        advance(&to, part, to_row);
        advance(&from, part, from_row);
    }
    return cudaSuccess;
}

/* `height` rows of `width` bytes, or a run of that many for no height. */
static cudaError_t copy_rows(Side to, Side from, size_t width, size_t height, At at) {
    if (!height)
        return copy_run(to, from, width, at);
    return submit_copy(runtime_copy(to, from, width, height, 1), at);
}

static cudaError_t to_array(cudaArray_t array, size_t x, size_t y, const void *from, size_t pitch,
                            size_t width, size_t height, enum cudaMemcpyKind kind, At at) {
    Side source;
    CHECK(width <= pitch, cudaErrorInvalidPitchValue);
    TRY(runtime_pointer(&source, from, pitch, 0, kind, cudaMemcpyDeviceToHost));
    return copy_rows(runtime_array(array, x, y), source, width, height, at);
}

static cudaError_t from_array(void *to, size_t pitch, cudaArray_const_t array, size_t x, size_t y,
                              size_t width, size_t height, enum cudaMemcpyKind kind, At at) {
    Side target;
    CHECK(width <= pitch, cudaErrorInvalidPitchValue);
    TRY(runtime_pointer(&target, to, pitch, 0, kind, cudaMemcpyHostToDevice));
    return copy_rows(target, runtime_array(array, x, y), width, height, at);
}

PAIR(cudaMemcpy2DToArray, to_array(dst, wOffset, hOffset, src, spitch, width, height, kind, at))
PAIR(cudaMemcpy2DFromArray, from_array(dst, dpitch, src, wOffset, hOffset, width, height, kind, at))
PAIR(cudaMemcpyToArray, to_array(dst, wOffset, hOffset, src, count, count, 0, kind, at))
PAIR(cudaMemcpyFromArray, from_array(dst, count, src, wOffset, hOffset, count, 0, kind, at))

/* Copies between arrays have no form for a stream. */
static cudaError_t between(Side to, Side from, size_t width, size_t height,
                           enum cudaMemcpyKind kind) {
    CHECK(kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault,
          cudaErrorInvalidMemcpyDirection);
    return copy_rows(to, from, width, height, (At){true, DEFAULT_STREAM});
}

#define ARRAYS                                                                                     \
    runtime_array(dst, wOffsetDst, hOffsetDst), runtime_array(src, wOffsetSrc, hOffsetSrc)
FORWARD(cudaMemcpy2DArrayToArray, between(ARRAYS, width, height, kind))
FORWARD(cudaMemcpyArrayToArray, between(ARRAYS, count, 0, kind))

/* ---- several at once */

/* The attributes are hints. */
static cudaError_t copy_batch(void *const *to, const void *const *from, const size_t *sizes,
                              size_t count, cudaStream_t stream) {
    CHECK(to && from && sizes && count && stream, cudaErrorInvalidValue);
    for (size_t i = 0; i < count; i++)
        TRY(cudaMemcpyAsync(to[i], from[i], sizes[i], cudaMemcpyDefault, stream));
    return cudaSuccess;
}

ENTRY(cudaMemcpyBatchAsync) {
#if RUNTIME_MAJOR == 12
    if (failIdx)
        *failIdx = SIZE_MAX; /* CUDA's answer where no single copy is the reason */
#endif
    return copy_batch((void *const *)dsts, (const void *const *)srcs, sizes, count, stream);
}

#if CUDART_VERSION >= 13050 /* earlier headers lack it */
ENTRY(cudaMemcpyWithAttributesAsync) {
    return copy_batch(&dst, &src, &size, 1, stream);
}
#endif
