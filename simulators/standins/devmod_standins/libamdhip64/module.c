/* Modules: code objects, which the worker loads into device memory. */
#include "hip_standin.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { AMDGPU_MACHINE = 224 };

static void free_module(Module *module) {
    for (uint32_t i = 0; i < module->kernel_count; i++) {
        for (uint32_t j = 0; j < module->kernels[i].argument_count; j++)
            free(module->kernels[i].arguments[j].kind);
        free(module->kernels[i].name);
        free(module->kernels[i].arguments);
    }
    for (uint32_t i = 0; i < module->global_count; i++)
        free(module->globals[i].name);
    if (module->address)
        arena_free(module->address);
    free(module->target);
    free(module->kernels);
    free(module->globals);
    free(module->functions);
    free(module);
}

static void unload_in_worker(const Module *module) {
    Bytes request = {0}, response;
    char *message;
    if (!module->target || !worker_started() || module->worker_generation != worker_generation())
        return;
    put_u32(&request, WORKER_UNLOAD);
    put_u32(&request, module->worker_number);
    worker_call(&request, &response, &message);
    bytes_free(&request);
    bytes_free(&response);
    free(message);
}

void module_drop(void *object) {
    Module *module = object;
    for (uint32_t i = 0; i < module->kernel_count; i++)
        if (module->functions[i].handle)
            handle_drop(HANDLE_FUNCTION, module->functions[i].handle);
    unload_in_worker(module);
    free_module(module);
}

/* Give the image its memory, and let the worker load it there. */
static int place(Module *module) {
    Bytes request = {0}, response;
    Block *block;
    char *message;
    TRY(arena_allocate(BLOCK_DEVICE, module->context->device, module->image_size, device_memory(),
                       module->context, &block));
    block->internal = true;
    module->address = block->start;
    put_u32(&request, WORKER_PLACE);
    put_u32(&request, module->worker_number);
    put_u64(&request, module->address);
    int code = worker_call(&request, &response, &message);
    if (code)
        explain("%s", message);
    free(message);
    bytes_free(&request);
    bytes_free(&response);
    return code;
}

static int load_into(Module *module, const void *image) {
    char target[TARGET_BYTES], magic[SELFMAG];
    CHECK(copy_safely(magic, image, SELFMAG) && memcmp(magic, ELFMAG, SELFMAG) == 0,
          CODE_INVALID_IMAGE);
    size_t size = elf_size(image, AMDGPU_MACHINE);
    char *copy = size ? malloc(size) : NULL;
    int code =
        copy && copy_safely(copy, image, size) ? describe(module, copy, size) : CODE_INVALID_IMAGE;
    free(copy);
    TRY(code);
    device_target(module->context->device, target);
    if (!target_fits(module->target, target)) {
        explain("a code object for %s does not run on %s", module->target, target);
        return CODE_NO_BINARY;
    }
    return place(module);
}

HIP(hipModuleLoadData, CURRENT) {
    CHECK(module && image, CODE_INVALID_VALUE);
    TRY(refuse_in_capture());
    Module *object = calloc(1, sizeof *object);
    CHECK(object, CODE_OUT_OF_MEMORY);
    object->context = current_context();
    int code = load_into(object, image);
    if (code) {
        unload_in_worker(object);
        free_module(object);
        return code;
    }
    object->functions = calloc(object->kernel_count + 1, sizeof *object->functions);
    for (uint32_t i = 0; i < object->kernel_count; i++)
        object->functions[i] =
            (Function){.module = object, .kernel = &object->kernels[i], .index = i};
    object->handle = handle_make(HANDLE_MODULE, object, object->context);
    *module = object->handle;
    return CODE_SUCCESS;
}

static int module_of(hipModule_t handle, Module **module) {
    *module = handle_get(HANDLE_MODULE, handle);
    return *module ? CODE_SUCCESS : CODE_INVALID_HANDLE;
}

HIP(hipModuleUnload, CURRENT) {
    Module *object;
    TRY(module_of(module, &object));
    int code = context_run(object->context);
    handle_drop(HANDLE_MODULE, module);
    module_drop(object);
    return code;
}

HIP(hipModuleGetFunction, CURRENT) {
    Module *object;
    CHECK(function && kname && *kname, CODE_INVALID_VALUE);
    TRY(module_of(module, &object));
    for (uint32_t i = 0; i < object->kernel_count; i++) {
        if (strcmp(object->kernels[i].name, kname) != 0)
            continue;
        if (!object->functions[i].handle)
            object->functions[i].handle =
                handle_make(HANDLE_FUNCTION, &object->functions[i], object->context);
        *function = object->functions[i].handle;
        return CODE_SUCCESS;
    }
    return CODE_NOT_FOUND;
}

HIP(hipModuleGetGlobal, CURRENT) {
    Module *object;
    CHECK(name, CODE_INVALID_VALUE);
    TRY(module_of(hmod, &object));
    for (uint32_t i = 0; i < object->global_count; i++) {
        if (strcmp(object->globals[i].name, name) != 0)
            continue;
        if (dptr)
            *dptr = (void *)(uintptr_t)(object->address + object->globals[i].offset);
        if (bytes)
            *bytes = object->globals[i].size;
        return CODE_SUCCESS;
    }
    return CODE_NOT_FOUND;
}
