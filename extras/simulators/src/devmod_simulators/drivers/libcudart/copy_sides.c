/* The sides of a copy: what a pointer, its kind or an array are for the driver. */
#include "runtime.h"

/* Set a side of a copy that is a pointer, of the memory that its kind says: `device` is the kind
 * whose bit makes it a device's. */
cudaError_t runtime_pointer(Side *side, const void *address, size_t pitch, size_t height,
                            enum cudaMemcpyKind kind, enum cudaMemcpyKind device) {
    CHECK((unsigned)kind <= cudaMemcpyDefault, cudaErrorInvalidMemcpyDirection);
    *side =
        (Side){.type = CU_MEMORYTYPE_HOST, .address = address, .pitch = pitch, .height = height};
    if (kind == cudaMemcpyDefault)
        side->type = CU_MEMORYTYPE_UNIFIED;
    else if (kind & device)
        side->type = CU_MEMORYTYPE_DEVICE;
    return cudaSuccess;
}

/* Return a side that is an array. */
Side runtime_array(cudaArray_const_t array, size_t x, size_t y) {
    return (Side){.type = CU_MEMORYTYPE_ARRAY, .array = (CUarray)(uintptr_t)array, .x = x, .y = y};
}

CUDA_MEMCPY3D runtime_copy(Side to, Side from, size_t width, size_t height, size_t depth) {
    return (CUDA_MEMCPY3D){.srcXInBytes = from.x,
                           .srcY = from.y,
                           .srcZ = from.z,
                           .srcMemoryType = from.type,
                           .srcHost = from.address,
                           .srcDevice = POINTER(from.address),
                           .srcArray = from.array,
                           .srcPitch = from.pitch,
                           .srcHeight = from.height,
                           .dstXInBytes = to.x,
                           .dstY = to.y,
                           .dstZ = to.z,
                           .dstMemoryType = to.type,
                           .dstHost = (void *)(uintptr_t)to.address,
                           .dstDevice = POINTER(to.address),
                           .dstArray = to.array,
                           .dstPitch = to.pitch,
                           .dstHeight = to.height,
                           .WidthInBytes = width,
                           .Height = height,
                           .Depth = depth};
}

/* Set *bytes to those of a texel of an array. */
cudaError_t runtime_texel(CUarray array, size_t *bytes) {
    struct cudaChannelFormatDesc form;
    TRY(cudaGetChannelDesc(&form, (cudaArray_const_t)array));
    *bytes = (size_t)(form.x + form.y + form.z + form.w) / 8;
    return cudaSuccess;
}

/* Set a side of a copy in three dimensions, and the bytes of its texels, which an offset counts. */
static cudaError_t take_side(Side *side, size_t *texel, cudaArray_t array,
                             struct cudaPitchedPtr pointer, struct cudaPos at,
                             enum cudaMemcpyKind kind, enum cudaMemcpyKind device) {
    CHECK(!array != !pointer.ptr, cudaErrorInvalidValue);
    *texel = 1;
    *side = runtime_array(array, 0, 0);
    if (array)
        TRY(runtime_texel(side->array, texel));
    else
        TRY(runtime_pointer(side, pointer.ptr, pointer.pitch, pointer.ysize, kind, device));
    side->x = at.x * *texel;
    side->y = at.y;
    side->z = at.z;
    return cudaSuccess;
}

/* The width counts texels where an array is a side. */
cudaError_t runtime_space(CUDA_MEMCPY3D *copy, const struct cudaMemcpy3DParms *p) {
    Side to, from;
    size_t to_texel, from_texel;
    CHECK(p, cudaErrorInvalidValue);
    TRY(take_side(&from, &from_texel, p->srcArray, p->srcPtr, p->srcPos, p->kind,
                  cudaMemcpyDeviceToHost));
    TRY(take_side(&to, &to_texel, p->dstArray, p->dstPtr, p->dstPos, p->kind,
                  cudaMemcpyHostToDevice));
    CHECK(!from.array || !to.array || from_texel == to_texel, cudaErrorInvalidValue);
    size_t texel = from_texel > to_texel ? from_texel : to_texel;
    *copy = runtime_copy(to, from, p->extent.width * texel, p->extent.height, p->extent.depth);
    return cudaSuccess;
}
