/* Devices: their number, the one of each thread, its context, limits, peers. */
#include "runtime.h"

/* The runtime's numbers of attributes and limits are the driver's. */
_Static_assert((int)cudaDevAttrHostNumaId == (int)CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, "attributes");
_Static_assert((int)cudaLimitPersistingL2CacheSize == (int)CU_LIMIT_PERSISTING_L2_CACHE_SIZE,
               "limits");

static unsigned flags_of[MOST_DEVICES]; /* by cudaSetDeviceFlags and cudaInitDevice */

ENTRY(cudaGetDeviceCount) {
    CHECK(count, cudaErrorInvalidValue);
    *count = 0;
    TRY(runtime_start());
    FINISH(cuDeviceGetCount(count));
}

static cudaError_t check_device(int device) {
    int count;
    TRY(runtime_start());
    TRY(cuDeviceGetCount(&count));
    CHECK(device >= 0 && device < count && device < MOST_DEVICES, cudaErrorInvalidDevice);
    return cudaSuccess;
}

ENTRY(cudaSetDevice) {
    TRY(check_device(device));
    TRY(runtime_choose(device));
    FINISH(runtime_place_managed());
}

ENTRY(cudaGetDevice) {
    return runtime_device(device);
}

ENTRY(cudaInitDevice) {
    TRY(check_device(device));
    CHECK(!(flags & ~(unsigned)cudaInitDeviceFlagsAreValid), cudaErrorInvalidValue);
    if (flags & cudaInitDeviceFlagsAreValid)
        flags_of[device] = deviceFlags;
    FINISH(runtime_primary(device, NULL));
}

ENTRY(cudaSetValidDevices) {
    CHECK(device_arr || !len, cudaErrorInvalidValue);
    for (int i = 0; i < len; i++)
        TRY(check_device(device_arr[i]));
    return cudaSuccess; /* all are valid: cudaSetDevice chooses */
}

ENTRY(cudaSetDeviceFlags) {
    int device;
    TRY(runtime_device(&device));
    CHECK(!(flags & ~(unsigned)cudaDeviceMask), cudaErrorInvalidValue);
    flags_of[device] = flags;
    return cudaSuccess;
}

ENTRY(cudaGetDeviceFlags) {
    int device;
    CHECK(flags, cudaErrorInvalidValue);
    TRY(runtime_device(&device));
    *flags = flags_of[device] | cudaDeviceMapHost; /* which each context has */
    return cudaSuccess;
}

/* As in NVIDIA's library the primary context goes, and the next call begins it again. */
ENTRY(cudaDeviceReset) {
    int device;
    TRY(runtime_device(&device));
    TRY(cuDevicePrimaryCtxReset(device));
    runtime_forget_managed();
    flags_of[device] = 0;
    return cudaSuccess;
}

/* ---- what a device is */

FORWARD_STARTED(cudaDeviceGetAttribute,
                cuDeviceGetAttribute(value, (CUdevice_attribute)attr, device))
FORWARD_STARTED(cudaDeviceGetPCIBusId, cuDeviceGetPCIBusId(pciBusId, len, device))
FORWARD_STARTED(cudaDeviceGetByPCIBusId, cuDeviceGetByPCIBusId(device, pciBusId))

/* Return the first device that has what is asked for, else the first. */
ENTRY(cudaChooseDevice) {
    int count;
    struct cudaDeviceProp own;
    CHECK(device && prop, cudaErrorInvalidValue);
    TRY(cudaGetDeviceCount(&count));
    *device = 0;
    for (int i = 0; i < count; i++) {
        TRY(cudaGetDeviceProperties(&own, i));
        int capability = own.major * 10 + own.minor;
        if (capability < prop->major * 10 + prop->minor)
            continue;
        if (own.totalGlobalMem < prop->totalGlobalMem)
            continue;
        if (own.multiProcessorCount < prop->multiProcessorCount)
            continue;
        *device = i;
        return cudaSuccess;
    }
    return cudaSuccess;
}

/* ---- limits and caches */

/* The banks of shared memory have four bytes since compute capability 5.0. */
FORWARD(cudaDeviceSetSharedMemConfig, cudaSuccess)

API_IF(pConfig, cudaDeviceGetSharedMemConfig) {
    *pConfig = cudaSharedMemBankSizeFourByte;
    return cudaSuccess;
}

FORWARD(cudaCtxResetPersistingL2Cache, cudaSuccess)

/* ---- peers */

FORWARD_STARTED(cudaDeviceCanAccessPeer, cuDeviceCanAccessPeer(canAccessPeer, device, peerDevice))
FORWARD_STARTED(cudaDeviceGetP2PAttribute,
                cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attr, srcDevice, dstDevice))

API_IF(!flags, cudaDeviceEnablePeerAccess) {
    CUcontext peer;
    TRY(check_device(peerDevice));
    TRY(runtime_primary(peerDevice, &peer));
    FINISH(cuCtxEnablePeerAccess(peer, flags));
}

API(cudaDeviceDisablePeerAccess) {
    CUcontext peer;
    TRY(check_device(peerDevice));
    TRY(runtime_primary(peerDevice, &peer));
    FINISH(cuCtxDisablePeerAccess(peer));
}

#if RUNTIME_MAJOR == 12 /* the name of before CUDA 4 */
cudaError_t CUDARTAPI cudaThreadExit(void) __attribute__((alias("cudaDeviceReset")));
#endif
