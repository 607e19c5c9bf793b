/* Launches: what is checked, the parameter block, and the request to the worker. */
#include "cuda_standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Function *function;
    CUfunction handle;
    uint32_t grid[3], block[3], cluster[3], preferred[3], shared;
    bool cooperative, programmatic, non_portable;
    unsigned char params[];
} Launch;

static uint64_t launches;
static char last_launch[8192];

/* Return the last launch as text: name, dimensions, attributes and the parameter block in hexadecimal. */
const char *standin_last_launch(void);
/* Return the number of launches. */
uint64_t standin_launches(void);
/* Do nothing in a launch from now on, or launch again. Benchmarks measure what is above the driver with it. */
void standin_skip_launches(int skip);

volatile int skip_launches;

const char *standin_last_launch(void)
{
    return last_launch;
}

uint64_t standin_launches(void)
{
    return launches;
}

void standin_skip_launches(int skip)
{
    skip_launches = skip;
}

__attribute__((constructor)) static void read_skip(void)
{
    skip_launches = (int)setting_number("skip_launches", 0);
}

/* ---- running --------------------------------------------------------------------------------------------------------------- */

static void put_ranges(Bytes *request, Context *context)
{
    size_t place, count = 0;
    put_u32(request, 0);
    place = request->size - 4;
    for (int slice = 0; slice < ARENA_SLICES; slice++) {
        if (slice != ARENA_HOST && !(context->peers >> slice & 1))
            continue;
        for (size_t i = 0; i < arena_count(slice); i++) {
            Block *block = arena_at(slice, i);
            if (!block->live)
                continue;
            put_u64(request, block->start);
            put_u64(request, block->size);
            count++;
        }
    }
    uint32_t number = (uint32_t)count;
    memcpy(request->data + place, &number, sizeof number);
}

static int run_launch(Op *op)
{
    Launch *launch = (Launch *)op->data;
    if (handle_peek(HANDLE_FUNCTION, launch->handle) != launch->function) {
        violation("a launch runs after its module was unloaded");
        return CUDA_ERROR_INVALID_HANDLE;
    }
    Function *function = launch->function;
    if (!function->module->ptx)
        return 0; /* the setting "skip_cubins": submit_launch has refused it otherwise */
    Bytes request = {0}, response;
    char *message;
    put_u32(&request, WORKER_LAUNCH);
    put_u32(&request, function->module->worker_number);
    put_u32(&request, function->index);
    for (int i = 0; i < 3; i++)
        put_u32(&request, launch->grid[i]);
    for (int i = 0; i < 3; i++)
        put_u32(&request, launch->block[i]);
    for (int i = 0; i < 3; i++)
        put_u32(&request, launch->cluster[i]);
    put_u32(&request, launch->shared);
    put_u32(&request, (launch->cooperative ? 1u : 0) | (launch->programmatic ? 2u : 0));
    put_bytes(&request, launch->params, function->kernel->param_bytes);
    put_ranges(&request, function->module->context);
    int code = worker_call(&request, &response, &message);
    if (code) {
        explain("%s: %s", function->kernel->name, message);
        if (code == CUDA_ERROR_NOT_SUPPORTED || code == CUDA_ERROR_UNKNOWN)
            fprintf(stderr, "stand-in driver: %s: %s\n", function->kernel->name, message);
    }
    free(message);
    bytes_free(&request);
    bytes_free(&response);
    return code;
}

/* ---- checking -------------------------------------------------------------------------------------------------------------- */

static CUresult check_dimensions(const Launch *launch, int device)
{
    static const CUdevice_attribute grid[3] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
    static const CUdevice_attribute block[3] = {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};
    const Kernel *kernel = launch->function->kernel;
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        CHECK(launch->grid[i] && launch->grid[i] <= (uint32_t)device_attribute(device, grid[i]), CUDA_ERROR_INVALID_VALUE);
        CHECK(launch->block[i] && launch->block[i] <= (uint32_t)device_attribute(device, block[i]), CUDA_ERROR_INVALID_VALUE);
        CHECK(!kernel->block[0] || launch->block[i] == (kernel->block[i] ? kernel->block[i] : 1), CUDA_ERROR_INVALID_VALUE);
        threads *= launch->block[i];
    }
    CHECK(threads <= (uint64_t)device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK), CUDA_ERROR_INVALID_VALUE);
    CHECK(!kernel->max_threads || threads <= kernel->max_threads, CUDA_ERROR_INVALID_VALUE);
    CHECK(!kernel->registers || threads * kernel->registers <= 65536, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    return CUDA_SUCCESS;
}

static CUresult check_cluster(Launch *launch, int device)
{
    const Kernel *kernel = launch->function->kernel;
    bool required = kernel->cluster[0] != 0, asked = launch->cluster[0] != 0;
    if (launch->non_portable || launch->function->attributes[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED])
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
            CHECK(launch->preferred[i] && launch->preferred[i] % launch->cluster[i] == 0 && launch->grid[i] % launch->preferred[i] == 0,
                  CUDA_ERROR_INVALID_CLUSTER_SIZE);
        CHECK((uint64_t)launch->preferred[0] * launch->preferred[1] * launch->preferred[2] <= (launch->non_portable ? 16 : 8),
              CUDA_ERROR_INVALID_CLUSTER_SIZE);
    }
    return CUDA_SUCCESS;
}

/* Return how many blocks of a launch are resident on one multiprocessor. */
static uint64_t resident(const Function *function, uint64_t threads, uint64_t dynamic, int device)
{
    uint64_t by_threads = 2048 / (threads ? (threads + 31) / 32 * 32 : 32), shared = function->kernel->shared + dynamic + 1024;
    uint64_t by_shared = (uint64_t)device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / shared;
    uint64_t result = by_threads < by_shared ? by_threads : by_shared;
    return result < 32 ? result : 32;
}

static CUresult check_resources(const Launch *launch, int device)
{
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

/* Fill the parameter block from kernelParams or from `extra`. */
static CUresult take_params(Launch *launch, void **params, void **extra)
{
    const Kernel *kernel = launch->function->kernel;
    CHECK(!(params && extra), CUDA_ERROR_INVALID_VALUE);
    if (extra) {
        const void *buffer = NULL;
        const size_t *size = NULL;
        for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
            CHECK(i < 4 && extra[i + 1], CUDA_ERROR_INVALID_VALUE);
            CHECK(extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER || extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE, CUDA_ERROR_INVALID_VALUE);
            if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
                buffer = extra[i + 1];
            else
                size = extra[i + 1];
        }
        CHECK(buffer && size, CUDA_ERROR_INVALID_VALUE);
        if (*size < kernel->param_bytes || *size > (kernel->param_bytes + 15) / 16 * 16) {
            explain("%s: the parameter block has %zu bytes; expected %u", kernel->name, *size, kernel->param_bytes);
            return CUDA_ERROR_INVALID_VALUE;
        }
        memcpy(launch->params, buffer, kernel->param_bytes);
        return CUDA_SUCCESS;
    }
    CHECK(params || !kernel->param_count, CUDA_ERROR_INVALID_VALUE);
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        CHECK(params[i], CUDA_ERROR_INVALID_VALUE);
        memcpy(launch->params + kernel->params[i].offset, params[i], kernel->params[i].size);
    }
    return CUDA_SUCCESS;
}

static CUresult take_attributes(Launch *launch, const CUlaunchAttribute *attributes, unsigned count)
{
    CHECK(attributes || !count, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; i++) {
        const CUlaunchAttributeValue *value = &attributes[i].value;
        switch (attributes[i].id) {
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            break;
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            launch->cooperative = value->cooperative != 0;
            break;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            launch->cluster[0] = value->clusterDim.x, launch->cluster[1] = value->clusterDim.y, launch->cluster[2] = value->clusterDim.z;
            CHECK(launch->cluster[0] && launch->cluster[1] && launch->cluster[2], CUDA_ERROR_INVALID_VALUE);
            break;
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
            launch->preferred[0] = value->preferredClusterDim.x, launch->preferred[1] = value->preferredClusterDim.y;
            launch->preferred[2] = value->preferredClusterDim.z;
            break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            launch->programmatic = value->programmaticStreamSerializationAllowed != 0;
            break;
        case CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE:
            launch->non_portable = value->portableClusterSizeMode == CU_LAUNCH_PORTABLE_CLUSTER_MODE_ALLOW_NON_PORTABLE;
            break;
        default:
            explain("the stand-in driver does not know the launch attribute %d", (int)attributes[i].id);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

static void note_launch(const Launch *launch)
{
    const Kernel *kernel = launch->function->kernel;
    launches++;
    int length = snprintf(last_launch, sizeof last_launch,
                          "%s grid=%u,%u,%u block=%u,%u,%u cluster=%u,%u,%u preferred=%u,%u,%u shared=%u cooperative=%d programmatic=%d params=",
                          kernel->name, launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0], launch->block[1],
                          launch->block[2], launch->cluster[0], launch->cluster[1], launch->cluster[2], launch->preferred[0],
                          launch->preferred[1], launch->preferred[2], launch->shared, launch->cooperative, launch->programmatic);
    for (uint32_t i = 0; i < kernel->param_bytes && (size_t)length + 3 < sizeof last_launch; i++)
        length += snprintf(last_launch + length, sizeof last_launch - (size_t)length, "%02x", launch->params[i]);
}

/* Replace CU_LAUNCH_KERNEL_REQUIRED_BLOCK_DIM by the kernel's block, and a grid that counts clusters by one of blocks. */
static void take_required(Launch *launch)
{
    const Kernel *kernel = launch->function->kernel;
    bool asked = launch->block[0] == CU_LAUNCH_KERNEL_REQUIRED_BLOCK_DIM && launch->block[1] == 1 && launch->block[2] == 1;
    for (int i = 0; i < 3; i++) {
        if (asked && kernel->block[i])
            launch->block[i] = kernel->block[i];
        if (kernel->blocks_are_clusters && kernel->cluster[i])
            launch->grid[i] *= kernel->cluster[i];
    }
}

static CUresult fill_launch(Launch *launch, const CUlaunchConfig *config, void **params, void **extra)
{
    int device = launch->function->module->context->device;
    take_required(launch);
    TRY(take_attributes(launch, config->attrs, config->numAttrs));
    TRY(check_dimensions(launch, device));
    TRY(check_cluster(launch, device));
    TRY(check_resources(launch, device));
    return take_params(launch, params, extra);
}

static CUresult launch(const CUlaunchConfig *config, CUfunction f, void **params, void **extra, bool cooperative)
{
    Function *function;
    Stream *stream;
    TRY(function_of(f, &function));
    TRY(stream_of(config->hStream, &stream));
    CHECK(stream->group == &function->module->context->group, CUDA_ERROR_INVALID_HANDLE);
    Op *op = op_make(function->kernel->name, run_launch, NULL, sizeof(Launch) + function->kernel->param_bytes);
    Launch *launch = (Launch *)op->data;
    *launch = (Launch){
        .function = function, .handle = function->handle, .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ}, .shared = config->sharedMemBytes, .cooperative = cooperative,
    };
    CUresult code = fill_launch(launch, config, params, extra);
    if (!code && !function->module->ptx && !setting_number("skip_cubins", 0)) {
        explain("%s: the stand-in driver checks a cubin and does not execute it", function->kernel->name);
        code = CUDA_ERROR_NOT_SUPPORTED;
    }
    if (code) {
        op_free(op);
        return code;
    }
    note_launch(launch);
    return submit(stream, op);
}

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,
                                unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                void **kernelParams, void **extra)
{
    if (skip_launches)
        return CUDA_SUCCESS;
    ENTER(CURRENT);
    CUlaunchConfig config = {gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, NULL, 0};
    return launch(&config, f, kernelParams, extra, false);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    if (skip_launches)
        return CUDA_SUCCESS;
    ENTER(CURRENT);
    CHECK(config, CUDA_ERROR_INVALID_VALUE);
    return launch(config, f, kernelParams, extra, false);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                           unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                           unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
    if (skip_launches)
        return CUDA_SUCCESS;
    ENTER(CURRENT);
    CUlaunchConfig config = {gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, NULL, 0};
    return launch(&config, f, kernelParams, NULL, true);
}

/* ---- occupancy --------------------------------------------------------------------------------------------------------------- */

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize)
{
    ENTER(CURRENT);
    Function *function;
    CHECK(numBlocks && blockSize > 0, CUDA_ERROR_INVALID_VALUE);
    TRY(function_of(func, &function));
    *numBlocks = (int)resident(function, (uint64_t)blockSize, dynamicSMemSize, function->module->context->device);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                                  CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit)
{
    ENTER(CURRENT);
    Function *function;
    CHECK(minGridSize && blockSize && !blockSizeToDynamicSMemSize, CUDA_ERROR_INVALID_VALUE);
    TRY(function_of(func, &function));
    int most = function->kernel->max_threads ? (int)function->kernel->max_threads : 1024;
    *blockSize = blockSizeLimit > 0 && blockSizeLimit < most ? blockSizeLimit : most;
    int device = function->module->context->device;
    *minGridSize = (int)resident(function, (uint64_t)*blockSize, dynamicSMemSize, device) *
                   device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config)
{
    ENTER(CURRENT);
    Function *function;
    CHECK(numClusters && config, CUDA_ERROR_INVALID_VALUE);
    TRY(function_of(func, &function));
    int device = function->module->context->device;
    Launch launch = {.function = function};
    TRY(take_attributes(&launch, config->attrs, config->numAttrs));
    uint64_t threads = (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ, blocks = 1;
    for (int i = 0; i < 3; i++)
        blocks *= launch.cluster[i] ? launch.cluster[i] : function->kernel->cluster[i] ? function->kernel->cluster[i] : 1;
    bool large = launch.non_portable || function->attributes[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED];
    uint64_t most = resident(function, threads, config->sharedMemBytes, device) *
                    (uint64_t)device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    *numClusters = blocks <= (large ? 16 : 8) ? (int)(most / blocks) : 0;
    return CUDA_SUCCESS;
}
