/* Modules: code objects, which the worker loads into device memory. */
#include "hip_standin.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AMDGPU_MACHINE = 224 };

/* Let the worker read a code object. */
static int describe(Module *module, const void *image, size_t size) {
    Bytes request = {0}, response;
    put_u32(&request, WORKER_LOAD);
    put_bytes(&request, image, size);
    int code = worker_call(&request, &response);
    if (!code)
        code = module_read(module, &response);
    else
        explain("%s", worker_message());
    bytes_free(&response);
    if (code == CODE_UNKNOWN) {
        fprintf(stderr, "stand-in runtime: %s\n", worker_message());
        worker_end(); /* it may have ended already: the next call starts another one */
    }
    return code;
}

/* Give the image its memory, and let the worker load it there. */
static int place_module(Module *module) {
    Bytes request = {0};
    Block *block;
    TRY(arena_allocate(BLOCK_DEVICE, module->context->device, module->image_size, device_memory(),
                       module->context, &block));
    block->internal = true;
    module->address = block->start;
    put_u32(&request, WORKER_PLACE);
    put_u32(&request, module->worker_number);
    put_u64(&request, module->address);
    int code = worker_call(&request, NULL);
    if (code)
        explain("%s", worker_message());
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
    return place_module(module);
}

HIP(hipModuleLoadData, CURRENT) {
    CHECK(module && image, CODE_INVALID_VALUE);
    TRY(refuse_in_capture());
    Module *object = zeroed(sizeof *object);
    object->context = current_context();
    int code = load_into(object, image);
    if (code) {
        module_drop(object);
        return code;
    }
    module_open(object);
    object->handle = handle_make(HANDLE_MODULE, object, object->context);
    *module = object->handle;
    return CODE_SUCCESS;
}

HIP(hipModuleUnload, CURRENT) {
    Module *object;
    TRY(module_of(module, &object));
    int code = context_run(object->context);
    module_drop(object);
    return code;
}

HIP(hipModuleGetFunction, CURRENT) {
    Module *object;
    CHECK(function && kname && *kname, CODE_INVALID_VALUE);
    TRY(module_of(module, &object));
    const Function *found = module_function(object, kname);
    CHECK(found, CODE_NOT_FOUND);
    *function = found->handle;
    return CODE_SUCCESS;
}

HIP(hipModuleGetGlobal, CURRENT) {
    Module *object;
    CHECK(name, CODE_INVALID_VALUE);
    TRY(module_of(hmod, &object));
    const Global *global = module_global(object, name);
    CHECK(global, CODE_NOT_FOUND);
    if (dptr)
        *dptr = (void *)(uintptr_t)(object->address + global->offset);
    if (bytes)
        *bytes = global->size;
    return CODE_SUCCESS;
}
