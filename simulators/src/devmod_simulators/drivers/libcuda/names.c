/* The names and the texts of CUDA's errors, and the functions by name. */
#define _GNU_SOURCE
#include "cuda_standin.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define NAME(name) name, #name
/* Headers of CUDA 13.0 lack some codes, and those of this version have all. */
#define NEWEST 13050

/* The texts are those of NVIDIA's libcuda, and of libcudart for codes that are newer than
 * CUDA 12.5. That of 47 is a guess. */
static const struct {
    CUresult code;
    const char *name, *text;
} names[] = {
    {NAME(CUDA_SUCCESS), "no error"},
    {NAME(CUDA_ERROR_INVALID_VALUE), "invalid argument"},
    {NAME(CUDA_ERROR_OUT_OF_MEMORY), "out of memory"},
    {NAME(CUDA_ERROR_NOT_INITIALIZED), "initialization error"},
    {NAME(CUDA_ERROR_DEINITIALIZED), "driver shutting down"},
    {NAME(CUDA_ERROR_PROFILER_DISABLED), "profiler disabled while using external profiling tool"},
    {NAME(CUDA_ERROR_PROFILER_NOT_INITIALIZED),
     "profiler not initialized: call cudaProfilerInitialize()"},
    {NAME(CUDA_ERROR_PROFILER_ALREADY_STARTED), "profiler already started"},
    {NAME(CUDA_ERROR_PROFILER_ALREADY_STOPPED), "profiler already stopped"},
    {NAME(CUDA_ERROR_STUB_LIBRARY), "CUDA driver is a stub library"},
    {NAME(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER),
     "API call is not supported in the installed CUDA driver"},
    {NAME(CUDA_ERROR_DEVICE_UNAVAILABLE), "CUDA-capable device(s) is/are busy or unavailable"},
#if CUDA_VERSION >= NEWEST
    {NAME(CUDA_ERROR_MULTICAST_RESOURCE_FULL), "multicast resource full"},
#endif
    {NAME(CUDA_ERROR_NO_DEVICE), "no CUDA-capable device is detected"},
    {NAME(CUDA_ERROR_INVALID_DEVICE), "invalid device ordinal"},
    {NAME(CUDA_ERROR_DEVICE_NOT_LICENSED), "device doesn't have valid Grid license"},
    {NAME(CUDA_ERROR_INVALID_IMAGE), "device kernel image is invalid"},
    {NAME(CUDA_ERROR_INVALID_CONTEXT), "invalid device context"},
    {NAME(CUDA_ERROR_CONTEXT_ALREADY_CURRENT), "context already current"},
    {NAME(CUDA_ERROR_MAP_FAILED), "mapping of buffer object failed"},
    {NAME(CUDA_ERROR_UNMAP_FAILED), "unmapping of buffer object failed"},
    {NAME(CUDA_ERROR_ARRAY_IS_MAPPED), "array is mapped"},
    {NAME(CUDA_ERROR_ALREADY_MAPPED), "resource already mapped"},
    {NAME(CUDA_ERROR_NO_BINARY_FOR_GPU),
     "no kernel image is available for execution on the device"},
    {NAME(CUDA_ERROR_ALREADY_ACQUIRED), "resource already acquired"},
    {NAME(CUDA_ERROR_NOT_MAPPED), "resource not mapped"},
    {NAME(CUDA_ERROR_NOT_MAPPED_AS_ARRAY), "resource not mapped as array"},
    {NAME(CUDA_ERROR_NOT_MAPPED_AS_POINTER), "resource not mapped as pointer"},
    {NAME(CUDA_ERROR_ECC_UNCORRECTABLE), "uncorrectable ECC error encountered"},
    {NAME(CUDA_ERROR_UNSUPPORTED_LIMIT), "limit is not supported on this architecture"},
    {NAME(CUDA_ERROR_CONTEXT_ALREADY_IN_USE),
     "exclusive-thread device already in use by a different thread"},
    {NAME(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED),
     "peer access is not supported between these two devices"},
    {NAME(CUDA_ERROR_INVALID_PTX), "a PTX JIT compilation failed"},
    {NAME(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT), "invalid OpenGL or DirectX context"},
    {NAME(CUDA_ERROR_NVLINK_UNCORRECTABLE),
     "uncorrectable NVLink error detected during the execution"},
    {NAME(CUDA_ERROR_JIT_COMPILER_NOT_FOUND), "PTX JIT compiler library not found"},
    {NAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
     "the provided PTX was compiled with an unsupported toolchain."},
    {NAME(CUDA_ERROR_JIT_COMPILATION_DISABLED), "PTX JIT compilation was disabled"},
    {NAME(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY),
     "the provided execution affinity is not supported"},
    {NAME(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC),
     "the provided PTX contains unsupported call to cudaDeviceSynchronize"},
    {NAME(CUDA_ERROR_CONTAINED),
     "Invalid access of peer GPU memory over nvlink or a hardware error"},
#if CUDA_VERSION >= NEWEST
    {NAME(CUDA_ERROR_INSUFFICIENT_LOADER_VERSION), "Loader version is insufficient for fatbin"},
#endif
    {NAME(CUDA_ERROR_INVALID_SOURCE), "device kernel image is invalid"},
    {NAME(CUDA_ERROR_FILE_NOT_FOUND), "file not found"},
    {NAME(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND), "shared object symbol not found"},
    {NAME(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED), "shared object initialization failed"},
    {NAME(CUDA_ERROR_OPERATING_SYSTEM), "OS call failed or operation not supported on this OS"},
    {NAME(CUDA_ERROR_INVALID_HANDLE), "invalid resource handle"},
    {NAME(CUDA_ERROR_ILLEGAL_STATE), "the operation cannot be performed in the present state"},
    {NAME(CUDA_ERROR_LOSSY_QUERY), "attempted introspection would be semantically lossy"},
    {NAME(CUDA_ERROR_NOT_FOUND), "named symbol not found"},
    {NAME(CUDA_ERROR_NOT_READY), "device not ready"},
    {NAME(CUDA_ERROR_ILLEGAL_ADDRESS), "an illegal memory access was encountered"},
    {NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES), "too many resources requested for launch"},
    {NAME(CUDA_ERROR_LAUNCH_TIMEOUT), "the launch timed out and was terminated"},
    {NAME(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING), "launch uses incompatible texturing mode"},
    {NAME(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED), "peer access is already enabled"},
    {NAME(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED), "peer access has not been enabled"},
    {NAME(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE), "cannot set while device is active in this process"},
    {NAME(CUDA_ERROR_CONTEXT_IS_DESTROYED), "context is destroyed"},
    {NAME(CUDA_ERROR_ASSERT), "device-side assert triggered"},
    {NAME(CUDA_ERROR_TOO_MANY_PEERS), "peer mapping resources exhausted"},
    {NAME(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
     "part or all of the requested memory range is already mapped"},
    {NAME(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
     "pointer does not correspond to a registered memory region"},
    {NAME(CUDA_ERROR_HARDWARE_STACK_ERROR), "hardware stack error"},
    {NAME(CUDA_ERROR_ILLEGAL_INSTRUCTION), "an illegal instruction was encountered"},
    {NAME(CUDA_ERROR_MISALIGNED_ADDRESS), "misaligned address"},
    {NAME(CUDA_ERROR_INVALID_ADDRESS_SPACE),
     "operation not supported on global/shared address space"},
    {NAME(CUDA_ERROR_INVALID_PC), "invalid program counter"},
    {NAME(CUDA_ERROR_LAUNCH_FAILED), "unspecified launch failure"},
    {NAME(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE), "too many blocks in cooperative launch"},
    {NAME(CUDA_ERROR_TENSOR_MEMORY_LEAK), "tensor memory not completely freed"},
    {NAME(CUDA_ERROR_NOT_PERMITTED), "operation not permitted"},
    {NAME(CUDA_ERROR_NOT_SUPPORTED), "operation not supported"},
    {NAME(CUDA_ERROR_SYSTEM_NOT_READY), "system not yet initialized"},
    {NAME(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH),
     "system has unsupported display driver / cuda driver combination"},
    {NAME(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE),
     "forward compatibility was attempted on non supported HW"},
    {NAME(CUDA_ERROR_MPS_CONNECTION_FAILED),
     "MPS client failed to connect to the MPS control daemon or the MPS server"},
    {NAME(CUDA_ERROR_MPS_RPC_FAILURE),
     "the remote procedural call between the MPS server and the MPS client failed"},
    {NAME(CUDA_ERROR_MPS_SERVER_NOT_READY),
     "MPS server is not ready to accept new MPS client requests"},
    {NAME(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED),
     "the hardware resources required to create MPS client have been exhausted"},
    {NAME(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED),
     "the hardware resources required to support device connections have been exhausted"},
    {NAME(CUDA_ERROR_MPS_CLIENT_TERMINATED), "the MPS client has been terminated by the server"},
    {NAME(CUDA_ERROR_CDP_NOT_SUPPORTED),
     "is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it"},
    {NAME(CUDA_ERROR_CDP_VERSION_MISMATCH),
     "unsupported interaction between different versions of CUDA Dynamic Parallelism"},
    {NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
     "operation not permitted when stream is capturing"},
    {NAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
     "operation failed due to a previous error during capture"},
    {NAME(CUDA_ERROR_STREAM_CAPTURE_MERGE),
     "operation would result in a merge of separate capture sequences"},
    {NAME(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED),
     "capture was not ended in the same stream as it began"},
    {NAME(CUDA_ERROR_STREAM_CAPTURE_UNJOINED), "capturing stream has unjoined work"},
    {NAME(CUDA_ERROR_STREAM_CAPTURE_ISOLATION),
     "dependency created on uncaptured work in another stream"},
    {NAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {NAME(CUDA_ERROR_CAPTURED_EVENT),
     "operation not permitted on an event last recorded in a capturing stream"},
    {NAME(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD),
     "attempt to terminate a thread-local capture sequence from another thread"},
    {NAME(CUDA_ERROR_TIMEOUT), "wait operation timed out"},
    {NAME(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE),
     "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"},
    {NAME(CUDA_ERROR_EXTERNAL_DEVICE),
     "an async error has occured in external entity outside of CUDA"},
    {NAME(CUDA_ERROR_INVALID_CLUSTER_SIZE),
     "a kernel launch error has occurred due to cluster misconfiguration"},
    {NAME(CUDA_ERROR_FUNCTION_NOT_LOADED),
     "the function handle is not loaded when calling an API that requires a loaded function"},
    {NAME(CUDA_ERROR_INVALID_RESOURCE_TYPE),
     "one or more resources passed in are not valid resource types for the operation"},
    {NAME(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION),
     "one or more resources are insufficient or non-applicable for the operation"},
    {NAME(CUDA_ERROR_KEY_ROTATION), "an error happened during the key rotation sequence"},
#if CUDA_VERSION >= NEWEST
    {NAME(CUDA_ERROR_STREAM_DETACHED),
     "API call not permitted since the green context associated with the stream has been destroyed"},
    {NAME(CUDA_ERROR_GRAPH_RECAPTURE_FAILURE),
     "recapturing to the source graph failed and had to be terminated"},
    {NAME(CUDA_ERROR_FABRIC_NOT_READY),
     "GPU fabric is not ready within the probe wait budget; application may retry (see CUDA_FABRIC_INIT_TIMEOUT_MS)"},
#endif
    {NAME(CUDA_ERROR_UNKNOWN), "unknown error"},
};

enum { COUNT = sizeof names / sizeof names[0] };

static CUresult find(CUresult error, const char **result, bool is_text) {
    CHECK(result, CUDA_ERROR_INVALID_VALUE); /* NVIDIA's library ends the process */
    *result = NULL;
    for (int i = 0; i < COUNT && !*result; i++)
        if (names[i].code == error)
            *result = is_text ? names[i].text : names[i].name;
    return *result ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **pStr) {
    return find(error, pStr, false);
}

/* The text of a kernel's failure has the reason: most programs show nothing else of it. */
CUresult CUDAAPI cuGetErrorString(CUresult error, const char **pStr) {
    static const char *latest;
    static char *text;
    TRY(find(error, pStr, true));
    pthread_mutex_lock(&big_lock);
    const char *reason = failure_reason((int)error);
    if (reason && reason != latest && asprintf(&text, "%s: %s", *pStr, reason) > 0)
        latest = reason;
    if (reason && reason == latest)
        *pStr = text;
    pthread_mutex_unlock(&big_lock);
    return CUDA_SUCCESS;
}

/* The version of CUDA in which cuGetProcAddress first returns a function, for those that are newer
 * than 10.2. */
static const struct {
    const char *name;
    int version;
} since[] = {
#include "first_versions.h" /* a build writes it, from NVIDIA's header */
};

static int first_version(const char *name) {
    for (size_t i = 0; i < sizeof since / sizeof since[0]; i++)
        if (strcmp(since[i].name, name) == 0)
            return since[i].version;
    return 0;
}

/* Return whether a name ends with a version, as in cuMemAlloc_v2: such names are those of the
 * library, and not of the API. */
static bool has_form(const char *symbol) {
    size_t length = strlen(symbol);
    return length > 3 && symbol[length - 3] == '_' && symbol[length - 2] == 'v' &&
           isdigit((unsigned char)symbol[length - 1]);
}

/* Each function that this library exports is found, the newest form that the version asked for and
   the driver have. As in NVIDIA's library a missing function is no error: *pfn is NULL, and the
   status has the reason. It calls what this library has of a newer driver unknown. */
CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *symbolStatus) {
    static void *self;
    CHECK(symbol && pfn, CUDA_ERROR_INVALID_VALUE); /* NVIDIA's library ends the process */
    /* The forms for a default stream of each thread are those of the legacy one: tests name their
     * streams. */
    CHECK(flags <= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, CUDA_ERROR_INVALID_VALUE);
    if (!self) {
        Dl_info info;
        if (dladdr((void *)cuGetProcAddress, &info))
            self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *pfn = NULL;
    for (int form = 4; form >= 1 && self && !*pfn && !has_form(symbol); form--) {
        char name[128];
        snprintf(name, sizeof name, form > 1 ? "%s_v%d" : "%s", symbol, form);
        void *function = strncmp(symbol, "cu", 2) == 0 ? dlsym(self, name) : NULL;
        if (!function || first_version(name) > driver_version())
            continue;
        if (first_version(name) > cudaVersion)
            status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        else
            *pfn = function;
    }
    if (*pfn)
        status = CU_GET_PROC_ADDRESS_SUCCESS;
    if (symbolStatus)
        *symbolStatus = status;
    return CUDA_SUCCESS;
}

/* Programs that were built before CUDA 12, and libraries that look the name up, call the form
 * without a status: a missing function is an error. */
#undef cuGetProcAddress
CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
                                  cuuint64_t flags) {
    TRY(cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, NULL));
    return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
