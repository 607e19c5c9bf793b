/* Devices: their number, the one of each thread, its context, limits, peers. */
#include "runtime.h"

enum { MOST_DEVICES = 64 };

/* The runtime's numbers of attributes and limits are the driver's. */
_Static_assert((int)cudaDevAttrHostNumaId == (int)CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, "attributes");
_Static_assert((int)cudaLimitPersistingL2CacheSize == (int)CU_LIMIT_PERSISTING_L2_CACHE_SIZE,
               "limits");

static unsigned flags_of[MOST_DEVICES]; /* by cudaSetDeviceFlags and cudaInitDevice */

cudaError_t CUDARTAPI cudaGetDeviceCount(int *count) {
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

cudaError_t CUDARTAPI cudaSetDevice(int device) {
    TRY(check_device(device));
    TRY(runtime_choose(device));
    FINISH(runtime_place_managed());
}

cudaError_t CUDARTAPI cudaGetDevice(int *device) {
    return runtime_device(device);
}

cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
    TRY(check_device(device));
    CHECK(!(flags & ~(unsigned)cudaInitDeviceFlagsAreValid), cudaErrorInvalidValue);
    if (flags & cudaInitDeviceFlagsAreValid)
        flags_of[device] = deviceFlags;
    FINISH(runtime_primary(device, NULL));
}

cudaError_t CUDARTAPI cudaSetValidDevices(int *device_arr, int len) {
    CHECK(device_arr || !len, cudaErrorInvalidValue);
    for (int i = 0; i < len; i++)
        TRY(check_device(device_arr[i]));
    return cudaSuccess; /* all are valid: cudaSetDevice chooses */
}

cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned int flags) {
    int device;
    TRY(runtime_device(&device));
    CHECK(!(flags & ~(unsigned)cudaDeviceMask), cudaErrorInvalidValue);
    flags_of[device] = flags;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned int *flags) {
    int device;
    CHECK(flags, cudaErrorInvalidValue);
    TRY(runtime_device(&device));
    *flags = flags_of[device] | cudaDeviceMapHost; /* which each context has */
    return cudaSuccess;
}

FORWARD(cudaDeviceSynchronize, cuCtxSynchronize())

/* As in NVIDIA's library the primary context goes, and the next call begins it again. */
cudaError_t CUDARTAPI cudaDeviceReset(void) {
    int device;
    TRY(runtime_device(&device));
    TRY(cuDevicePrimaryCtxReset(device));
    runtime_forget_managed();
    flags_of[device] = 0;
    return cudaSuccess;
}

/* ---- what a device is
 * ----------------------------------------------------------------------------------------------------------------
 */

FORWARD_STARTED(cudaDeviceGetAttribute,
                cuDeviceGetAttribute(value, (CUdevice_attribute)attr, device))
FORWARD_STARTED(cudaDeviceGetPCIBusId, cuDeviceGetPCIBusId(pciBusId, len, device))
FORWARD_STARTED(cudaDeviceGetByPCIBusId, cuDeviceGetByPCIBusId(device, pciBusId))

/* Return the first device that has what is asked for, else the first. */
cudaError_t CUDARTAPI cudaChooseDevice(int *device, const struct cudaDeviceProp *prop) {
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

/* ---- limits and caches
 * ------------------------------------------------------------------------------------------------------------------
 */

FORWARD(cudaDeviceSetLimit, cuCtxSetLimit((CUlimit)limit, value))
FORWARD(cudaDeviceGetLimit, cuCtxGetLimit(pValue, (CUlimit)limit))
FORWARD(cudaDeviceSetCacheConfig, cuCtxSetCacheConfig((CUfunc_cache)cacheConfig))
FORWARD(cudaDeviceGetCacheConfig, cuCtxGetCacheConfig((CUfunc_cache *)pCacheConfig))

/* The banks of shared memory have four bytes since compute capability 5.0. */
FORWARD(cudaDeviceSetSharedMemConfig, ((void)config, cudaSuccess))

cudaError_t CUDARTAPI cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *pConfig) {
    ENTER();
    CHECK(pConfig, cudaErrorInvalidValue);
    *pConfig = cudaSharedMemBankSizeFourByte;
    return cudaSuccess;
}

FORWARD(cudaCtxResetPersistingL2Cache, cudaSuccess)

/* ---- peers
 * --------------------------------------------------------------------------------------------------------------------
 */

FORWARD_STARTED(cudaDeviceCanAccessPeer, cuDeviceCanAccessPeer(canAccessPeer, device, peerDevice))
FORWARD_STARTED(cudaDeviceGetP2PAttribute,
                cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attr, srcDevice, dstDevice))

cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
    CUcontext peer;
    ENTER();
    CHECK(!flags, cudaErrorInvalidValue);
    TRY(check_device(peerDevice));
    TRY(runtime_primary(peerDevice, &peer));
    FINISH(cuCtxEnablePeerAccess(peer, flags));
}

cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peerDevice) {
    CUcontext peer;
    ENTER();
    TRY(check_device(peerDevice));
    TRY(runtime_primary(peerDevice, &peer));
    FINISH(cuCtxDisablePeerAccess(peer));
}

#if RUNTIME_MAJOR == 12
/* The names of before CUDA 4. */
#define ALIAS(name) __attribute__((alias(name)))

cudaError_t CUDARTAPI cudaThreadSynchronize(void) ALIAS("cudaDeviceSynchronize");
cudaError_t CUDARTAPI cudaThreadExit(void) ALIAS("cudaDeviceReset");
cudaError_t CUDARTAPI cudaThreadSetLimit(enum cudaLimit, size_t) ALIAS("cudaDeviceSetLimit");
cudaError_t CUDARTAPI cudaThreadGetLimit(size_t *, enum cudaLimit) ALIAS("cudaDeviceGetLimit");
cudaError_t CUDARTAPI cudaThreadSetCacheConfig(enum cudaFuncCache)
    ALIAS("cudaDeviceSetCacheConfig");
cudaError_t CUDARTAPI cudaThreadGetCacheConfig(enum cudaFuncCache *)
    ALIAS("cudaDeviceGetCacheConfig");
#endif
