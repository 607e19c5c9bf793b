/* Functions of modules, and libraries: modules that no context owns, whose kernels every context
 * may launch. */
#include "cuda_standin.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    CUlibrary handle;
    void *image;
    size_t size;
    unsigned registers;           /* the most of its kernels, or 0 */
    Module *modules[DEVICES * 2]; /* one for each context that used it */
    int module_count;
} Library;

typedef struct {
    Library *library;
    char name[];
} LibraryKernel;

/* Return the module of a library in the current context. */
static CUresult library_module(Library *library, Module **module) {
    Context *context = current_context();
    for (int i = 0; i < library->module_count; i++) {
        if (library->modules[i]->context == context) {
            *module = library->modules[i];
            return CUDA_SUCCESS;
        }
    }
    CHECK(library->module_count < DEVICES * 2, CUDA_ERROR_OUT_OF_MEMORY);
    const Module *first = library->module_count ? library->modules[0] : NULL;
    TRY(module_load(context, library->image, library->size, first, false, module));
    module_limit_registers(*module, library->registers);
    library->modules[library->module_count++] = *module;
    return CUDA_SUCCESS;
}

/* The same of a handle. */
static CUresult handle_module(CUlibrary handle, Module **module) {
    Library *library = handle_get(HANDLE_LIBRARY, handle);
    CHECK(library, CUDA_ERROR_INVALID_HANDLE);
    return library_module(library, module);
}

static const Context *ended_context;

static void leave_ended(void *object) {
    Library *library = object;
    int kept = 0;
    for (int i = 0; i < library->module_count; i++) {
        Module *module = library->modules[i];
        if (module->context == ended_context)
            module_drop(module);
        else
            library->modules[kept++] = module;
    }
    library->module_count = kept;
}

/* Drop the modules of libraries in a context that ends. */
void libraries_leave(Context *context) {
    ended_context = context;
    handle_each(HANDLE_LIBRARY, leave_ended);
}

/* Return the function of a handle of a function, or of a library's kernel in the current context.
 */
CUresult function_of(CUfunction handle, Function **function) {
    LibraryKernel *kernel = handle_peek(HANDLE_KERNEL, handle);
    if (kernel) {
        Module *module;
        TRY(library_module(kernel->library, &module));
        *function = module_function(module, kernel->name);
        return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
    }
    *function = handle_get(HANDLE_FUNCTION, handle);
    return *function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Return the bytes of a module's constant memory, which each of its kernels has. */
static uint64_t constant_bytes(const Module *module) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < module->global_count; i++)
        if (module->globals[i].flags & GLOBAL_CONSTANT)
            bytes += module->globals[i].size;
    return bytes;
}

static CUresult get_attribute(int *value, CUfunction_attribute attribute,
                              const Function *function) {
    const Kernel *kernel = function->kernel;
    const uint32_t values[CU_FUNC_ATTRIBUTE_MAX] = {
        [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] =
            kernel->max_threads ? kernel->max_threads : 1024,
        [CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = kernel->shared,
        [CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES] = kernel->local,
        [CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES] = (uint32_t)constant_bytes(function->module),
        [CU_FUNC_ATTRIBUTE_NUM_REGS] = kernel->registers ? kernel->registers : 32,
        [CU_FUNC_ATTRIBUTE_PTX_VERSION] = (uint32_t)function->module->arch,
        [CU_FUNC_ATTRIBUTE_BINARY_VERSION] = (uint32_t)function->module->arch,
        [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = function->max_dynamic,
        [CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = (uint32_t)-1,
        [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = kernel->cluster[0],
        [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT] = kernel->cluster[1],
        [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH] = kernel->cluster[2],
    };
    CHECK(value && (unsigned)attribute < CU_FUNC_ATTRIBUTE_MAX, CUDA_ERROR_INVALID_VALUE);
    int own = function->attributes[attribute]; /* as the program has set it */
    *value = own ? own : (int)values[attribute];
    return CUDA_SUCCESS;
}

static CUresult set_attribute(CUfunction_attribute attribute, int value, Function *function) {
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
        int most = device_attribute(function->module->context->device,
                                    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
        CHECK(value >= 0 && value + (int)function->kernel->shared <= most,
              CUDA_ERROR_INVALID_VALUE);
        function->max_dynamic = (uint32_t)value;
        return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        CHECK(value >= -1 && value <= 100, CUDA_ERROR_INVALID_VALUE);
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    function->attributes[attribute] = value;
    return CUDA_SUCCESS;
}

static CUresult param_info(const Kernel *kernel, size_t index, size_t *offset, size_t *size) {
    CHECK(offset && index < kernel->param_count, CUDA_ERROR_INVALID_VALUE);
    *offset = kernel->params[index].offset;
    if (size)
        *size = kernel->params[index].size;
    return CUDA_SUCCESS;
}

ENTRY(cuFuncGetAttribute) {
    CHECK(hfunc || driver_version() < 12040, CUDA_ERROR_INVALID_HANDLE);
    ENTER(CURRENT);
    Function *function;
    TRY(function_of(hfunc, &function));
    return get_attribute(pi, attrib, function);
}

WITH_FUNCTION(cuFuncSetAttribute, hfunc, set_attribute(attrib, value, function))

WITH_FUNCTION(cuFuncSetCacheConfig, hfunc, CUDA_SUCCESS)

ENTRY(cuFuncGetParamInfo) {
    CHECK(func, CUDA_ERROR_INVALID_VALUE);
    ENTER(CURRENT);
    Function *function;
    TRY(function_of(func, &function));
    return param_info(function->kernel, paramIndex, paramOffset, paramSize);
}

WITH_FUNCTION(cuFuncGetName, hfunc, GIVE(name, function->kernel->name))
WITH_FUNCTION(cuKernelGetName, (CUfunction)hfunc, GIVE(name, function->kernel->name))

/* ---- libraries */

static CUresult library_load(CUlibrary *library, const void *code, unsigned registers) {
    Library *object = zeroed(sizeof *object);
    object->image = image_copy(code, &object->size);
    if (!object->image) {
        free(object);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    object->registers = registers;
    object->handle = handle_make(HANDLE_LIBRARY, object, object);
    *library = object->handle;
    return CUDA_SUCCESS;
}

API_IF((library && fileName), cuLibraryLoadFromFile, READY) {
    char *image = file_contents(fileName);
    CHECK(image, CUDA_ERROR_FILE_NOT_FOUND);
    unsigned registers = jit_registers(numJitOptions, jitOptions, jitOptionsValues);
    CUresult code = library_load(library, image, registers);
    free(image);
    return code;
}

FORWARD_IF((library && code), cuLibraryLoadData, READY,
           library_load(library, code, jit_registers(numJitOptions, jitOptions, jitOptionsValues)))

API(cuLibraryUnload, READY) {
    Library *object = handle_get(HANDLE_LIBRARY, library);
    CHECK(object, CUDA_ERROR_INVALID_HANDLE);
    for (int i = 0; i < object->module_count; i++) {
        context_run(object->modules[i]->context);
        module_drop(object->modules[i]);
    }
    handle_drop_owner(HANDLE_KERNEL, object, free);
    handle_drop(HANDLE_LIBRARY, library);
    free(object->image);
    free(object);
    return CUDA_SUCCESS;
}

static CUresult kernel_make(CUlibrary handle, const char *name, CUkernel *result) {
    Library *library = handle_get(HANDLE_LIBRARY, handle);
    LibraryKernel *kernel = zeroed(sizeof *kernel + strlen(name) + 1);
    kernel->library = library;
    memcpy(kernel->name, name, strlen(name) + 1);
    *result = handle_make(HANDLE_KERNEL, kernel, library);
    return CUDA_SUCCESS;
}

API_IF((pKernel && name), cuLibraryGetKernel, CURRENT) {
    Module *module;
    TRY(handle_module(library, &module));
    CHECK(module_function(module, name), CUDA_ERROR_NOT_FOUND);
    return kernel_make(library, name, pKernel);
}

WITH(cuLibraryGetKernelCount, CURRENT, Module *module, handle_module(lib, &module),
     GIVE(count, module->kernel_count))

API_IF((kernels && numKernels), cuLibraryEnumerateKernels, CURRENT) {
    Module *module;
    TRY(handle_module(lib, &module));
    for (uint32_t i = 0; i < numKernels && i < module->kernel_count; i++)
        TRY(kernel_make(lib, module->kernels[i].name, &kernels[i]));
    return CUDA_SUCCESS;
}

API_IF(pMod, cuLibraryGetModule, CURRENT) {
    Module *module;
    TRY(handle_module(library, &module));
    if (!module->handle)
        module->handle = handle_make(HANDLE_MODULE, module, handle_get(HANDLE_LIBRARY, library));
    *pMod = module->handle;
    return CUDA_SUCCESS;
}

WITH(cuLibraryGetGlobal, CURRENT, Module *module, handle_module(library, &module),
     global_place(module, name, dptr, bytes))

API(cuLibraryGetManaged, CURRENT) {
    Module *module;
    CUdeviceptr address;
    TRY(handle_module(library, &module));
    TRY(global_place(module, name, &address, bytes));
    CHECK(arena_block(address, 1)->kind == BLOCK_MANAGED, CUDA_ERROR_NOT_FOUND);
    if (dptr)
        *dptr = address;
    return CUDA_SUCCESS;
}

/* Set the function of a library's kernel in the current context. */
static CUresult kernel_function(CUkernel kernel, Function **function) {
    CHECK(handle_get(HANDLE_KERNEL, kernel), CUDA_ERROR_INVALID_HANDLE);
    return function_of((CUfunction)kernel, function);
}

#define WITH_KERNEL(name, call)                                                                    \
    WITH(name, CURRENT, Function *function, kernel_function(kernel, &function), call)

WITH_KERNEL(cuKernelGetAttribute, get_attribute(pi, attrib, function))

WITH_KERNEL(cuKernelSetAttribute, set_attribute(attrib, val, function))

WITH_KERNEL(cuKernelSetCacheConfig, (unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL
                                        ? CUDA_SUCCESS
                                        : CUDA_ERROR_INVALID_VALUE)

WITH_KERNEL(cuKernelGetParamInfo, param_info(function->kernel, paramIndex, paramOffset, paramSize))
