/* Modules: what the worker describes of them, their functions and their globals. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

static void get_numbers(Bytes *response, uint32_t *numbers, int count) {
    for (int i = 0; i < count; i++)
        numbers[i] = get_u32(response);
}

static void read_kernel(Kernel *kernel, Bytes *response) {
    kernel->name = get_text(response);
    uint32_t count = get_u32(response);
    kernel->params = zeroed(count * sizeof *kernel->params);
    for (uint32_t i = 0; i < count && !response->short_read; i++) {
        Param *param = &kernel->params[kernel->param_count++];
        get_numbers(response, &param->offset, 1);
        get_numbers(response, &param->size, 1);
        param->kind = get_text(response);
        uint32_t end = param->offset + param->size;
        if (!param_is_hidden(param) && end > kernel->visible_bytes)
            kernel->visible_bytes = end;
    }
    get_numbers(response, &kernel->param_bytes, 1);
    get_numbers(response, kernel->block, 3);
    get_numbers(response, &kernel->max_threads, 1);
    get_numbers(response, kernel->cluster, 3);
    get_numbers(response, &kernel->shared, 1);
    get_numbers(response, &kernel->local, 1);
    get_numbers(response, &kernel->registers, 1);
    get_numbers(response, &kernel->lanes, 1);
    kernel->blocks_are_clusters = get_u32(response);
}

bool param_is_hidden(const Param *param) {
    return strncmp(param->kind, "hidden_", 7) == 0;
}

/* Read the worker's description of a module that it has loaded. */
int module_read(Module *module, Bytes *response) {
    module->in_worker = module->is_executed = true;
    module->worker_generation = worker_generation();
    module->worker_number = get_u32(response);
    module->target = get_text(response);
    module->image_size = get_u64(response);
    uint32_t count = get_u32(response);
    module->kernels = zeroed(count * sizeof *module->kernels);
    while (module->kernel_count < count && !response->short_read)
        read_kernel(&module->kernels[module->kernel_count++], response);
    count = get_u32(response);
    module->globals = zeroed(count * sizeof *module->globals);
    while (module->global_count < count && !response->short_read) {
        Global *global = &module->globals[module->global_count++];
        global->name = get_text(response);
        global->size = get_u64(response);
        global->offset = get_u64(response);
        global->flags = get_u32(response);
    }
    return response->short_read ? CODE_UNKNOWN : CODE_SUCCESS;
}

/* Give a module with kernels its functions. */
void module_open(Module *module) {
    module->functions = zeroed(module->kernel_count * sizeof *module->functions);
    for (uint32_t i = 0; i < module->kernel_count; i++) {
        Kernel *kernel = &module->kernels[i];
        uint32_t room = kernel->shared < DYNAMIC_BYTES ? DYNAMIC_BYTES - kernel->shared : 0;
        module->functions[i] =
            (Function){.module = module, .kernel = kernel, .index = i, .max_dynamic = room};
    }
}

static void unload_in_worker(const Module *module) {
    Bytes request = {0};
    if (!module->in_worker || module->worker_generation != worker_generation())
        return;
    put_u32(&request, WORKER_UNLOAD);
    put_u32(&request, module->worker_number);
    worker_call(&request, NULL);
}

/* Free a module of whatever state, and its handles. */
void module_drop(void *object) {
    Module *module = object;
    handle_drop(HANDLE_MODULE, module->handle);
    unload_in_worker(module);
    for (uint32_t i = 0; i < module->kernel_count; i++) {
        Kernel *kernel = &module->kernels[i];
        for (uint32_t j = 0; j < kernel->param_count; j++)
            free(kernel->params[j].kind);
        free(kernel->params);
        free(kernel->name);
        if (module->functions)
            handle_drop(HANDLE_FUNCTION, module->functions[i].handle);
    }
    for (uint32_t i = 0; i < module->global_count; i++) {
        free(module->globals[i].name);
        if (!module->globals[i].is_shared)
            arena_free(module->globals[i].address);
    }
    arena_free(module->address);
    free(module->target);
    free(module->kernels);
    free(module->globals);
    free(module->functions);
    free(module);
}

int module_of(void *handle, Module **module) {
    *module = handle_get(HANDLE_MODULE, handle);
    return *module ? CODE_SUCCESS : CODE_INVALID_HANDLE;
}

/* Return the function or the global of a name, or NULL. */
Function *module_function(Module *module, const char *name) {
    for (uint32_t i = 0; i < module->kernel_count; i++) {
        Function *function = &module->functions[i];
        if (strcmp(module->kernels[i].name, name) != 0)
            continue;
        if (!function->handle)
            function->handle = handle_make(HANDLE_FUNCTION, function, module->context);
        return function;
    }
    return NULL;
}

Global *module_global(const Module *module, const char *name) {
    for (uint32_t i = 0; i < module->global_count; i++)
        if (strcmp(module->globals[i].name, name) == 0)
            return &module->globals[i];
    return NULL;
}
