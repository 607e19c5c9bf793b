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

/* ---- attributes */

static const Field fields[] = {
#include "attributes.h" /* a build writes it, of attributes.txt */
};

static cudaError_t get_attributes(struct cudaFuncAttributes *attributes, CUfunction function) {
    int value;
    CHECK(attributes, cudaErrorInvalidValue);
    *attributes = (struct cudaFuncAttributes){0};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        TRY(cuFuncGetAttribute(&value, (CUfunction_attribute)fields[i].attribute, function));
        runtime_set_field(attributes, &fields[i], value);
    }
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
