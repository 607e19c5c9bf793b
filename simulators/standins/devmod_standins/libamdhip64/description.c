/* Code objects in the worker, and its description of their kernels and globals. */
#include "hip_standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_kernel(Kernel *kernel, Bytes *response) {
    kernel->name = get_text(response);
    kernel->argument_bytes = get_u32(response);
    kernel->shared = get_u32(response);
    kernel->local = get_u32(response);
    kernel->max_threads = get_u32(response);
    kernel->lanes = get_u32(response);
    for (int i = 0; i < 3; i++)
        kernel->block[i] = get_u32(response);
    kernel->sgprs = get_u32(response);
    kernel->vgprs = get_u32(response);
    uint32_t count = get_u32(response);
    kernel->arguments = calloc(count + 1, sizeof *kernel->arguments);
    for (uint32_t i = 0; i < count && !response->short_read; i++) {
        Argument *argument = &kernel->arguments[kernel->argument_count++];
        argument->kind = get_text(response);
        argument->offset = get_u32(response);
        argument->size = get_u32(response);
        bool visible = strncmp(argument->kind, "hidden_", 7) != 0;
        if (visible && argument->offset + argument->size > kernel->visible_bytes)
            kernel->visible_bytes = argument->offset + argument->size;
        if (argument->offset + argument->size > kernel->argument_bytes)
            response->short_read = true; /* the worker has checked it: its description is wrong */
    }
}

static void read_description(Module *module, Bytes *response) {
    module->worker_number = get_u32(response);
    module->target = get_text(response);
    module->image_size = get_u64(response);
    uint32_t count = get_u32(response);
    module->kernels = calloc(count + 1, sizeof *module->kernels);
    for (uint32_t i = 0; i < count && !response->short_read; i++)
        read_kernel(&module->kernels[module->kernel_count++], response);
    count = get_u32(response);
    module->globals = calloc(count + 1, sizeof *module->globals);
    for (uint32_t i = 0; i < count && !response->short_read; i++) {
        Global *global = &module->globals[module->global_count++];
        global->name = get_text(response);
        global->offset = get_u64(response);
        global->size = get_u64(response);
    }
}

int describe(Module *module, const void *image, size_t size) {
    Bytes request = {0}, response;
    char *message;
    put_u32(&request, WORKER_LOAD);
    put_bytes(&request, image, size);
    int code = worker_call(&request, &response, &message);
    bytes_free(&request);
    module->worker_generation = worker_generation();
    if (code) {
        explain("%s", message);
        if (code == CODE_UNKNOWN) {
            fprintf(stderr, "stand-in runtime: %s\n", message);
            worker_end(); /* it may have ended already: the next call starts another one */
        }
    } else {
        read_description(module, &response);
        code = response.short_read ? CODE_UNKNOWN : CODE_SUCCESS;
    }
    free(message);
    bytes_free(&response);
    return code;
}
