/* The argument buffer of a kernel: the visible arguments from the program, the hidden ones from the
 * launch. */
#include "hip_standin.h"

#include <stdio.h>
#include <string.h>

static int take_block(Launch *launch, void **extra) {
    const Kernel *kernel = launch->function->kernel;
    const void *buffer = NULL;
    const size_t *size = NULL;
    for (int i = 0; extra[i] != (void *)(uintptr_t)HIP_LAUNCH_PARAM_END; i += 2) {
        uintptr_t entry = (uintptr_t)extra[i];
        CHECK(i < 4 && extra[i + 1], CODE_INVALID_VALUE);
        CHECK(entry == HIP_LAUNCH_PARAM_BUFFER_POINTER || entry == HIP_LAUNCH_PARAM_BUFFER_SIZE,
              CODE_INVALID_VALUE);
        if (entry == HIP_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else
            size = extra[i + 1];
    }
    CHECK(buffer && size, CODE_INVALID_VALUE);
    if (*size < kernel->visible_bytes || *size > kernel->argument_bytes + 15) {
        explain("%s: the block of arguments has %zu bytes; expected %u", kernel->name, *size,
                kernel->visible_bytes);
        return CODE_INVALID_VALUE;
    }
    memcpy(launch->arguments, buffer, kernel->visible_bytes);
    return CODE_SUCCESS;
}

/* Set *value to that of a hidden argument. One that the emulated kernels do not use, such as the
 * buffer of printf, is null. */
static uint64_t hidden_value(const Launch *launch, const char *kind) {
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

int fill_arguments(Launch *launch, void **params, void **extra) {
    const Kernel *kernel = launch->function->kernel;
    uint32_t number = 0;
    CHECK(!(params && extra), CODE_INVALID_VALUE);
    if (extra)
        TRY(take_block(launch, extra));
    for (uint32_t i = 0; i < kernel->argument_count; i++) {
        const Argument *argument = &kernel->arguments[i];
        bool hidden = strncmp(argument->kind, "hidden_", 7) == 0;
        if (hidden) {
            uint64_t value = hidden_value(launch, argument->kind);
            memcpy(launch->arguments + argument->offset, &value,
                   argument->size < sizeof value ? argument->size : sizeof value);
        } else if (!extra) {
            CHECK(params && params[number], CODE_INVALID_VALUE);
            memcpy(launch->arguments + argument->offset, params[number++], argument->size);
        }
    }
    return CODE_SUCCESS;
}
