/* What programs register before main: fatbins, and their kernels and variables.
 *
 * A fatbin becomes a library of the driver with its first use. The driver loads a library into each
 * context that uses it, again after a reset.
 */
#include "runtime.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { BUCKETS = 1024 };

typedef struct {
    const void *wrapper; /* what nvcc puts beside a fatbin; the driver knows it */
    CUlibrary library;
} Fatbin;

typedef enum { KERNEL, VARIABLE, MANAGED } Kind;

typedef struct Symbol {
    Kind kind;
    const void *host; /* the host's function or variable; for a managed variable its pointer */
    const char *name;
    Fatbin *fatbin;
    CUkernel kernel; /* after its first use */
    bool is_placed;  /* the pointer of a managed variable is set */
    struct Symbol *next;
} Symbol;

static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;
static Symbol *buckets[BUCKETS];
static atomic_bool managed_wait; /* a managed variable has no memory yet */

static Symbol **bucket_of(const void *host) {
    return &buckets[((uintptr_t)host >> 4) % BUCKETS];
}

static Symbol *find(const void *host, Kind kind) {
    Symbol *symbol = *bucket_of(host);
    while (symbol && (symbol->host != host || symbol->kind != kind))
        symbol = symbol->next;
    return symbol;
}

static void add(void **fatbin, const void *host, const char *name, Kind kind) {
    Symbol *symbol = malloc(sizeof *symbol);
    Symbol **bucket = bucket_of(host);
    if (!symbol)
        abort();
    pthread_mutex_lock(&modules_lock);
    *symbol = (Symbol){
        .kind = kind,
        .host = host,
        .name = name,
        .fatbin = (Fatbin *)fatbin,
        .next = *bucket,
    };
    *bucket = symbol;
    if (kind == MANAGED)
        managed_wait = true;
    pthread_mutex_unlock(&modules_lock);
}

/* ---- loading, with the lock held */

static CUresult load(Fatbin *fatbin) {
    if (fatbin->library)
        return CUDA_SUCCESS;
    return cuLibraryLoadData(&fatbin->library, fatbin->wrapper, NULL, NULL, 0, NULL, NULL, 0);
}

static CUresult load_kernel(Symbol *symbol) {
    if (symbol->kernel)
        return CUDA_SUCCESS;
    CUresult result = load(symbol->fatbin);
    if (!result)
        result = cuLibraryGetKernel(&symbol->kernel, symbol->fatbin->library, symbol->name);
    return result;
}

static CUresult load_variable(Symbol *symbol, CUdeviceptr *address, size_t *size) {
    CUresult result = load(symbol->fatbin);
    if (!result)
        result = cuLibraryGetGlobal(address, size, symbol->fatbin->library, symbol->name);
    return result;
}

static CUresult place(Symbol *symbol) {
    CUdeviceptr address;
    symbol->is_placed = true; /* or a program without PTX would hear of it with each call */
    CUresult result = load_variable(symbol, &address, NULL);
    if (!result)
        *(void **)symbol->host = (void *)(uintptr_t)address;
    return result;
}

/* ---- what other files use */

/* Set *function to that of a kernel: a host function of the program, or a handle of a kernel. */
cudaError_t runtime_function(const void *kernel, CUfunction *function) {
    CUresult result = CUDA_SUCCESS;
    int threads;
    pthread_mutex_lock(&modules_lock);
    Symbol *symbol = find(kernel, KERNEL);
    if (symbol) {
        result = load_kernel(symbol);
        *function = (CUfunction)symbol->kernel;
    }
    pthread_mutex_unlock(&modules_lock);
    if (result == CUDA_ERROR_NOT_FOUND)
        return cudaErrorInvalidDeviceFunction;
    if (symbol)
        return (cudaError_t)result;
    /* The driver knows handles of kernels and functions, of the runtime's libraries and its own. */
    *function = (CUfunction)kernel;
    result = cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, *function);
    if (result == CUDA_ERROR_INVALID_HANDLE)
        return cudaErrorInvalidDeviceFunction;
    return (cudaError_t)result;
}

/* Return the name of the kernel of a host function, or NULL. */
const char *runtime_function_name(const void *kernel) {
    pthread_mutex_lock(&modules_lock);
    Symbol *symbol = find(kernel, KERNEL);
    const char *name = symbol ? symbol->name : NULL;
    pthread_mutex_unlock(&modules_lock);
    return name;
}

/* A program has the value of a managed variable's pointer, not its address. */
static Symbol *find_managed(const void *value) {
    for (int i = 0; i < BUCKETS; i++)
        for (Symbol *symbol = buckets[i]; symbol; symbol = symbol->next)
            if (symbol->kind == MANAGED && *(void *const *)symbol->host == value)
                return symbol;
    return NULL;
}

/* Set the address and the bytes of a device's variable by that of the host; each may be NULL. */
cudaError_t runtime_variable(const void *host, CUdeviceptr *address, size_t *size) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&modules_lock);
    Symbol *symbol = find(host, VARIABLE);
    if (!symbol)
        symbol = find_managed(host);
    if (symbol)
        result = load_variable(symbol, address, size);
    pthread_mutex_unlock(&modules_lock);
    if (!symbol || result == CUDA_ERROR_NOT_FOUND)
        return cudaErrorInvalidSymbol;
    return (cudaError_t)result;
}

/* Set *place to bytes of a device's variable, which it must have. */
cudaError_t runtime_variable_bytes(const void *symbol, size_t offset, size_t count, void **place) {
    CUdeviceptr address;
    size_t size;
    TRY(runtime_variable(symbol, &address, &size));
    CHECK(offset <= size && count <= size - offset, cudaErrorInvalidValue);
    *place = (void *)(uintptr_t)(address + offset);
    return cudaSuccess;
}

/* Let the host's pointers of managed variables point to their memory. A context is current. */
cudaError_t runtime_place_managed(void) {
    CUresult result = CUDA_SUCCESS;
    if (!managed_wait)
        return cudaSuccess;
    pthread_mutex_lock(&modules_lock);
    managed_wait = false;
    for (int i = 0; i < BUCKETS; i++)
        for (Symbol *symbol = buckets[i]; symbol && !result; symbol = symbol->next)
            if (symbol->kind == MANAGED && !symbol->is_placed)
                result = place(symbol);
    pthread_mutex_unlock(&modules_lock);
    return (cudaError_t)result;
}

/* Let the next runtime_place_managed do it again, because a device was reset. */
void runtime_forget_managed(void) {
    pthread_mutex_lock(&modules_lock);
    for (int i = 0; i < BUCKETS; i++)
        for (Symbol *symbol = buckets[i]; symbol; symbol = symbol->next) {
            managed_wait |= symbol->kind == MANAGED;
            symbol->is_placed = false;
        }
    pthread_mutex_unlock(&modules_lock);
}

/* ---- what nvcc's code calls; no public header of C has the prototypes */

void **__cudaRegisterFatBinary(void *fatCubin) {
    Fatbin *fatbin = calloc(1, sizeof *fatbin);
    if (!fatbin)
        abort();
    fatbin->wrapper = fatCubin;
    return (void **)fatbin;
}

void __cudaRegisterFatBinaryEnd(void **fatCubinHandle) {}

/* Forget the symbols of a fatbin: the program ends, or a shared library of it goes. The driver's
 * library stays, for launches of its kernels may wait in streams, and the driver may be gone. */
void __cudaUnregisterFatBinary(void **fatCubinHandle) {
    pthread_mutex_lock(&modules_lock);
    for (int i = 0; i < BUCKETS; i++)
        for (Symbol **place = &buckets[i]; *place;) {
            Symbol *symbol = *place;
            if ((void **)symbol->fatbin != fatCubinHandle) {
                place = &symbol->next;
                continue;
            }
            *place = symbol->next;
            free(symbol);
        }
    pthread_mutex_unlock(&modules_lock);
    free(fatCubinHandle);
}

/* The host is about to access a managed variable. The result is a mark that it need not ask again.
 */
char __cudaInitModule(void **fatCubinHandle) {
    return runtime_enter() == cudaSuccess;
}

void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int thread_limit, void *tid, void *bid,
                            void *bDim, void *gDim, int *wSize) {
    add(fatCubinHandle, hostFun, deviceName, KERNEL);
}

void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
                       const char *deviceName, int ext, size_t size, int constant, int global) {
    add(fatCubinHandle, hostVar, deviceName, VARIABLE);
}

void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant,
                              int global) {
    add(fatCubinHandle, hostVarPtrAddress, deviceName, MANAGED);
}

void __cudaRegisterHostVar(void **fatCubinHandle, const char *deviceName, char *hostVar,
                           size_t size) {}

void __cudaRegisterUnifiedTable(void **fatCubinHandle, void *table) {}
