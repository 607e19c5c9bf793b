/* The limits of a launch: dimensions, clusters, shared memory, and what is resident at once. */
#include "cuda_standin.h"

/* Bytes of shared memory of each block that the system takes. */
enum { RESERVED = 1024 };

/* Check a launch against its kernel and device, and complete its cluster. */
CUresult check_dimensions(const Launch *launch, int device) {
    const Kernel *kernel = launch->function->kernel;
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        int grid = device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
        int block = device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
        CHECK(launch->grid[i] && launch->grid[i] <= (uint32_t)grid, CUDA_ERROR_INVALID_VALUE);
        CHECK(launch->block[i] && launch->block[i] <= (uint32_t)block, CUDA_ERROR_INVALID_VALUE);
        CHECK(!kernel->block[0] || launch->block[i] == (kernel->block[i] ? kernel->block[i] : 1),
              CUDA_ERROR_INVALID_VALUE);
        threads *= launch->block[i];
    }
    CHECK(threads <= (uint64_t)device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
          CUDA_ERROR_INVALID_VALUE);
    CHECK(!kernel->max_threads || threads <= kernel->max_threads, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult check_cluster(Launch *launch, int device) {
    const Kernel *kernel = launch->function->kernel;
    bool required = kernel->cluster[0] != 0, asked = launch->cluster[0] != 0;
    if (launch->non_portable ||
        launch->function->attributes[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED])
        launch->non_portable = true;
    for (int i = 0; i < 3; i++) {
        uint32_t own = kernel->cluster[i] ? kernel->cluster[i] : 1;
        if (required && asked)
            CHECK(launch->cluster[i] == own, CUDA_ERROR_INVALID_CLUSTER_SIZE);
        else if (required)
            launch->cluster[i] = own;
        else if (!asked)
            launch->cluster[i] = 1;
        CHECK(launch->cluster[i], CUDA_ERROR_INVALID_CLUSTER_SIZE);
        CHECK(launch->grid[i] % launch->cluster[i] == 0, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    }
    if (required || asked)
        CHECK(device_arch(device) >= 90, CUDA_ERROR_NOT_SUPPORTED);
    uint64_t blocks = (uint64_t)launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
    CHECK(blocks <= (launch->non_portable ? 16 : 8), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    if (launch->preferred[0]) {
        CHECK(required || asked, CUDA_ERROR_INVALID_VALUE);
        for (int i = 0; i < 3; i++)
            CHECK(launch->preferred[i] && launch->preferred[i] % launch->cluster[i] == 0 &&
                      launch->grid[i] % launch->preferred[i] == 0,
                  CUDA_ERROR_INVALID_CLUSTER_SIZE);
        CHECK((uint64_t)launch->preferred[0] * launch->preferred[1] * launch->preferred[2] <=
                  (launch->non_portable ? 16 : 8),
              CUDA_ERROR_INVALID_CLUSTER_SIZE);
    }
    return CUDA_SUCCESS;
}

/* Return how many blocks of a launch are resident on one multiprocessor. */
static uint64_t resident(const Function *function, uint64_t threads, uint64_t dynamic, int device) {
    uint64_t by_threads = 2048 / (threads ? (threads + 31) / 32 * 32 : 32),
             shared = function->kernel->shared + dynamic + RESERVED;
    uint64_t by_shared = (uint64_t)device_attribute(
                             device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) /
                         shared;
    uint64_t result = by_threads < by_shared ? by_threads : by_shared;
    return result < 32 ? result : 32;
}

CUresult check_resources(const Launch *launch, int device) {
    const Function *function = launch->function;
    CHECK(launch->shared <= function->max_dynamic, CUDA_ERROR_INVALID_VALUE);
    if (!launch->cooperative)
        return CUDA_SUCCESS;
    uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    uint64_t most = resident(function, threads, launch->shared, device) *
                    (uint64_t)device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    CHECK(blocks <= most, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    return CUDA_SUCCESS;
}

static CUresult count_blocks(int *count, CUfunction handle, int threads, size_t dynamic) {
    Function *function;
    CHECK(count && threads > 0, CUDA_ERROR_INVALID_VALUE);
    TRY(function_of(handle, &function));
    int device = function->module->context->device;
    *count = (int)resident(function, (uint64_t)threads, dynamic, device);
    return CUDA_SUCCESS;
}

FORWARD(cuOccupancyMaxActiveBlocksPerMultiprocessor, CURRENT,
        count_blocks(numBlocks, func, blockSize, dynamicSMemSize))
FORWARD_IF(!(flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE),
           cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, CURRENT,
           count_blocks(numBlocks, func, blockSize, dynamicSMemSize))

API_IF((dynamicSmemSize && numBlocks > 0 && blockSize > 0), cuOccupancyAvailableDynamicSMemPerBlock,
       CURRENT) {
    Function *function;
    TRY(function_of(func, &function));
    int device = function->module->context->device;
    size_t of_all =
        (size_t)device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    size_t own = function->kernel->shared;
    size_t most = function->max_dynamic + own; /* as cuda_occupancy.h has it */
    size_t each = of_all / (unsigned)numBlocks;
    *dynamicSmemSize = 0;
    if (resident(function, (uint64_t)blockSize, 0, device) < (uint64_t)numBlocks)
        return CUDA_SUCCESS; /* they are not resident at once, whatever their memory */
    each -= RESERVED;
    *dynamicSmemSize = (each < most ? each : most) - own;
    return CUDA_SUCCESS;
}

API_IF((minGridSize && blockSize && !blockSizeToDynamicSMemSize), cuOccupancyMaxPotentialBlockSize,
       CURRENT) {
    Function *function;
    TRY(function_of(func, &function));
    int most = function->kernel->max_threads ? (int)function->kernel->max_threads : 1024;
    *blockSize = blockSizeLimit > 0 && blockSizeLimit < most ? blockSizeLimit : most;
    int device = function->module->context->device;
    *minGridSize = (int)resident(function, (uint64_t)*blockSize, dynamicSMemSize, device) *
                   device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    return CUDA_SUCCESS;
}

static bool allows_large_clusters(const Launch *launch) {
    return launch->non_portable ||
           launch->function->attributes[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED];
}

API_IF((clusterSize && config), cuOccupancyMaxPotentialClusterSize, CURRENT) {
    Launch launch = {0};
    TRY(function_of(func, &launch.function));
    TRY(take_attributes(&launch, config->attrs, config->numAttrs));
    *clusterSize = allows_large_clusters(&launch) ? 16 : 8;
    return CUDA_SUCCESS;
}

API_IF((numClusters && config), cuOccupancyMaxActiveClusters, CURRENT) {
    Function *function;
    TRY(function_of(func, &function));
    int device = function->module->context->device;
    Launch launch = {.function = function};
    TRY(take_attributes(&launch, config->attrs, config->numAttrs));
    uint64_t threads = (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ,
             blocks = 1;
    for (int i = 0; i < 3; i++)
        blocks *= launch.cluster[i]              ? launch.cluster[i]
                  : function->kernel->cluster[i] ? function->kernel->cluster[i]
                                                 : 1;
    uint64_t most = resident(function, threads, config->sharedMemBytes, device) *
                    (uint64_t)device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    *numClusters = blocks <= (allows_large_clusters(&launch) ? 16 : 8) ? (int)(most / blocks) : 0;
    return CUDA_SUCCESS;
}
