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
        about_clusters(cuOccupancyMaxActiveClusters, numClusters, func, launchConfig))
FORWARD(cudaOccupancyMaxPotentialClusterSize,
        about_clusters(cuOccupancyMaxPotentialClusterSize, clusterSize, func, launchConfig))
