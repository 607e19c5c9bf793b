/* Functions of modules: attributes and occupancy. */
#include "hip_standin.h"

int function_of(hipFunction_t handle, Function **function)
{
    *function = handle_get(HANDLE_FUNCTION, handle);
    return *function ? CODE_SUCCESS : CODE_INVALID_HANDLE;
}

HIP(hipFuncGetAttribute, CURRENT, (int *value, int attrib, hipFunction_t hfunc), (value, attrib, hfunc))
{
    Function *function;
    CHECK(value && attrib >= 0 && attrib < HIP_FUNC_ATTRIBUTE_MAX, CODE_INVALID_VALUE);
    TRY(function_of(hfunc, &function));
    const Kernel *kernel = function->kernel;
    int device = function->module->context->device;
    switch (attrib) {
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = (int)kernel->max_threads; break;
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)kernel->shared; break;
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = (int)kernel->local; break;
    case HIP_FUNC_ATTRIBUTE_NUM_REGS: *value = (int)kernel->vgprs; break;
    case HIP_FUNC_ATTRIBUTE_PTX_VERSION: *value = 30; break; /* as HIP has it: a version of PTX that says nothing */
    case HIP_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = device_attribute(device, hipDeviceAttributeComputeCapabilityMajor) * 10 +
                 device_attribute(device, hipDeviceAttributeComputeCapabilityMinor);
        break;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = device_attribute(device, hipDeviceAttributeMaxSharedMemoryPerBlock) - (int)kernel->shared;
        break;
    default: *value = 0; break;
    }
    return CODE_SUCCESS;
}

/* It takes the address of a kernel that is linked into the program. A module's functions are not such. */
HIP(hipFuncSetAttribute, CURRENT, (const void *func, int attr, int value), (func, attr, value))
{
    (void)attr, (void)value;
    CHECK(func, hipErrorInvalidDeviceFunction);
    return hipErrorInvalidDeviceFunction;
}

const char *hipKernelNameRef(hipFunction_t f);

const char *hipKernelNameRef(hipFunction_t f)
{
    pthread_mutex_lock(&big_lock);
    Function *function = handle_peek(HANDLE_FUNCTION, f);
    const char *name = function ? function->kernel->name : NULL;
    pthread_mutex_unlock(&big_lock);
    return name;
}

uint64_t resident_blocks(const Function *function, uint64_t threads, uint64_t dynamic)
{
    int device = function->module->context->device;
    uint64_t lanes = function->kernel->lanes, shared = function->kernel->shared + dynamic;
    uint64_t result = 2048 / ((threads + lanes - 1) / lanes * lanes);
    uint64_t by_shared = shared ? (uint64_t)device_attribute(device, hipDeviceAttributeSharedMemPerMultiprocessor) / shared : result;
    if (by_shared < result)
        result = by_shared;
    return result < 32 ? result : 32;
}

static int blocks(int *numBlocks, hipFunction_t f, int blockSize, size_t shared)
{
    Function *function;
    CHECK(numBlocks && blockSize > 0, CODE_INVALID_VALUE);
    TRY(function_of(f, &function));
    *numBlocks = (uint32_t)blockSize > function->kernel->max_threads ? 0 : (int)resident_blocks(function, (uint64_t)blockSize, shared);
    return CODE_SUCCESS;
}

HIP(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, CURRENT, (int *numBlocks, hipFunction_t f, int blockSize, size_t dynSharedMemPerBlk),
    (numBlocks, f, blockSize, dynSharedMemPerBlk))
{
    return blocks(numBlocks, f, blockSize, dynSharedMemPerBlk);
}

HIP(hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, CURRENT,
    (int *numBlocks, hipFunction_t f, int blockSize, size_t dynSharedMemPerBlk, unsigned flags),
    (numBlocks, f, blockSize, dynSharedMemPerBlk, flags))
{
    CHECK(!flags, CODE_INVALID_VALUE);
    return blocks(numBlocks, f, blockSize, dynSharedMemPerBlk);
}

static int block_size(int *gridSize, int *blockSize, hipFunction_t f, size_t shared, int limit)
{
    Function *function;
    CHECK(gridSize && blockSize, CODE_INVALID_VALUE);
    TRY(function_of(f, &function));
    int most = (int)function->kernel->max_threads;
    *blockSize = limit > 0 && limit < most ? limit : most;
    *gridSize = (int)resident_blocks(function, (uint64_t)*blockSize, shared) *
                device_attribute(function->module->context->device, hipDeviceAttributeMultiprocessorCount);
    return CODE_SUCCESS;
}

HIP(hipModuleOccupancyMaxPotentialBlockSize, CURRENT,
    (int *gridSize, int *blockSize, hipFunction_t f, size_t dynSharedMemPerBlk, int blockSizeLimit),
    (gridSize, blockSize, f, dynSharedMemPerBlk, blockSizeLimit))
{
    return block_size(gridSize, blockSize, f, dynSharedMemPerBlk, blockSizeLimit);
}

HIP(hipModuleOccupancyMaxPotentialBlockSizeWithFlags, CURRENT,
    (int *gridSize, int *blockSize, hipFunction_t f, size_t dynSharedMemPerBlk, int blockSizeLimit, unsigned flags),
    (gridSize, blockSize, f, dynSharedMemPerBlk, blockSizeLimit, flags))
{
    CHECK(!flags, CODE_INVALID_VALUE);
    return block_size(gridSize, blockSize, f, dynSharedMemPerBlk, blockSizeLimit);
}
