/* Variables of the device: address and size. */
#include "runtime.h"

static cudaError_t get_address(void **address, const void *symbol) {
    CUdeviceptr pointer;
    CHECK(address, cudaErrorInvalidValue);
    TRY(runtime_variable(symbol, &pointer, NULL));
    *address = (void *)(uintptr_t)pointer;
    return cudaSuccess;
}

static cudaError_t get_size(size_t *size, const void *symbol) {
    CHECK(size, cudaErrorInvalidValue);
    return runtime_variable(symbol, NULL, size);
}

FORWARD(cudaGetSymbolAddress, get_address(devPtr, symbol))
FORWARD(cudaGetSymbolSize, get_size(size, symbol))
