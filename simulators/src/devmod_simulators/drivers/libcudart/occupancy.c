/* The configuration of a launch, and how many of its blocks and clusters are resident at once. */
#include "runtime.h"

/* An attribute has the driver's layout. */
_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "launch attributes");

CUlaunchConfig runtime_config(const cudaLaunchConfig_t *config, CUstream stream) {
    return (CUlaunchConfig){
        .gridDimX = config->gridDim.x,
        .gridDimY = config->gridDim.y,
        .gridDimZ = config->gridDim.z,
        .blockDimX = config->blockDim.x,
        .blockDimY = config->blockDim.y,
        .blockDimZ = config->blockDim.z,
        .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
        .hStream = stream,
        .attrs = (CUlaunchAttribute *)config->attrs,
        .numAttrs = config->numAttrs,
    };
}

static cudaError_t count_blocks(int *blocks, const void *kernel, int size, size_t shared,
                                unsigned flags) {
    CUfunction function;
    TRY(runtime_function(kernel, &function));
    FINISH(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, size, shared,
                                                                flags));
}

FORWARD(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
        count_blocks(numBlocks, func, blockSize, dynamicSMemSize, 0), int *numBlocks,
        const void *func, int blockSize, size_t dynamicSMemSize)
FORWARD(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        count_blocks(numBlocks, func, blockSize, dynamicSMemSize, flags), int *numBlocks,
        const void *func, int blockSize, size_t dynamicSMemSize, unsigned int flags)

static cudaError_t shared_memory(size_t *size, const void *kernel, int blocks, int threads) {
    CUfunction function;
    TRY(runtime_function(kernel, &function));
    FINISH(cuOccupancyAvailableDynamicSMemPerBlock(size, function, blocks, threads));
}

FORWARD(cudaOccupancyAvailableDynamicSMemPerBlock,
        shared_memory(dynamicSmemSize, func, numBlocks, blockSize), size_t *dynamicSmemSize,
        const void *func, int numBlocks, int blockSize)

/* A function of the driver about a kernel and the configuration of a launch. */
typedef CUresult About(int *number, CUfunction function, const CUlaunchConfig *config);

static cudaError_t about_clusters(About *about, int *number, const void *kernel,
                                  const cudaLaunchConfig_t *config) {
    CUfunction function;
    CHECK(config, cudaErrorInvalidValue);
    TRY(runtime_function(kernel, &function));
    CUlaunchConfig driver = runtime_config(config, (CUstream)config->stream);
    FINISH(about(number, function, &driver));
}

FORWARD(cudaOccupancyMaxActiveClusters,
        about_clusters(cuOccupancyMaxActiveClusters, numClusters, func, launchConfig),
        int *numClusters, const void *func, const cudaLaunchConfig_t *launchConfig)
FORWARD(cudaOccupancyMaxPotentialClusterSize,
        about_clusters(cuOccupancyMaxPotentialClusterSize, clusterSize, func, launchConfig),
        int *clusterSize, const void *func, const cudaLaunchConfig_t *launchConfig)
