/* The types and numbers of HIP's runtime API that the stand-in uses. calls.md has the signatures.
 */
#ifndef HIP_API_H
#define HIP_API_H

#include <stddef.h>
#include <stdint.h>

typedef int hipError_t;
typedef void *hipCtx_t, *hipModule_t, *hipFunction_t, *hipStream_t, *hipEvent_t, *hipGraph_t,
    *hipGraphNode_t, *hipGraphExec_t;
typedef void (*hipHostFn_t)(void *data);
typedef int hipDeviceAttribute_t, hipFunction_attribute, hipMemcpyKind, hipStreamCaptureMode,
    hipStreamCaptureStatus;
typedef void hipDeviceProp_tR0000, hipDeviceProp_tR0600;
typedef struct {
    int type, device;
    void *devicePointer, *hostPointer;
    int isManaged;
    unsigned allocationFlags;
} hipPointerAttribute_t;

/* Errors that CUDA's driver does not have, or has with another name (codes.h has the others). */
enum {
    hipErrorInvalidConfiguration = 9,
    hipErrorInvalidMemcpyDirection = 21,
};

enum {
    hipMemcpyHostToHost,
    hipMemcpyHostToDevice,
    hipMemcpyDeviceToHost,
    hipMemcpyDeviceToDevice,
    hipMemcpyDefault
};
enum { hipEventBlockingSync = 1, hipEventDisableTiming = 2, hipEventInterprocess = 4 };
enum { hipHostMallocPortable = 1, hipHostMallocMapped = 2, hipHostMallocWriteCombined = 4 };

/* The last entry of `extra` of a launch. */
enum { HIP_LAUNCH_PARAM_END = 3 };

enum {
    HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
    HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
    HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
    HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
    HIP_FUNC_ATTRIBUTE_NUM_REGS,
    HIP_FUNC_ATTRIBUTE_PTX_VERSION,
    HIP_FUNC_ATTRIBUTE_BINARY_VERSION,
    HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA,
    HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
    HIP_FUNC_ATTRIBUTE_MAX,
};

/* hipDeviceAttribute_t. A build writes the file, of attributes.txt. */
#define ATTRIBUTE(name, number, ...) hipDeviceAttribute##name = number,
enum {
#include "attributes.h"
    hipDeviceAttributes = 20000,
};
#undef ATTRIBUTE

#endif
