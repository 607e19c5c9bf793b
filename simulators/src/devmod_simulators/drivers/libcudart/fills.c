/* Fills with a byte, in one to three dimensions. */
#include "runtime.h"

static cudaError_t fill_rows(void *to, size_t pitch, int value, size_t width, size_t height,
                             At at) {
    unsigned char byte = (unsigned char)value;
    if (!at.waits)
        FINISH(cuMemsetD2D8Async(POINTER(to), pitch, byte, width, height, at.stream));
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    /* As in the legacy stream, only a fill of the host's memory is waited for. */
    TRY(cuMemsetD2D8Async(POINTER(to), pitch, byte, width, height, at.stream));
    if (runtime_type(to) == CU_MEMORYTYPE_HOST)
        TRY(cuStreamSynchronize(at.stream));
    return cudaSuccess;
#else
    FINISH(cuMemsetD2D8(POINTER(to), pitch, byte, width, height));
#endif
}

static cudaError_t fill_planes(struct cudaPitchedPtr to, int value, struct cudaExtent extent,
                               At at) {
    char *plane = to.ptr;
    for (size_t z = 0; z < extent.depth; z++) {
        TRY(fill_rows(plane, to.pitch, value, extent.width, extent.height, at));
        plane += to.pitch * to.ysize;
    }
    return cudaSuccess;
}

PAIR(cudaMemset, fill_rows(devPtr, count, value, count, 1, at))
PAIR(cudaMemset2D, fill_rows(devPtr, pitch, value, width, height, at))
PAIR(cudaMemset3D, fill_planes(pitchedDevPtr, value, extent, at))
