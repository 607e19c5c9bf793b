/* The names and the texts of CUDA's errors. A text is the name in words. */
#define _GNU_SOURCE
#include "cuda_standin.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define NAMES(NAME)                                                                                                              \
    NAME(CUDA_SUCCESS)    NAME(CUDA_ERROR_INVALID_VALUE)    NAME(CUDA_ERROR_OUT_OF_MEMORY) \
    NAME(CUDA_ERROR_NOT_INITIALIZED)    NAME(CUDA_ERROR_DEINITIALIZED)    NAME(CUDA_ERROR_PROFILER_DISABLED) \
    NAME(CUDA_ERROR_PROFILER_NOT_INITIALIZED)    NAME(CUDA_ERROR_PROFILER_ALREADY_STARTED)    NAME(CUDA_ERROR_PROFILER_ALREADY_STOPPED) \
    NAME(CUDA_ERROR_STUB_LIBRARY)    NAME(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER)    NAME(CUDA_ERROR_DEVICE_UNAVAILABLE) \
    NAME(CUDA_ERROR_MULTICAST_RESOURCE_FULL)    NAME(CUDA_ERROR_NO_DEVICE)    NAME(CUDA_ERROR_INVALID_DEVICE) \
    NAME(CUDA_ERROR_DEVICE_NOT_LICENSED)    NAME(CUDA_ERROR_INVALID_IMAGE)    NAME(CUDA_ERROR_INVALID_CONTEXT) \
    NAME(CUDA_ERROR_CONTEXT_ALREADY_CURRENT)    NAME(CUDA_ERROR_MAP_FAILED)    NAME(CUDA_ERROR_UNMAP_FAILED) \
    NAME(CUDA_ERROR_ARRAY_IS_MAPPED)    NAME(CUDA_ERROR_ALREADY_MAPPED)    NAME(CUDA_ERROR_NO_BINARY_FOR_GPU) \
    NAME(CUDA_ERROR_ALREADY_ACQUIRED)    NAME(CUDA_ERROR_NOT_MAPPED)    NAME(CUDA_ERROR_NOT_MAPPED_AS_ARRAY) \
    NAME(CUDA_ERROR_NOT_MAPPED_AS_POINTER)    NAME(CUDA_ERROR_ECC_UNCORRECTABLE)    NAME(CUDA_ERROR_UNSUPPORTED_LIMIT) \
    NAME(CUDA_ERROR_CONTEXT_ALREADY_IN_USE)    NAME(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)    NAME(CUDA_ERROR_INVALID_PTX) \
    NAME(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)    NAME(CUDA_ERROR_NVLINK_UNCORRECTABLE)    NAME(CUDA_ERROR_JIT_COMPILER_NOT_FOUND) \
    NAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION)    NAME(CUDA_ERROR_JIT_COMPILATION_DISABLED)    NAME(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY) \
    NAME(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC)    NAME(CUDA_ERROR_CONTAINED)    NAME(CUDA_ERROR_INSUFFICIENT_LOADER_VERSION) \
    NAME(CUDA_ERROR_INVALID_SOURCE)    NAME(CUDA_ERROR_FILE_NOT_FOUND)    NAME(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND) \
    NAME(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED)    NAME(CUDA_ERROR_OPERATING_SYSTEM)    NAME(CUDA_ERROR_INVALID_HANDLE) \
    NAME(CUDA_ERROR_ILLEGAL_STATE)    NAME(CUDA_ERROR_LOSSY_QUERY)    NAME(CUDA_ERROR_NOT_FOUND) \
    NAME(CUDA_ERROR_NOT_READY)    NAME(CUDA_ERROR_ILLEGAL_ADDRESS)    NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) \
    NAME(CUDA_ERROR_LAUNCH_TIMEOUT)    NAME(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING)    NAME(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) \
    NAME(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)    NAME(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE)    NAME(CUDA_ERROR_CONTEXT_IS_DESTROYED) \
    NAME(CUDA_ERROR_ASSERT)    NAME(CUDA_ERROR_TOO_MANY_PEERS)    NAME(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) \
    NAME(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)    NAME(CUDA_ERROR_HARDWARE_STACK_ERROR)    NAME(CUDA_ERROR_ILLEGAL_INSTRUCTION) \
    NAME(CUDA_ERROR_MISALIGNED_ADDRESS)    NAME(CUDA_ERROR_INVALID_ADDRESS_SPACE)    NAME(CUDA_ERROR_INVALID_PC) \
    NAME(CUDA_ERROR_LAUNCH_FAILED)    NAME(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)    NAME(CUDA_ERROR_TENSOR_MEMORY_LEAK) \
    NAME(CUDA_ERROR_NOT_PERMITTED)    NAME(CUDA_ERROR_NOT_SUPPORTED)    NAME(CUDA_ERROR_SYSTEM_NOT_READY) \
    NAME(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)    NAME(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE)    NAME(CUDA_ERROR_MPS_CONNECTION_FAILED) \
    NAME(CUDA_ERROR_MPS_RPC_FAILURE)    NAME(CUDA_ERROR_MPS_SERVER_NOT_READY)    NAME(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED) \
    NAME(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED)    NAME(CUDA_ERROR_MPS_CLIENT_TERMINATED)    NAME(CUDA_ERROR_CDP_NOT_SUPPORTED) \
    NAME(CUDA_ERROR_CDP_VERSION_MISMATCH)    NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)    NAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) \
    NAME(CUDA_ERROR_STREAM_CAPTURE_MERGE)    NAME(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)    NAME(CUDA_ERROR_STREAM_CAPTURE_UNJOINED) \
    NAME(CUDA_ERROR_STREAM_CAPTURE_ISOLATION)    NAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)    NAME(CUDA_ERROR_CAPTURED_EVENT) \
    NAME(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)    NAME(CUDA_ERROR_TIMEOUT)    NAME(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) \
    NAME(CUDA_ERROR_EXTERNAL_DEVICE)    NAME(CUDA_ERROR_INVALID_CLUSTER_SIZE)    NAME(CUDA_ERROR_FUNCTION_NOT_LOADED) \
    NAME(CUDA_ERROR_INVALID_RESOURCE_TYPE)    NAME(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION)    NAME(CUDA_ERROR_KEY_ROTATION) \
    NAME(CUDA_ERROR_STREAM_DETACHED)    NAME(CUDA_ERROR_GRAPH_RECAPTURE_FAILURE)    NAME(CUDA_ERROR_FABRIC_NOT_READY) \
    NAME(CUDA_ERROR_UNKNOWN)

static const struct {
    CUresult code;
    const char *name;
} names[] = {
#define NAME(name) {name, #name},
    NAMES(NAME)
};

enum { COUNT = sizeof names / sizeof names[0] };

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **pStr)
{
    CHECK(pStr, CUDA_ERROR_INVALID_VALUE);
    *pStr = NULL;
    for (int i = 0; i < COUNT && !*pStr; i++)
        if (names[i].code == error)
            *pStr = names[i].name;
    return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **pStr)
{
    static char texts[COUNT][64];
    CHECK(pStr, CUDA_ERROR_INVALID_VALUE);
    *pStr = NULL;
    for (int i = 0; i < COUNT; i++) {
        if (names[i].code != error)
            continue;
        const char *name = strncmp(names[i].name, "CUDA_ERROR_", 11) == 0 ? names[i].name + 11 : "NO_ERROR";
        char text[64];
        size_t length = 0;
        for (; name[length] && length + 1 < sizeof text; length++)
            text[length] = name[length] == '_' ? ' ' : (char)tolower((unsigned char)name[length]);
        text[length] = 0;
        memcpy(texts[i], text, sizeof text); /* the same bytes each time, so threads do not matter */
        *pStr = texts[i];
    }
    return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Functions that are newer than CUDA 12.0, with the version of their first driver. */
static const struct {
    const char *name;
    int version;
} since[] = {
    {"cuCtxCreate_v4", 12050}, {"cuFuncGetParamInfo", 12040}, {"cuKernelGetParamInfo", 12040}, {"cuEventElapsedTime_v2", 12080},
    {"cuFuncGetName", 12030}, {"cuKernelGetName", 12030}, {"cuLibraryGetKernelCount", 12040}, {"cuLibraryEnumerateKernels", 12040},
    {"cuModuleGetFunctionCount", 12040}, {"cuModuleEnumerateFunctions", 12040}, {"cuStreamBeginCaptureToGraph", 12030},
    {"cuStreamGetCaptureInfo_v3", 12030}, {"cuStreamGetDevice", 12080}, {"cuFuncGetParamCount", 13010},
};

static int first_version(const char *name)
{
    for (size_t i = 0; i < sizeof since / sizeof since[0]; i++)
        if (strcmp(since[i].name, name) == 0)
            return since[i].version;
    return 0;
}

/* Each function that this library exports is found, the newest form that the version asked for and the driver have. */
CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *symbolStatus)
{
    static void *self;
    (void)flags; /* the forms for a default stream of each thread are those of the legacy one: tests name their streams */
    CHECK(symbol && pfn, CUDA_ERROR_INVALID_VALUE);
    if (!self) {
        Dl_info info;
        if (dladdr((void *)cuGetProcAddress, &info))
            self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *pfn = NULL;
    for (int form = 4; form >= 1 && self && !*pfn; form--) {
        char name[128];
        snprintf(name, sizeof name, form > 1 ? "%s_v%d" : "%s", symbol, form);
        void *function = strncmp(symbol, "cu", 2) == 0 ? dlsym(self, name) : NULL;
        if (!function)
            continue;
        if (first_version(name) > cudaVersion || first_version(name) > driver_version())
            status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        else
            *pfn = function;
    }
    if (*pfn)
        status = CU_GET_PROC_ADDRESS_SUCCESS;
    if (symbolStatus)
        *symbolStatus = status;
    return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
