/* Functions of modules: attributes and occupancy. */
#include "hip_standin.h"

int function_of(hipFunction_t handle, Function **function) {
    *function = handle_get(HANDLE_FUNCTION, handle);
    return *function ? CODE_SUCCESS : CODE_INVALID_HANDLE;
}

HIP(hipFuncGetAttribute, CURRENT) {
    Function *function;
    CHECK(value && attrib >= 0 && attrib < HIP_FUNC_ATTRIBUTE_MAX, CODE_INVALID_VALUE);
    TRY(function_of(hfunc, &function));
    const Kernel *kernel = function->kernel;
    int device = function->module->context->device;
    const int values[HIP_FUNC_ATTRIBUTE_MAX] = {
        [HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = (int)kernel->max_threads,
        [HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = (int)kernel->shared,
        [HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES] = (int)kernel->local,
        [HIP_FUNC_ATTRIBUTE_NUM_REGS] = (int)kernel->registers,
        [HIP_FUNC_ATTRIBUTE_PTX_VERSION] = 30, /* as HIP has it: it says nothing */
        [HIP_FUNC_ATTRIBUTE_BINARY_VERSION] =
            device_attribute(device, hipDeviceAttributeComputeCapabilityMajor) * 10 +
            device_attribute(device, hipDeviceAttributeComputeCapabilityMinor),
        [HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] =
            device_attribute(device, hipDeviceAttributeMaxSharedMemoryPerBlock) -
            (int)kernel->shared,
    };
    *value = values[attrib];
    return CODE_SUCCESS;
}

const char *hipKernelNameRef(hipFunction_t f) {
    pthread_mutex_lock(&big_lock);
    Function *function = handle_peek(HANDLE_FUNCTION, f);
    const char *name = function ? function->kernel->name : NULL;
    pthread_mutex_unlock(&big_lock);
    return name;
}

/* Return how many blocks of a launch are resident on one multiprocessor. */
uint64_t resident_blocks(const Function *function, uint64_t threads, uint64_t dynamic) {
    int device = function->module->context->device;
    uint64_t lanes = function->kernel->lanes, shared = function->kernel->shared + dynamic;
    uint64_t result = 2048 / ((threads + lanes - 1) / lanes * lanes);
    uint64_t by_shared =
        shared ? (uint64_t)device_attribute(device, hipDeviceAttributeSharedMemPerMultiprocessor) /
                     shared
               : result;
    if (by_shared < result)
        result = by_shared;
    return result < 32 ? result : 32;
}

HIP(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, CURRENT) {
    Function *function;
    CHECK(numBlocks && blockSize > 0, CODE_INVALID_VALUE);
    TRY(function_of(f, &function));
    bool fits = (uint32_t)blockSize <= function->kernel->max_threads;
    *numBlocks = fits ? (int)resident_blocks(function, (uint64_t)blockSize, dynSharedMemPerBlk) : 0;
    return CODE_SUCCESS;
}
