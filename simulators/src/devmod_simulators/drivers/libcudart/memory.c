/* Memory: device, pitched, managed, pinned and registered allocations, and what a pointer is. */
#include "runtime.h"

ALLOCATE(cudaMalloc, cuMemAlloc((CUdeviceptr *)devPtr, size), devPtr)
ALLOCATE(cudaMallocHost, cuMemHostAlloc(ptr, size, 0), ptr)
ALLOCATE(cudaHostAlloc, cuMemHostAlloc(pHost, size, flags), pHost)

FORWARD(cudaMallocManaged, cuMemAllocManaged((CUdeviceptr *)devPtr, size, flags))
FORWARD(cudaFree, cuMemFree(POINTER(devPtr)))
FORWARD(cudaFreeHost, cuMemFreeHost(ptr))
FORWARD(cudaHostRegister, cuMemHostRegister(ptr, size, flags))
FORWARD(cudaHostUnregister, cuMemHostUnregister(ptr))
FORWARD(cudaHostGetDevicePointer, cuMemHostGetDevicePointer((CUdeviceptr *)pDevice, pHost, flags))
FORWARD(cudaHostGetFlags, cuMemHostGetFlags(pFlags, pHost))
FORWARD(cudaMemGetInfo, cuMemGetInfo(free, total))

enum {
    ELEMENT = 4
}; /* of a pitched allocation, which the pitch is for: any row is aligned to it */

FORWARD(cudaMallocPitch, cuMemAllocPitch((CUdeviceptr *)devPtr, pitch, width, height, ELEMENT))

cudaError_t CUDARTAPI cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent) {
    CHECK(pitchedDevPtr, cudaErrorInvalidValue);
    TRY(cudaMallocPitch(&pitchedDevPtr->ptr, &pitchedDevPtr->pitch, extent.width,
                        extent.height * extent.depth));
    pitchedDevPtr->xsize = extent.width;
    pitchedDevPtr->ysize = extent.height;
    return cudaSuccess;
}

/* ---- copies between devices. A pointer has its device within.
 * ------------------------------------------------------------------------------------------------
 */

static cudaError_t check_devices(int first, int second) {
    CUdevice device;
    if (cuDeviceGet(&device, first) || cuDeviceGet(&device, second))
        return cudaErrorInvalidDevice;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice,
                                     size_t count) {
    ENTER();
    TRY(check_devices(dstDevice, srcDevice));
    FINISH(cuMemcpyDtoD(POINTER(dst), POINTER(src), count));
}

cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
                                          size_t count, cudaStream_t stream) {
    ENTER();
    TRY(check_devices(dstDevice, srcDevice));
    FINISH(cuMemcpyDtoDAsync(POINTER(dst), POINTER(src), count, stream));
}

/* ---- pointers
 * --------------------------------------------------------------------------------------------------------------
 */

cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                               const void *ptr) {
    unsigned type;
    unsigned char managed = 0;
    ENTER();
    CHECK(attributes, cudaErrorInvalidValue);
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

/* ---- managed memory
 * --------------------------------------------------------------------------------------------------------
 */

CUmemLocation runtime_location(int device) {
    if (device == cudaCpuDeviceId)
        return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

FORWARD(cudaMemRangeGetAttribute,
        cuMemRangeGetAttribute(data, dataSize, (CUmem_range_attribute)attribute, POINTER(devPtr),
                               count))

cudaError_t CUDARTAPI cudaMemRangeGetAttributes(void **data, size_t *dataSizes,
                                                enum cudaMemRangeAttribute *attributes,
                                                size_t numAttributes, const void *devPtr,
                                                size_t count) {
    CHECK(data && dataSizes && attributes && numAttributes, cudaErrorInvalidValue);
    for (size_t i = 0; i < numAttributes; i++)
        TRY(cudaMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr, count));
    return cudaSuccess;
}

#if RUNTIME_MAJOR >= 13
#define cudaMemAdvise_v2 cudaMemAdvise
#else
FORWARD(cudaMemAdvise,
        cuMemAdvise_v2(POINTER(devPtr), count, (CUmem_advise)advice, runtime_location(device)))
#endif

FORWARD(cudaMemAdvise_v2, cuMemAdvise_v2(POINTER(devPtr), count, (CUmem_advise)advice,
                                         (CUmemLocation){.type = (CUmemLocationType)location.type,
                                                         .id = location.id}))
