/* The stand-in CUDA runtime: CUDA's runtime API over the functions of cuda.h, and nothing else of
 * the simulated driver. It is compiled for each major version, with the headers of its own wheel,
 * so the compiler checks the prototypes.
 *
 * The numbers of the driver's errors are the runtime's (CUDA 10.1 made them so). What the driver
 * does not tell apart, such as an invalid configuration, is checked here.
 */
#ifndef RUNTIME_H
#define RUNTIME_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "version.h"

enum { MOST_DEVICES = 64 };

/* ---- copy_sides.c, arrays.c: what the driver's structures have for those of the runtime */

typedef struct {
    CUmemorytype type;
    const void *address;
    CUarray array;
    size_t x, y, z, pitch, height;
} Side;

/* ---- properties.c */

/* A field of a structure that is an attribute of the driver: an int or a size_t. */
typedef struct {
    size_t offset, size;
    int attribute;
} Field;

#define FIELD(structure, field, attribute)                                                         \
    {offsetof(struct structure, field), sizeof((struct structure *)NULL)->field, attribute}

/* ---- what each function does */

/* Return the error of a call of the driver or of the runtime, if there is one. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_ = (int)(call);                                                                    \
        if (try_)                                                                                  \
            return runtime_note((cudaError_t)try_);                                                \
    } while (0)

#define CHECK(condition, error)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return runtime_note(error);                                                            \
    } while (0)

/* The first line of a function that needs a context. */
#define ENTER() TRY(runtime_enter())

/* The last line: return the result of a call. */
#define FINISH(call) return runtime_note((cudaError_t)(call))

/* PARAMETERS_name and ARGUMENTS_name: the parameters of each function, and their names in
 * parentheses. A build writes it, from NVIDIA's headers. */
#include "parameters.h"

/* A function, with the parameters of NVIDIA's header; its body follows. The second macro has the
 * name of the symbol, if a header gives the name another form. */
#define ENTRY(name) ENTRY_SYMBOL(name)
#define ENTRY_SYMBOL(name) cudaError_t CUDARTAPI name(PARAMETERS_##name)

/* The same, of which the body has a context, and where a condition of the arguments holds. */
#define API(name) API_IF(true, name)
#define API_IF(condition, name) API_SYMBOL(condition, name)
#define API_SYMBOL(condition, name)                                                                \
    static cudaError_t name##_body(PARAMETERS_##name);                                             \
    ENTRY_SYMBOL(name) {                                                                           \
        ENTER();                                                                                   \
        CHECK(condition, cudaErrorInvalidValue);                                                   \
        return name##_body ARGUMENTS_##name;                                                       \
    }                                                                                              \
    static cudaError_t name##_body(PARAMETERS_##name)

/* A function that needs a context and is a call of another one. */
#define FORWARD(name, call)                                                                        \
    ENTRY(name) {                                                                                  \
        ENTER();                                                                                   \
        FINISH(call);                                                                              \
    }

/* The same without a context. */
#define FORWARD_STARTED(name, call)                                                                \
    ENTRY(name) {                                                                                  \
        TRY(runtime_start());                                                                      \
        FINISH(call);                                                                              \
    }

/* The same with a kernel. The call has `function`, the driver's of this kernel. */
#define FORWARD_KERNEL(name, kernel, call)                                                         \
    ENTRY(name) {                                                                                  \
        CUfunction function;                                                                       \
        ENTER();                                                                                   \
        TRY(runtime_function(kernel, &function));                                                  \
        FINISH(call);                                                                              \
    }

/* An allocation of `size` bytes, whose address goes to *result. Unlike the driver's, one of zero
 * bytes is no error, and gives no memory. */
#define ALLOCATE(name, call, result)                                                               \
    ENTRY(name) {                                                                                  \
        ENTER();                                                                                   \
        CHECK(result, cudaErrorInvalidValue);                                                      \
        *(result) = NULL;                                                                          \
        if (!size)                                                                                 \
            return cudaSuccess;                                                                    \
        FINISH(call);                                                                              \
    }

/* Files whose functions all use a default stream are compiled twice: per_thread.c has them again,
 * with the names (…_ptsz, …_ptds) that NVIDIA's headers give to the forms whose default stream is
 * the thread's own. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define DEFAULT_STREAM CU_STREAM_PER_THREAD
#define MEMCPY_3D cuMemcpy3D_v2_ptds
#define MEMSET_2D cuMemsetD2D8_v2_ptds
/* The names that cuda.h gives to all functions, or to none. */
CUresult CUDAAPI MEMCPY_3D(const CUDA_MEMCPY3D *copy);
CUresult CUDAAPI MEMSET_2D(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t height);
#else
#define DEFAULT_STREAM CU_STREAM_LEGACY
#define MEMCPY_3D cuMemcpy3D
#define MEMSET_2D cuMemsetD2D8
#endif

/* The driver's handle of a stream. */
#define STREAM(stream) ((stream) ? (CUstream)(stream) : DEFAULT_STREAM)
/* A function and its form for a stream, which both are a call: `at` says which. */
typedef struct {
    bool waits; /* for the host's side */
    CUstream stream;
} At;
#define PAIR(name, call)                                                                           \
    ENTRY(name) {                                                                                  \
        const At at = {true, DEFAULT_STREAM};                                                      \
        ENTER();                                                                                   \
        return call;                                                                               \
    }                                                                                              \
    cudaError_t CUDARTAPI name##Async(PARAMETERS_##name##Async) {                                  \
        const At at = {false, STREAM(stream)};                                                     \
        ENTER();                                                                                   \
        return call;                                                                               \
    }

#define POINTER(address) ((CUdeviceptr)(uintptr_t)(address))

#endif
