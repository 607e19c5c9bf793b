/* PTX in the worker: loading it, and the worker's description of its kernels and globals. */
#include "cuda_standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Read the worker's description of a module. */
static void read_description(Module *module, Bytes *response) {
    module->worker_number = get_u32(response);
    uint32_t count = get_u32(response);
    module->kernels = calloc(count + 1, sizeof *module->kernels);
    for (uint32_t i = 0; i < count && !response->short_read; i++) {
        Kernel *kernel = &module->kernels[module->kernel_count++];
        kernel->name = get_text(response);
        uint32_t params = get_u32(response);
        kernel->params = calloc(params + 1, sizeof *kernel->params);
        for (uint32_t j = 0; j < params && !response->short_read; j++) {
            kernel->params[kernel->param_count].offset = get_u32(response);
            kernel->params[kernel->param_count++].size = get_u32(response);
            get_u32(response); /* the alignment */
        }
        kernel->param_bytes = get_u32(response);
        for (int j = 0; j < 3; j++)
            kernel->block[j] = get_u32(response);
        kernel->max_threads = get_u32(response);
        for (int j = 0; j < 3; j++)
            kernel->cluster[j] = get_u32(response);
        kernel->shared = get_u32(response);
        kernel->local = get_u32(response);
        kernel->registers = get_u32(response);
    }
    count = get_u32(response);
    module->globals = calloc(count + 1, sizeof *module->globals);
    for (uint32_t i = 0; i < count && !response->short_read; i++) {
        Global *global = &module->globals[module->global_count++];
        global->name = get_text(response);
        global->size = get_u64(response);
        global->align = get_u32(response);
        global->flags = get_u32(response);
    }
}

/* Return whether the declaration of a kernel in PTX has a directive. */
static bool has_directive(const char *text, const char *kernel, const char *directive) {
    size_t length = strlen(kernel);
    for (const char *entry = strstr(text, ".entry"); entry; entry = strstr(entry + 1, ".entry")) {
        const char *name = entry + 6 + strspn(entry + 6, " \t\r\n"), *body = strchr(name, '{'),
                   *place = strstr(name, directive);
        if (!strncmp(name, kernel, length) && strchr(" \t\r\n({", name[length]))
            return place && (!body || place < body);
    }
    return false;
}

CUresult load_ptx(Module *module, const char *text, char *log, size_t log_size) {
    int arch = device_arch(module->context->device);
    TRY(ptx_check(text, arch, log, log_size));
    Bytes request = {0}, response;
    char *message;
    put_u32(&request, WORKER_LOAD);
    put_u32(&request, (uint32_t)arch);
    put_bytes(&request, text, strlen(text));
    int code = worker_call(&request, &response, &message);
    bytes_free(&request);
    if (code) {
        snprintf(log, log_size, "%s", message);
        explain("%s", message);
        free(message);
        bytes_free(&response);
        return (CUresult)code;
    }
    read_description(module, &response);
    for (uint32_t i = 0; i < module->kernel_count; i++)
        module->kernels[i].blocks_are_clusters =
            has_directive(text, module->kernels[i].name, ".blocksareclusters");
    bool whole = !response.short_read;
    bytes_free(&response);
    module->ptx = true;
    module->arch = arch;
    CHECK(whole, CUDA_ERROR_UNKNOWN);
    return CUDA_SUCCESS;
}
