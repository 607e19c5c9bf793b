/* Functions of the driver by name. per_thread.c compiles this file again. */
#include "runtime.h"

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
enum { DEFAULT_FLAGS = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM };
#else
enum { DEFAULT_FLAGS = CU_GET_PROC_ADDRESS_LEGACY_STREAM };
#endif

static cudaError_t get_entry(const char *symbol, void **function, unsigned version,
                             unsigned long long flags,
                             enum cudaDriverEntryPointQueryResult *status) {
    CUdriverProcAddressQueryResult result;
    TRY(runtime_start());
    CHECK(symbol && *symbol && function, cudaErrorInvalidValue);
    TRY(cuGetProcAddress(symbol, function, (int)version, flags ? flags : DEFAULT_FLAGS, &result));
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)result;
    CHECK(*function || status, cudaErrorSymbolNotFound);
    return cudaSuccess;
}

ENTRY(cudaGetDriverEntryPoint) {
    return get_entry(symbol, funcPtr, CUDART_VERSION, flags, driverStatus);
}

ENTRY(cudaGetDriverEntryPointByVersion) {
    return get_entry(symbol, funcPtr, cudaVersion, flags, driverStatus);
}
