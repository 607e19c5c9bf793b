/* Launches of kernels and host functions. per_thread.c compiles this file again. */
#include "runtime.h"

#include <string.h>

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define __cudaLaunchKernel __cudaLaunchKernel_ptsz
#endif

/* Check what the driver calls an invalid value, and the runtime an invalid configuration. */
static cudaError_t check_configuration(dim3 grid, dim3 block) {
    CUdevice device;
    int most;
    /* The attributes have this order. */
    const unsigned sizes[] = {
        block.x * block.y * block.z, block.x, block.y, block.z, grid.x, grid.y, grid.z};
    TRY(cuCtxGetDevice(&device));
    for (int i = 0; i < 7; i++) {
        CUdevice_attribute attribute = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK + i;
        TRY(cuDeviceGetAttribute(&most, attribute, device));
        CHECK(sizes[i] && sizes[i] <= (unsigned)most, cudaErrorInvalidConfiguration);
    }
    return cudaSuccess;
}

static cudaError_t launch(const void *kernel, const cudaLaunchConfig_t *config, void **args) {
    CUfunction function;
    TRY(runtime_enter());
    TRY(runtime_function(kernel, &function));
    TRY(check_configuration(config->gridDim, config->blockDim));
    CHECK(config->dynamicSmemBytes <= UINT32_MAX, cudaErrorInvalidValue);
    CUlaunchConfig driver;
    memcpy(&driver, config, sizeof driver);
    driver.hStream = STREAM(config->stream);
    FINISH(cuLaunchKernelEx(&driver, function, args, NULL));
}

ENTRY(cudaLaunchKernel) {
    cudaLaunchConfig_t config = {gridDim, blockDim, sharedMem, stream, NULL, 0};
    return launch(func, &config, args);
}

ENTRY(cudaLaunchKernelExC) {
    CHECK(config, cudaErrorInvalidValue);
    return launch(func, config, args);
}

ENTRY(cudaLaunchCooperativeKernel) {
    cudaLaunchAttribute cooperative = {.id = cudaLaunchAttributeCooperative,
                                       .val = {.cooperative = 1}};
    cudaLaunchConfig_t config = {gridDim, blockDim, sharedMem, stream, &cooperative, 1};
    return launch(func, &config, args);
}

/* What the stubs of CUDA 12.8 and later call, with the handle of __cudaGetKernel. */
cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim,
                                         void **args, size_t sharedMem, cudaStream_t stream) {
    cudaLaunchConfig_t config = {gridDim, blockDim, sharedMem, stream, NULL, 0};
    return launch(kernel, &config, args);
}

#if CUDART_VERSION >= 13050 /* earlier headers lack it */
FORWARD(cudaLaunchHostFunc_v2, cuLaunchHostFunc(STREAM(stream), fn, userData))
#endif
