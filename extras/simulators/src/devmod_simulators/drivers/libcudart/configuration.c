/* The configuration of a launch between `<<<…>>>` and the stub of the kernel: a stack for each
 * thread, since an argument of a launch may be a call that launches. */
#include "runtime.h"

#include <stdlib.h>

typedef struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    struct Configuration *below;
} Configuration;

static __thread Configuration *top;

unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                     struct CUstream_st *stream) {
    Configuration *configuration = malloc(sizeof *configuration);
    CHECK(configuration, cudaErrorMemoryAllocation);
    *configuration = (Configuration){gridDim, blockDim, sharedMem, stream, top};
    top = configuration;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
                                       void *stream) {
    Configuration *configuration = top;
    CHECK(configuration, cudaErrorMissingConfiguration);
    *gridDim = configuration->grid;
    *blockDim = configuration->block;
    *sharedMem = configuration->shared;
    *(cudaStream_t *)stream = configuration->stream;
    top = configuration->below;
    free(configuration);
    return cudaSuccess;
}
