/* Launches: what is checked, the parameter block, and the request to the worker. */
#include "cuda_standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- running
 * ---------------------------------------------------------------------------------------------------------------
 */

static int run_launch(Op *op) {
    Launch *launch = (Launch *)op->data;
    if (handle_peek(HANDLE_FUNCTION, launch->handle) != launch->function) {
        violation("a launch runs after its module was unloaded");
        return CUDA_ERROR_INVALID_HANDLE;
    }
    Function *function = launch->function;
    if (!function->module->ptx)
        return 0; /* the setting "skip_cubins": its module is not loaded otherwise */
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
    put_u32(&request, (launch->cooperative ? 1u : 0) | (launch->programmatic ? 2u : 0) |
                          (is_checked(NULL) ? 4u : 0));
    put_u32(&request, (uint32_t)setting_number("kernel_seconds", 60));
    put_bytes(&request, launch->params, function->kernel->param_bytes);
    put_ranges(&request, function->module->context, true);
    put_ranges(&request, function->module->context, false);
    bool checked = put_checks(&request);
    mirrors_load();
    int code = worker_call(&request, &response, &message);
    mirrors_store();
    if (checked)
        take_reports(&response);
    if (code) {
        explain_failure(code, function->kernel->name, message);
        fprintf(stderr, "devmod-simulators: %s: %s\n", function->kernel->name, message);
    }
    free(message);
    bytes_free(&request);
    bytes_free(&response);
    return code;
}

/* Fill the parameter block from kernelParams or from `extra`. */
static CUresult take_params(Launch *launch, void **params, void **extra) {
    const Kernel *kernel = launch->function->kernel;
    CHECK(!(params && extra), CUDA_ERROR_INVALID_VALUE);
    if (extra) {
        const void *buffer = NULL;
        const size_t *size = NULL;
        for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
            CHECK(i < 4 && extra[i + 1], CUDA_ERROR_INVALID_VALUE);
            CHECK(extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER ||
                      extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE,
                  CUDA_ERROR_INVALID_VALUE);
            if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
                buffer = extra[i + 1];
            else
                size = extra[i + 1];
        }
        CHECK(buffer && size, CUDA_ERROR_INVALID_VALUE);
        if (*size < kernel->param_bytes || *size > (kernel->param_bytes + 15) / 16 * 16) {
            explain("%s: the parameter block has %zu bytes; expected %u", kernel->name, *size,
                    kernel->param_bytes);
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

static void note(const Launch *launch) {
    const Kernel *kernel = launch->function->kernel;
    note_launch(
        launch->params, kernel->param_bytes,
        "%s grid=%u,%u,%u block=%u,%u,%u cluster=%u,%u,%u preferred=%u,%u,%u shared=%u cooperative=%d programmatic=%d",
        kernel->name, launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0],
        launch->block[1], launch->block[2], launch->cluster[0], launch->cluster[1],
        launch->cluster[2], launch->preferred[0], launch->preferred[1], launch->preferred[2],
        launch->shared, launch->cooperative, launch->programmatic);
}

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
    return take_params(launch, params, extra);
}

/* Check the current context. CUDA documents that the stream's context is the function's, and not
 * what happens where another one is current. */
static CUresult check_context(const Context *context) {
    const char *outcome = setting("launch_context");
    if (!outcome || current_context() == context || !strcmp(outcome, "stream"))
        return CUDA_SUCCESS;
    return strcmp(outcome, "context") ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_CONTEXT;
}

/* Make the operation of a launch of a function, with room for its parameters and their addresses.
 */
static Op *make_launch(const Function *function) {
    const Kernel *kernel = function->kernel;
    size_t bytes = (kernel->param_bytes + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
    size_t list = kernel->param_count * sizeof(void *);
    return op_make("launch", run_launch, NULL, sizeof(Launch) + bytes + list);
}

/* Let the list of a launch have the addresses of its parameters. */
static void list_params(Op *op) {
    Launch *launch = (Launch *)op->data;
    const Kernel *kernel = launch->function->kernel;
    size_t list = op->size - kernel->param_count * sizeof(void *);
    launch->param_list = (void **)((char *)op->data + list);
    for (uint32_t i = 0; i < kernel->param_count; i++)
        launch->param_list[i] = launch->params + kernel->params[i].offset;
}

CUresult launch_op(const CUlaunchConfig *config, CUfunction f, void **params, void **extra,
                   bool cooperative, Op **result) {
    Function *function;
    TRY(function_of(f, &function));
    Op *op = make_launch(function);
    Launch *launch = (Launch *)op->data;
    *launch = (Launch){
        .function = function,
        .handle = function->handle,
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .shared = config->sharedMemBytes,
        .cooperative = cooperative,
        .asked = f,
    };
    list_params(op);
    CUresult code = fill_launch(launch, config, params, extra);
    if (code) {
        op_free(op);
        return code;
    }
    *result = op;
    return CUDA_SUCCESS;
}

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

CUresult launch_copy(const Launch *launch, const Launch *from, const CUlaunchAttribute *attribute,
                     Op **result) {
    Op *op = make_launch(launch->function);
    Launch *copy = (Launch *)op->data;
    memcpy(copy, launch, sizeof *copy + launch->function->kernel->param_bytes);
    list_params(op);
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
    note((const Launch *)op->data);
    return submit(stream, op);
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

/* ---- the launch API of CUDA 3, which pycuda has
 * ------------------------------------------------------------------------------- */

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
