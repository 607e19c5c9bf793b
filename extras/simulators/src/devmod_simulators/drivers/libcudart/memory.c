/* Memory: device, pitched, managed, pinned and registered allocations, and what a pointer is. */
#include "runtime.h"

ALLOCATE(cudaMalloc, cuMemAlloc((CUdeviceptr *)devPtr, size), devPtr)
ALLOCATE(cudaMallocHost, cuMemHostAlloc(ptr, size, 0), ptr)
ALLOCATE(cudaHostAlloc, cuMemHostAlloc(pHost, size, flags), pHost)

ENTRY(cudaMalloc3D) {
    CHECK(pitchedDevPtr, cudaErrorInvalidValue);
    TRY(cudaMallocPitch(&pitchedDevPtr->ptr, &pitchedDevPtr->pitch, extent.width,
                        extent.height * extent.depth));
    pitchedDevPtr->xsize = extent.width;
    pitchedDevPtr->ysize = extent.height;
    return cudaSuccess;
}

/* ---- copies between devices. A pointer has its device within. */

static cudaError_t check_devices(int first, int second) {
    CUdevice device;
    if (cuDeviceGet(&device, first) || cuDeviceGet(&device, second))
        return cudaErrorInvalidDevice;
    return cudaSuccess;
}

API(cudaMemcpyPeer) {
    TRY(check_devices(dstDevice, srcDevice));
    FINISH(cuMemcpyDtoD(POINTER(dst), POINTER(src), count));
}

API(cudaMemcpyPeerAsync) {
    TRY(check_devices(dstDevice, srcDevice));
    FINISH(cuMemcpyDtoDAsync(POINTER(dst), POINTER(src), count, stream));
}

/* ---- pointers */

API_IF(attributes, cudaPointerGetAttributes) {
    unsigned type;
    unsigned char managed = 0;
    *attributes = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered,
                                                 .device = cudaInvalidDeviceId,
                                                 .hostPointer = (void *)(uintptr_t)ptr};
    if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, POINTER(ptr)))
        return cudaSuccess;
    attributes->hostPointer = NULL;
    attributes->type = (enum cudaMemoryType)type; /* the same numbers */
    TRY(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, POINTER(ptr)));
    if (managed)
        attributes->type = cudaMemoryTypeManaged;
    TRY(cuPointerGetAttribute(&attributes->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                              POINTER(ptr)));
    TRY(cuPointerGetAttribute(&attributes->devicePointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                              POINTER(ptr)));
    if (attributes->type != cudaMemoryTypeDevice)
        TRY(cuPointerGetAttribute(&attributes->hostPointer, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                  POINTER(ptr)));
    return cudaSuccess;
}

/* ---- managed memory */

ENTRY(cudaMemRangeGetAttributes) {
    CHECK(data && dataSizes && attributes && numAttributes, cudaErrorInvalidValue);
    for (size_t i = 0; i < numAttributes; i++)
        TRY(cudaMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr, count));
    return cudaSuccess;
}
