/* HIP's functions for the host, which are CUDA's: devmod_hip_names.h has the names. nvcc compiles them. */
#pragma once
#include <hip/devmod_hip.h>

#define HIP_SYMBOL(name) name
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define hipLaunchKernelGGL(kernel, grid, block, shared, stream, ...) \
    do {                                                             \
        kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__); \
    } while (0)
