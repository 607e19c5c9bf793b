/* Versions and the profiler. */
#include "runtime.h"

ENTRY(cudaRuntimeGetVersion) {
    CHECK(runtimeVersion, cudaErrorInvalidValue);
    *runtimeVersion = CUDART_VERSION;
    return cudaSuccess;
}

/* It needs no device, and not the version that the runtime needs. */
ENTRY(cudaDriverGetVersion) {
    FINISH(cuDriverGetVersion(driverVersion));
}

/* The header cuda_profiler_api.h is in a wheel of its own. There is nothing to profile. */
#define PARAMETERS_cudaProfilerStart void
#define PARAMETERS_cudaProfilerStop void
FORWARD(cudaProfilerStart, cudaSuccess)
FORWARD(cudaProfilerStop, cudaSuccess)
