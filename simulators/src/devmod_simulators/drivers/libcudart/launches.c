/* Launches of kernels and host functions. per_thread.c compiles this file again. */
#include "runtime.h"

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define __cudaLaunchKernel __cudaLaunchKernel_ptsz
#endif

/* Check what the driver calls an invalid value, and the runtime an invalid configuration. */
static cudaError_t check_configuration(dim3 grid, dim3 block) {
    CUdevice device;
    int x, y, z, threads;
    CHECK(grid.x && grid.y && grid.z, cudaErrorInvalidConfiguration);
    CHECK(block.x && block.y && block.z, cudaErrorInvalidConfiguration);
    TRY(cuCtxGetDevice(&device));
    TRY(cuDeviceGetAttribute(&x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, device));
    TRY(cuDeviceGetAttribute(&y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, device));
    TRY(cuDeviceGetAttribute(&z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, device));
    TRY(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device));
    CHECK(block.x <= (unsigned)x && block.y <= (unsigned)y && block.z <= (unsigned)z,
          cudaErrorInvalidConfiguration);
    CHECK(block.x * block.y * block.z <= (unsigned)threads, cudaErrorInvalidConfiguration);
    TRY(cuDeviceGetAttribute(&y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, device));
    TRY(cuDeviceGetAttribute(&z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, device));
    CHECK(grid.x <= INT32_MAX && grid.y <= (unsigned)y && grid.z <= (unsigned)z,
          cudaErrorInvalidConfiguration);
    return cudaSuccess;
}

static cudaError_t launch(const void *kernel, const cudaLaunchConfig_t *config, void **args) {
    CUfunction function;
    TRY(runtime_enter());
    TRY(runtime_function(kernel, &function));
    TRY(check_configuration(config->gridDim, config->blockDim));
    CUlaunchConfig driver = runtime_config(config, STREAM(config->stream));
    CHECK(driver.sharedMemBytes == config->dynamicSmemBytes, cudaErrorInvalidValue);
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
