/* Texture and surface objects of arrays, of linear and of pitched memory. */
#include "runtime.h"

static cudaError_t take_resource(const struct cudaResourceDesc *from, CUDA_RESOURCE_DESC *to) {
    CHECK(from, cudaErrorInvalidValue);
    *to = (CUDA_RESOURCE_DESC){.resType = (CUresourcetype)from->resType};
    switch (from->resType) {
    case cudaResourceTypeArray:
        to->res.array.hArray = (CUarray)from->res.array.array;
        return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
        to->res.mipmap.hMipmappedArray = (CUmipmappedArray)from->res.mipmap.mipmap;
        return cudaSuccess;
    case cudaResourceTypeLinear:
        to->res.linear.devPtr = POINTER(from->res.linear.devPtr);
        to->res.linear.sizeInBytes = from->res.linear.sizeInBytes;
        return runtime_format(&from->res.linear.desc, &to->res.linear.format,
                              &to->res.linear.numChannels);
    case cudaResourceTypePitch2D:
        to->res.pitch2D.devPtr = POINTER(from->res.pitch2D.devPtr);
        to->res.pitch2D.width = from->res.pitch2D.width;
        to->res.pitch2D.height = from->res.pitch2D.height;
        to->res.pitch2D.pitchInBytes = from->res.pitch2D.pitchInBytes;
        return runtime_format(&from->res.pitch2D.desc, &to->res.pitch2D.format,
                              &to->res.pitch2D.numChannels);
    default:
        return cudaErrorInvalidValue;
    }
}

static unsigned texture_flags(const struct cudaTextureDesc *from) {
    unsigned flags = 0;
    if (from->readMode == cudaReadModeElementType)
        flags |= CU_TRSF_READ_AS_INTEGER;
    if (from->normalizedCoords)
        flags |= CU_TRSF_NORMALIZED_COORDINATES;
    if (from->sRGB)
        flags |= CU_TRSF_SRGB;
    if (from->disableTrilinearOptimization)
        flags |= CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;
    if (from->seamlessCubemap)
        flags |= CU_TRSF_SEAMLESS_CUBEMAP;
    return flags;
}

static void take_texture(const struct cudaTextureDesc *from, CUDA_TEXTURE_DESC *to) {
    *to = (CUDA_TEXTURE_DESC){.filterMode = (CUfilter_mode)from->filterMode,
                              .flags = texture_flags(from),
                              .maxAnisotropy = from->maxAnisotropy,
                              .mipmapFilterMode = (CUfilter_mode)from->mipmapFilterMode,
                              .mipmapLevelBias = from->mipmapLevelBias,
                              .minMipmapLevelClamp = from->minMipmapLevelClamp,
                              .maxMipmapLevelClamp = from->maxMipmapLevelClamp};
    for (int i = 0; i < 4; i++)
        to->borderColor[i] = from->borderColor[i];
    for (int i = 0; i < 3; i++) {
        to->addressMode[i] = (CUaddress_mode)from->addressMode[i];
        /* The hardware wraps and mirrors normalized coordinates alone. Programs leave the mode of
         * an unused dimension 0, which is to wrap. */
        bool repeats = from->addressMode[i] == cudaAddressModeWrap ||
                       from->addressMode[i] == cudaAddressModeMirror;
        if (repeats && !from->normalizedCoords)
            to->addressMode[i] = CU_TR_ADDRESS_MODE_CLAMP;
    }
}

/* The driver supports no views, whatever they have. */
API_IF(pTexDesc, cudaCreateTextureObject) {
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC texture;
    TRY(take_resource(pResDesc, &resource));
    take_texture(pTexDesc, &texture);
    FINISH(cuTexObjectCreate(pTexObject, &resource, &texture,
                             (const CUDA_RESOURCE_VIEW_DESC *)pResViewDesc));
}

API(cudaCreateSurfaceObject) {
    CUDA_RESOURCE_DESC resource;
    TRY(take_resource(pResDesc, &resource));
    FINISH(cuSurfObjectCreate(pSurfObject, &resource));
}
