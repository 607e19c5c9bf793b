/* Launches, and what is checked. */
#include "cuda_standin.h"

#include <string.h>

/* Replace CU_LAUNCH_KERNEL_REQUIRED_BLOCK_DIM by the kernel's block, and a grid that counts
 * clusters by one of blocks. */
static void take_required(Launch *launch) {
    const Kernel *kernel = launch->function->kernel;
    bool asked = launch->block[0] == CU_LAUNCH_KERNEL_REQUIRED_BLOCK_DIM && launch->block[1] == 1 &&
                 launch->block[2] == 1;
    for (int i = 0; i < 3; i++) {
        if (asked && kernel->block[i])
            launch->block[i] = kernel->block[i];
        if (kernel->blocks_are_clusters && kernel->cluster[i])
            launch->grid[i] *= kernel->cluster[i];
    }
}

static CUresult fill_launch(Launch *launch, const CUlaunchConfig *config, void **params,
                            void **extra) {
    int device = launch->function->module->context->device;
    take_required(launch);
    TRY(take_attributes(launch, config->attrs, config->numAttrs));
    TRY(check_dimensions(launch, device));
    TRY(check_cluster(launch, device));
    TRY(check_resources(launch, device));
    return launch_fill(launch, params, extra);
}

/* Check the current context. CUDA documents that the stream's context is the function's, and not
 * what happens where another one is current. */
static CUresult check_context(const Context *context) {
    const char *outcome = setting("launch_context");
    if (!outcome || current_context() == context || !strcmp(outcome, "stream"))
        return CUDA_SUCCESS;
    return strcmp(outcome, "context") ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_CONTEXT;
}

/* Make the operation of a launch, which is checked. */
CUresult launch_op(const CUlaunchConfig *config, CUfunction f, void **params, void **extra,
                   bool cooperative, Op **result) {
    Function *function;
    TRY(function_of(f, &function));
    Op *op = launch_make(&(Launch){
        .function = function,
        .handle = function->handle,
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .shared = config->sharedMemBytes,
        .cooperative = cooperative,
        .asked = f,
    });
    CUresult code = fill_launch((Launch *)op->data, config, params, extra);
    if (code) {
        op_free(op);
        return code;
    }
    *result = op;
    return CUDA_SUCCESS;
}

/* Give a launch the attributes of another one, or of its own, and check them. */
CUresult launch_take_attributes(Launch *launch, const Launch *from) {
    int device = launch->function->module->context->device;
    memmove(launch->cluster, from->cluster, sizeof launch->cluster);
    memmove(launch->preferred, from->preferred, sizeof launch->preferred);
    launch->cooperative = from->cooperative;
    launch->programmatic = from->programmatic;
    launch->priority = from->priority;
    if (launch->cluster[0] * launch->cluster[1] * launch->cluster[2] == 1)
        launch->cluster[0] = 0; /* none, as before its check */
    TRY(check_cluster(launch, device));
    return check_resources(launch, device);
}

/* Make the operation of the same launch with the attributes of another one, or one more; each may
 * be NULL. */
CUresult launch_copy(const Launch *launch, const Launch *from, const CUlaunchAttribute *attribute,
                     Op **result) {
    Op *op = launch_make(launch);
    Launch *copy = (Launch *)op->data;
    memcpy(copy->params, launch->params, launch->function->kernel->param_bytes);
    CUresult code = take_attributes(copy, attribute, attribute != NULL);
    if (!code)
        code = launch_take_attributes(copy, from ? from : copy);
    if (code) {
        op_free(op);
        return code;
    }
    *result = op;
    return CUDA_SUCCESS;
}

static CUresult launch(const CUlaunchConfig *config, CUfunction f, void **params, void **extra,
                       bool cooperative) {
    Function *function;
    Stream *stream;
    Op *op;
    TRY(function_of(f, &function));
    TRY(stream_of(config->hStream, &stream));
    CHECK(stream->group == &function->module->context->group, CUDA_ERROR_INVALID_HANDLE);
    TRY(check_context(function->module->context));
    TRY(launch_op(config, f, params, extra, cooperative, &op));
    return launch_submit(op, stream);
}

#define LAUNCH(name, call)                                                                         \
    ENTRY(name) {                                                                                  \
        if (skip_launches)                                                                         \
            return CUDA_SUCCESS;                                                                   \
        ENTER(CURRENT);                                                                            \
        return call;                                                                               \
    }
#define CONFIGURATION                                                                              \
    &(CUlaunchConfig){gridDimX,  gridDimY,       gridDimZ, blockDimX, blockDimY,                   \
                      blockDimZ, sharedMemBytes, hStream,  NULL,      0}

LAUNCH(cuLaunchKernel, launch(CONFIGURATION, f, kernelParams, extra, false))
LAUNCH(cuLaunchCooperativeKernel, launch(CONFIGURATION, f, kernelParams, NULL, true))
LAUNCH(cuLaunchKernelEx,
       config ? launch(config, f, kernelParams, extra, false) : CUDA_ERROR_INVALID_VALUE)

/* ---- the launch API of CUDA 3, which pycuda has */

API_IF(x > 0 && y > 0 && z > 0, cuFuncSetBlockShape, CURRENT) {
    Function *function;
    TRY(function_of(hfunc, &function));
    const int block[] = {x, y, z};
    memcpy(function->next_block, block, sizeof block);
    return CUDA_SUCCESS;
}

WITH_FUNCTION(cuFuncSetSharedSize, hfunc, (function->next_shared = bytes, CUDA_SUCCESS))

API(cuParamSetSize, CURRENT) {
    Function *function;
    TRY(function_of(hfunc, &function));
    CHECK(numbytes <= sizeof function->next_params, CUDA_ERROR_INVALID_VALUE);
    function->next_size = numbytes;
    return CUDA_SUCCESS;
}

API(cuParamSetv, CURRENT) {
    Function *function;
    TRY(function_of(hfunc, &function));
    CHECK(ptr && offset >= 0 && inside(sizeof function->next_params, (uint64_t)offset, numbytes),
          CUDA_ERROR_INVALID_VALUE);
    memcpy(function->next_params + offset, ptr, numbytes);
    return CUDA_SUCCESS;
}

ENTRY(cuParamSeti) {
    return cuParamSetv(hfunc, offset, &value, sizeof value);
}

ENTRY(cuParamSetf) {
    return cuParamSetv(hfunc, offset, &value, sizeof value);
}

API(cuLaunchGridAsync, CURRENT) {
    Function *function;
    TRY(function_of(f, &function));
    CHECK(grid_width > 0 && grid_height > 0, CUDA_ERROR_INVALID_VALUE);
    const uint32_t *block = function->next_block;
    size_t size = function->next_size;
    CUlaunchConfig config = {(unsigned)grid_width,
                             (unsigned)grid_height,
                             1,
                             block[0],
                             block[1],
                             block[2],
                             function->next_shared,
                             hStream,
                             NULL,
                             0};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, function->next_params,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    return launch(&config, f, NULL, extra, false);
}

ENTRY(cuLaunchGrid) {
    return cuLaunchGridAsync(f, grid_width, grid_height, NULL);
}

ENTRY(cuLaunch) {
    return cuLaunchGridAsync(f, 1, 1, NULL);
}
