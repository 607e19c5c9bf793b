/* Modules: PTX is loaded by the worker, a cubin is read here and is not executed. */
#include "cuda_standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The log of the last module that could not be loaded. */
static char log_text[4096];

/* Return whether cubins are loaded: their launches do nothing. Otherwise a fatbin's PTX is, as by a
 * device without a cubin for it. */
bool takes_cubins(void) {
    return setting_number("skip_cubins", 0);
}

/* Return the newest PTX that the driver takes, as major * 10 + minor. */
static int newest_ptx(void) {
    static const int of_cuda_12[] = {80, 81, 82, 83, 84, 85, 85, 86, 87, 88};
    int version = driver_version(), major = version / 1000, minor = version % 1000 / 10;
    int result = major >= 13                 ? 90 + minor
                 : major == 12 && minor < 10 ? of_cuda_12[minor]
                                             : 70 + minor;
    return (int)setting_number("ptx_version", (uint64_t)result);
}

/* Give a global its memory. The host accesses that of a managed one, and all contexts of a library
 * have the same. */
static CUresult place_global(const Module *module, Global *global) {
    bool is_managed = global->flags & GLOBAL_MANAGED;
    CUdeviceptr shared = 0;
    Block *block;
    global->is_shared = is_managed && module->shares;
    if (global->is_shared) {
        TRY(global_place(module->shares, global->name, &shared, NULL));
        global->address = shared;
        return CUDA_SUCCESS;
    }
    TRY(arena_allocate(is_managed ? BLOCK_MANAGED : BLOCK_DEVICE, module->context->device,
                       global->size, device_memory(), module->context, &block));
    block->internal = true;
    global->address = block->start;
    memset(arena_view(global->address), 0, global->size);
    return CUDA_SUCCESS;
}

/* Give the globals their memory. The worker writes their first values. */
static CUresult place_globals(Module *module) {
    Bytes request = {0};
    put_u32(&request, WORKER_PLACE);
    put_u32(&request, module->worker_number);
    put_u32(&request, module->global_count);
    for (uint32_t i = 0; i < module->global_count; i++) {
        CUresult code = place_global(module, &module->globals[i]);
        if (code) {
            bytes_free(&request);
            return code;
        }
        put_u64(&request, module->globals[i].address | module->globals[i].is_shared);
    }
    return (CUresult)worker_call(&request, NULL);
}

static CUresult load_into(Module *module, const void *image, size_t size) {
    CHECK(image, CUDA_ERROR_INVALID_IMAGE);
    Bytes request = {0}, response;
    module->arch = device_arch(module->context->device);
    put_u32(&request, WORKER_LOAD);
    put_u32(&request, (uint32_t)module->arch);
    put_u32(&request, (uint32_t)newest_ptx());
    put_u32(&request, takes_cubins());
    put_bytes(&request, image, size);
    int code = worker_call(&request, &response);
    if (!code)
        code = module_read(module, &response);
    else if (*worker_message()) {
        snprintf(log_text, sizeof log_text, "%s", worker_message());
        explain("%s", log_text);
    }
    bytes_free(&response);
    CHECK(!code, (CUresult)code);
    module->is_executed = !*module->target; /* that of a cubin is its architecture */
    if (!module->is_executed)
        module->arch = atoi(module->target);
    return place_globals(module);
}

/* Write a reason to standard error. Each file of a program may have a fatbin that the device does
 * not take, so the same reason is not repeated for these. */
static void tell(CUresult code, const char *reason) {
    static char last[sizeof log_text];
    if (code == CUDA_ERROR_NO_BINARY_FOR_GPU && strcmp(last, reason) == 0)
        return;
    snprintf(last, sizeof last, "%s", reason);
    fprintf(stderr, "devmod-simulators: %s\n", reason);
}

/* Load what `image_copy` has returned into a context, where `shares` may be the same image in
 * another one. Standard error gets the error log, unless the program reads it. */
CUresult module_load(Context *context, const void *image, size_t size, const Module *shares,
                     bool reads_log, Module **result) {
    Module *module = zeroed(sizeof *module);
    module->context = context;
    module->shares = shares;
    log_text[0] = 0;
    CUresult code = load_into(module, image, size);
    if (code) {
        if (log_text[0] && !reads_log)
            tell(code, log_text);
        module_drop(module);
        return code;
    }
    module_open(module);
    *result = module;
    return CUDA_SUCCESS;
}

/* Return the option's place, or NULL. */
static void **option_of(CUjit_option wanted, unsigned count, CUjit_option *options, void **values) {
    for (unsigned i = 0; i < count; i++)
        if (options[i] == wanted)
            return &values[i];
    return NULL;
}

/* Return the most registers that options of the compiler let a thread have, or 0 for any number. */
unsigned jit_registers(unsigned count, CUjit_option *options, void **values) {
    void **value = option_of(CU_JIT_MAX_REGISTERS, count, options, values);
    return value ? (unsigned)(uintptr_t)*value : 0;
}

void module_limit_registers(Module *module, unsigned most) {
    for (uint32_t i = 0; most && i < module->kernel_count; i++)
        if (module->kernels[i].registers > most)
            module->kernels[i].registers = most;
}

static void write_log(const char *log, CUjit_option buffer, CUjit_option size, unsigned count,
                      CUjit_option *options, void **values) {
    void **target = option_of(buffer, count, options, values),
         **bytes = option_of(size, count, options, values);
    if (!target || !*target || !bytes || !*bytes)
        return;
    size_t room = (size_t)(uintptr_t)*bytes;
    snprintf(*target, room, "%s", log);
    *bytes = (void *)(uintptr_t)(strlen(log) < room ? strlen(log) : room - 1);
}

static CUresult load(CUmodule *result, const void *image, unsigned count, CUjit_option *options,
                     void **values) {
    Module *module;
    CHECK(result && image && (!count || (options && values)), CUDA_ERROR_INVALID_VALUE);
    TRY(refuse_in_capture());
    bool reads_log = option_of(CU_JIT_ERROR_LOG_BUFFER, count, options, values);
    size_t size;
    void *copy = image_copy(image, &size);
    CUresult code = module_load(current_context(), copy, size, NULL, reads_log, &module);
    free(copy);
    write_log(code ? log_text : "", CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
              count, options, values);
    write_log("", CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, count, options,
              values);
    if (code)
        return code;
    module_limit_registers(module, jit_registers(count, options, values));
    module->handle = handle_make(HANDLE_MODULE, module, module->context);
    *result = module->handle;
    return CUDA_SUCCESS;
}

FORWARD(cuModuleLoadData, CURRENT, load(module, image, 0, NULL, NULL))
FORWARD(cuModuleLoadDataEx, CURRENT, load(module, image, numOptions, options, optionValues))

API_IF((module && fname), cuModuleLoad, CURRENT) {
    char *image = file_contents(fname);
    CHECK(image, CUDA_ERROR_FILE_NOT_FOUND);
    CUresult result = load(module, image, 0, NULL, NULL);
    free(image);
    return result;
}

API(cuModuleUnload, CURRENT) {
    Module *module;
    TRY(module_of(hmod, &module));
    Context *module_context = module->context;
    TRY(refuse_in_capture());
    int result = setting_number("frees_wait", 1) ? context_run(module_context)
                                                 : CODE_SUCCESS; /* cuda.h documents no wait */
    module_drop(module);
    return (CUresult)(result ? result : (int)context_failure(module_context));
}

API(cuModuleGetFunction, CURRENT) {
    Module *module;
    TRY(module_of(hmod, &module));
    CHECK(hfunc && name && *name, CUDA_ERROR_INVALID_VALUE);
    TRY(refuse_in_capture()); /* with lazy loading this call may load the function */
    Function *function = module_function(module, name);
    CHECK(function, CUDA_ERROR_NOT_FOUND);
    *hfunc = function->handle;
    return CUDA_SUCCESS;
}

/* Set the address and the bytes of a module's global; each may be NULL. */
CUresult global_place(const Module *module, const char *name, CUdeviceptr *address, size_t *size) {
    CHECK(name, CUDA_ERROR_INVALID_VALUE);
    const Global *global = module_global(module, name);
    CHECK(global, CUDA_ERROR_NOT_FOUND);
    if (address)
        *address = global->address;
    if (size)
        *size = global->size;
    return CUDA_SUCCESS;
}

WITH(cuModuleGetGlobal, CURRENT, Module *module, module_of(hmod, &module),
     global_place(module, name, dptr, bytes))
