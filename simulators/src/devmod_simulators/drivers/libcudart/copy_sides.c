/* The sides of a copy: what a pointer, its kind or an array are for the driver. */
#include "runtime.h"

bool runtime_knows(const void *address) {
    unsigned type;
    return !cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, POINTER(address));
}

CUmemorytype runtime_type(const void *address) {
    unsigned type;
    if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, POINTER(address)))
        return CU_MEMORYTYPE_HOST;
    return (CUmemorytype)type;
}

cudaError_t runtime_source(CUDA_MEMCPY3D *copy, const void *address, size_t pitch, size_t height,
                           enum cudaMemcpyKind kind) {
    CHECK((unsigned)kind <= cudaMemcpyDefault, cudaErrorInvalidMemcpyDirection);
    copy->srcMemoryType = CU_MEMORYTYPE_HOST;
    if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice)
        copy->srcMemoryType = CU_MEMORYTYPE_DEVICE;
    if (kind == cudaMemcpyDefault)
        copy->srcMemoryType = runtime_type(address);
    copy->srcHost = address;
    copy->srcDevice = POINTER(address);
    copy->srcPitch = pitch;
    copy->srcHeight = height;
    return cudaSuccess;
}

cudaError_t runtime_target(CUDA_MEMCPY3D *copy, void *address, size_t pitch, size_t height,
                           enum cudaMemcpyKind kind) {
    CHECK((unsigned)kind <= cudaMemcpyDefault, cudaErrorInvalidMemcpyDirection);
    copy->dstMemoryType = CU_MEMORYTYPE_HOST;
    if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice)
        copy->dstMemoryType = CU_MEMORYTYPE_DEVICE;
    if (kind == cudaMemcpyDefault)
        copy->dstMemoryType = runtime_type(address);
    copy->dstHost = address;
    copy->dstDevice = POINTER(address);
    copy->dstPitch = pitch;
    copy->dstHeight = height;
    return cudaSuccess;
}

cudaError_t runtime_texel(CUarray array, size_t *bytes) {
    struct cudaChannelFormatDesc form;
    TRY(cudaGetChannelDesc(&form, (cudaArray_const_t)array));
    *bytes = (size_t)(form.x + form.y + form.z + form.w) / 8;
    return cudaSuccess;
}

/* The width of a copy, and an offset in an array, count texels where an array is a side. */
cudaError_t runtime_copy(CUDA_MEMCPY3D *copy, const struct cudaMemcpy3DParms *p) {
    size_t from_texel = 1;
    size_t to_texel = 1;
    CHECK(p, cudaErrorInvalidValue);
    CHECK(!p->srcArray != !p->srcPtr.ptr, cudaErrorInvalidValue);
    CHECK(!p->dstArray != !p->dstPtr.ptr, cudaErrorInvalidValue);
    *copy = (CUDA_MEMCPY3D){.Height = p->extent.height, .Depth = p->extent.depth};
    if (p->srcArray) {
        TRY(runtime_texel((CUarray)p->srcArray, &from_texel));
        copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
        copy->srcArray = (CUarray)p->srcArray;
    } else {
        TRY(runtime_source(copy, p->srcPtr.ptr, p->srcPtr.pitch, p->srcPtr.ysize, p->kind));
    }
    if (p->dstArray) {
        TRY(runtime_texel((CUarray)p->dstArray, &to_texel));
        copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
        copy->dstArray = (CUarray)p->dstArray;
    } else {
        TRY(runtime_target(copy, p->dstPtr.ptr, p->dstPtr.pitch, p->dstPtr.ysize, p->kind));
    }
    CHECK(!p->srcArray || !p->dstArray || from_texel == to_texel, cudaErrorInvalidValue);
    copy->srcXInBytes = p->srcPos.x * from_texel;
    copy->srcY = p->srcPos.y;
    copy->srcZ = p->srcPos.z;
    copy->dstXInBytes = p->dstPos.x * to_texel;
    copy->dstY = p->dstPos.y;
    copy->dstZ = p->dstPos.z;
    copy->WidthInBytes = p->extent.width * (from_texel > to_texel ? from_texel : to_texel);
    return cudaSuccess;
}
