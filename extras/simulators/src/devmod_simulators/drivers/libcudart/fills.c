/* Fills with a byte, in one to three dimensions. */
#include "runtime.h"

static cudaError_t fill_rows(void *to, size_t pitch, int value, size_t width, size_t height,
                             At at) {
    unsigned char byte = (unsigned char)value;
    if (!at.waits)
        FINISH(cuMemsetD2D8Async(POINTER(to), pitch, byte, width, height, at.stream));
    FINISH(MEMSET_2D(POINTER(to), pitch, byte, width, height));
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
