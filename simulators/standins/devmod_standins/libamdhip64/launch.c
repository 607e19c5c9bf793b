/* Launches: what is checked, and the request to the worker. */
#include "hip_standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- running
 * ---------------------------------------------------------------------------------------------------------------
 */

static void put_launch(Bytes *request, const Launch *launch) {
    Function *function = launch->function;
    put_u32(request, WORKER_LAUNCH);
    put_u32(request, function->module->worker_number);
    put_u32(request, function->index);
    for (int i = 0; i < 3; i++)
        put_u32(request, launch->grid[i]);
    for (int i = 0; i < 3; i++)
        put_u32(request, launch->block[i]);
    put_u32(request, launch->shared);
    put_u32(request, launch->cooperative ? 1 : 0);
    put_bytes(request, launch->arguments, function->kernel->argument_bytes);
    put_ranges(request, function->module->context, true);
}

static int run_launch(Op *op) {
    Launch *launch = (Launch *)op->data;
    if (handle_peek(HANDLE_FUNCTION, launch->handle) != launch->function) {
        violation("a launch runs after its module was unloaded");
        return CODE_INVALID_HANDLE;
    }
    const char *name = launch->function->kernel->name;
    if (launch->function->module->worker_generation != worker_generation()) {
        explain("%s: the worker that had its module has ended", name);
        return CODE_UNKNOWN;
    }
    Bytes request = {0}, response;
    char *message;
    put_launch(&request, launch);
    int code = worker_call(&request, &response, &message);
    if (code) {
        explain("%s: %s", name, message);
        if (code == CODE_NOT_SUPPORTED || code == CODE_UNKNOWN)
            fprintf(stderr, "stand-in runtime: %s: %s\n", name, message);
    }
    if (code == CODE_ILLEGAL_ADDRESS || code == CODE_UNKNOWN)
        worker_end(); /* a fault of the machine code ends the process that has executed it */
    free(message);
    bytes_free(&request);
    bytes_free(&response);
    return code;
}

/* ---- checking
 * --------------------------------------------------------------------------------------------------------------
 */

static int check(const Launch *launch) {
    const Kernel *kernel = launch->function->kernel;
    int device = launch->function->module->context->device;
    uint64_t threads = 1, blocks = 1;
    for (int i = 0; i < 3; i++) {
        CHECK(launch->grid[i] && launch->block[i], hipErrorInvalidConfiguration);
        CHECK(launch->grid[i] <=
                  (uint32_t)device_attribute(device, hipDeviceAttributeMaxGridDimX + i),
              hipErrorInvalidConfiguration);
        CHECK((uint64_t)launch->grid[i] * launch->block[i] <= UINT32_MAX,
              hipErrorInvalidConfiguration);
        threads *= launch->block[i];
        blocks *= launch->grid[i];
    }
    CHECK(threads <= MAX_THREADS, hipErrorInvalidConfiguration);
    CHECK(threads <= kernel->max_threads, CODE_LAUNCH_FAILED);
    for (int i = 0; i < 3 && kernel->block[0]; i++)
        CHECK(launch->block[i] == kernel->block[i], CODE_LAUNCH_FAILED);
    CHECK(kernel->shared + (uint64_t)launch->shared <=
              (uint64_t)device_attribute(device, hipDeviceAttributeMaxSharedMemoryPerBlock),
          CODE_INVALID_VALUE);
    uint64_t resident = resident_blocks(launch->function, threads, launch->shared);
    uint64_t most =
        resident * (uint64_t)device_attribute(device, hipDeviceAttributeMultiprocessorCount);
    CHECK(!launch->cooperative || blocks <= most, CODE_COOPERATIVE_LAUNCH_TOO_LARGE);
    return CODE_SUCCESS;
}

static int complete(Launch *launch, void **params, void **extra) {
    TRY(check(launch));
    TRY(fill_arguments(launch, params, extra));
    const Kernel *kernel = launch->function->kernel;
    note_launch(launch->arguments, kernel->visible_bytes,
                "%s grid=%u,%u,%u block=%u,%u,%u shared=%u cooperative=%d", kernel->name,
                launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0],
                launch->block[1], launch->block[2], launch->shared, launch->cooperative);
    return CODE_SUCCESS;
}

static int submit_launch(Launch head, hipStream_t handle, void **params, void **extra) {
    Stream *stream;
    TRY(function_of(head.handle, &head.function));
    TRY(stream_of(handle, &stream));
    CHECK(stream->group == &head.function->module->context->group, CODE_INVALID_HANDLE);
    uint32_t bytes = head.function->kernel->argument_bytes;
    Op *op = op_make("launch", run_launch, NULL, sizeof(Launch) + bytes);
    Launch *launch = (Launch *)op->data;
    memcpy(launch, &head, sizeof head);
    int code = complete(launch, params, extra);
    if (code) {
        op_free(op);
        return code;
    }
    return submit(stream, op);
}

HIP_LAUNCH(hipModuleLaunchKernel) {
    Launch launch = {
        NULL,           f,    {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ},
        sharedMemBytes, false};
    return submit_launch(launch, stream, kernelParams, extra);
}

HIP_LAUNCH(hipModuleLaunchCooperativeKernel) {
    Launch launch = {
        NULL,           f,   {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ},
        sharedMemBytes, true};
    return submit_launch(launch, stream, kernelParams, NULL);
}
