/* Launches: what is checked, hidden arguments, and failures. */
#include "hip_standin.h"

#include <stdio.h>
#include <string.h>

/* Return the value of a hidden argument. One that the emulated kernels do not use, such as the
 * buffer of printf, is null. */
uint64_t hidden_value(const Launch *launch, const char *kind) {
    size_t length = strlen(kind);
    int axis = length ? kind[length - 1] - 'x' : -1;
    bool with_axis = axis >= 0 && axis < 3 && length > 2 && kind[length - 2] == '_';
    if (with_axis && strncmp(kind, "hidden_block_count", 18) == 0)
        return launch->grid[axis];
    if (with_axis && strncmp(kind, "hidden_group_size", 17) == 0)
        return launch->block[axis];
    if (strcmp(kind, "hidden_grid_dims") == 0)
        return launch->grid[2] * launch->block[2] > 1   ? 3
               : launch->grid[1] * launch->block[1] > 1 ? 2
                                                        : 1;
    if (strcmp(kind, "hidden_dynamic_lds_size") == 0)
        return launch->shared;
    return 0; /* hidden_remainder, hidden_global_offset: groups are whole, and grids begin at 0 */
}

void launch_failed(int code, const char *kernel) {
    explain("%s: %s", kernel, worker_message());
    if (code == CODE_NOT_SUPPORTED || code == CODE_UNKNOWN)
        fprintf(stderr, "stand-in runtime: %s: %s\n", kernel, worker_message());
    if (code == CODE_ILLEGAL_ADDRESS || code == CODE_UNKNOWN)
        worker_end(); /* a fault of the machine code ends the process that has executed it */
}

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

static int submit_launch(Launch head, hipStream_t handle, void **params, void **extra) {
    Stream *stream;
    TRY(function_of(head.handle, &head.function));
    TRY(stream_of(handle, &stream));
    CHECK(stream->group == &head.function->module->context->group, CODE_INVALID_HANDLE);
    TRY(check(&head));
    Op *op = launch_make(&head);
    int code = launch_fill((Launch *)op->data, params, extra);
    if (code) {
        op_free(op);
        return code;
    }
    return launch_submit(op, stream);
}

#define HEAD(is_cooperative)                                                                       \
    (Launch) {                                                                                     \
        .handle = f, .grid = {gridDimX, gridDimY, gridDimZ},                                       \
        .block = {blockDimX, blockDimY, blockDimZ}, .shared = sharedMemBytes,                      \
        .cooperative = is_cooperative                                                              \
    }

HIP_LAUNCH(hipModuleLaunchKernel) {
    return submit_launch(HEAD(false), stream, kernelParams, extra);
}

HIP_LAUNCH(hipModuleLaunchCooperativeKernel) {
    return submit_launch(HEAD(true), stream, kernelParams, NULL);
}
