/* Kernels: handles, names and attributes. */
#include "runtime.h"

/* The stubs keep this handle for ever, before the driver is initialized: it is the host's function.
 */
cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr) {
    *kernelPtr = (cudaKernel_t)entryFuncAddr;
    return cudaSuccess;
}

static cudaError_t get_handle(void *handle, const void *symbol) {
    CUfunction function;
    CHECK(handle && symbol, cudaErrorInvalidValue);
    TRY(runtime_function(symbol, &function));
    *(CUfunction *)handle = function;
    return cudaSuccess;
}

FORWARD(cudaGetKernel, get_handle(kernelPtr, entryFuncAddr))
FORWARD(cudaGetFuncBySymbol, get_handle(functionPtr, symbolPtr))

ENTRY(cudaFuncGetName) {
    CUfunction function;
    CHECK(name && func, cudaErrorInvalidValue);
    *name = runtime_function_name(func);
    if (*name)
        return cudaSuccess;
    ENTER();
    TRY(runtime_function(func, &function));
    FINISH(cuFuncGetName(name, function));
}

/* ---- attributes
 * --------------------------------------------------------------------------------------------------------------------------
 */

static cudaError_t get_attributes(struct cudaFuncAttributes *attributes, CUfunction function) {
    static const CUfunction_attribute sizes[] = {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                                                 CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
                                                 CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES};
    /* The fields of int have the order of these attributes. */
    static const CUfunction_attribute numbers[] = {
        CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        CU_FUNC_ATTRIBUTE_NUM_REGS,
        CU_FUNC_ATTRIBUTE_PTX_VERSION,
        CU_FUNC_ATTRIBUTE_BINARY_VERSION,
        CU_FUNC_ATTRIBUTE_CACHE_MODE_CA,
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
        CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH,
        CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
    };
    int value;
    CHECK(attributes, cudaErrorInvalidValue);
    *attributes = (struct cudaFuncAttributes){0};
    size_t *size = &attributes->sharedSizeBytes;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        TRY(cuFuncGetAttribute(&value, sizes[i], function));
        size[i] = (size_t)value;
    }
    int *number = &attributes->maxThreadsPerBlock;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        TRY(cuFuncGetAttribute(&number[i], numbers[i], function));
    return cudaSuccess;
}

FORWARD_KERNEL(cudaFuncGetAttributes, func, get_attributes(attr, function))

/* The runtime's attributes have the driver's numbers. */
_Static_assert((int)cudaFuncAttributeMaxDynamicSharedMemorySize ==
                   (int)CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
               "function attributes");

API(cudaKernelSetAttributeForDevice) {
    CUcontext context;
    TRY(runtime_primary(device, &context));
    TRY(cuCtxPushCurrent(context));
    cudaError_t result = cudaFuncSetAttribute(kernel, attr, value);
    TRY(cuCtxPopCurrent(&context));
    FINISH(result);
}

/* The simulated GPU has no caches: only the kernel is checked. */
FORWARD_KERNEL(cudaFuncSetCacheConfig, func, cudaSuccess)
FORWARD_KERNEL(cudaFuncSetSharedMemConfig, func, cudaSuccess)

#if CUDART_VERSION >= 13050 /* earlier headers lack it */
static cudaError_t param_count(CUfunction function, size_t *count) {
    size_t offset;
    CHECK(count, cudaErrorInvalidValue);
    *count = 0;
    while (cuFuncGetParamInfo(function, *count, &offset, NULL) == CUDA_SUCCESS)
        ++*count;
    return cudaSuccess;
}

FORWARD_KERNEL(cudaFuncGetParamCount, func, param_count(function, paramCount))
#endif
