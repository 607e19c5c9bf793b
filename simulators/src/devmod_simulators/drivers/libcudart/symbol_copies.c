/* Copies to and from variables of the device. per_thread.c compiles this file again. */
#include "runtime.h"

static cudaError_t check_kind(enum cudaMemcpyKind kind, enum cudaMemcpyKind host) {
    CHECK(kind == host || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault,
          cudaErrorInvalidMemcpyDirection);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count,
                                         size_t offset, enum cudaMemcpyKind kind) {
    void *place;
    TRY(check_kind(kind, cudaMemcpyHostToDevice));
    ENTER();
    TRY(runtime_variable_bytes(symbol, offset, count, &place));
    return cudaMemcpy(place, src, count, kind);
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count,
                                           size_t offset, enum cudaMemcpyKind kind) {
    void *place;
    TRY(check_kind(kind, cudaMemcpyDeviceToHost));
    ENTER();
    TRY(runtime_variable_bytes(symbol, offset, count, &place));
    return cudaMemcpy(dst, place, count, kind);
}

cudaError_t CUDARTAPI cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count,
                                              size_t offset, enum cudaMemcpyKind kind,
                                              cudaStream_t stream) {
    void *place;
    TRY(check_kind(kind, cudaMemcpyHostToDevice));
    ENTER();
    TRY(runtime_variable_bytes(symbol, offset, count, &place));
    return cudaMemcpyAsync(place, src, count, kind, stream);
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count,
                                                size_t offset, enum cudaMemcpyKind kind,
                                                cudaStream_t stream) {
    void *place;
    TRY(check_kind(kind, cudaMemcpyDeviceToHost));
    ENTER();
    TRY(runtime_variable_bytes(symbol, offset, count, &place));
    return cudaMemcpyAsync(dst, place, count, kind, stream);
}
