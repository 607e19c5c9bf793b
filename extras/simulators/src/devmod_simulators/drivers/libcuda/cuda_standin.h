/* The stand-in CUDA driver: CUDA's driver API over the files of common/. The prototypes are those
 * of cuda.h, so the compiler checks them. */
#ifndef CUDA_STANDIN_H
#define CUDA_STANDIN_H

#include <cuda.h>

#include "driver.h"

/* PARAMETERS_name and ARGUMENTS_name, the parameters of each function and their names in
 * parentheses. A build writes it, from cuda.h. */
#include "driver_parameters.h"

/* A function of the API, with the parameters of cuda.h; its body follows. */
#define ENTRY(name) ENTRY_AS(name, PARAMETERS_##name)
#define ENTRY_AS(name, parameters) CUresult CUDAAPI name(parameters)

/* The same, of which the body has what it needs, and where a condition of the arguments holds. */
#define API(name, need) API_IF(true, name, need)
#define API_IF(condition, name, need)                                                              \
    API_IF_AS(condition, name, need, PARAMETERS_##name, ARGUMENTS_##name)
#define API_IF_AS(condition, name, need, parameters, arguments)                                    \
    static CUresult name##_body(parameters);                                                       \
    CUresult CUDAAPI name(parameters) {                                                            \
        ENTER(need);                                                                               \
        CHECK(condition, CUDA_ERROR_INVALID_VALUE);                                                \
        return name##_body arguments;                                                              \
    }                                                                                              \
    static CUresult name##_body(parameters)

/* A function of the API that is a call of another. */
#define FORWARD(name, need, call) FORWARD_IF(true, name, need, call)
#define FORWARD_IF(condition, name, need, call)                                                    \
    FORWARD_IF_AS(condition, name, need, call, PARAMETERS_##name)
#define FORWARD_AS(name, need, call, ...) FORWARD_IF_AS(true, name, need, call, __VA_ARGS__)
#define FORWARD_IF_AS(condition, name, need, call, ...)                                            \
    CUresult CUDAAPI name(__VA_ARGS__) {                                                           \
        ENTER(need);                                                                               \
        CHECK(condition, CUDA_ERROR_INVALID_VALUE);                                                \
        return call;                                                                               \
    }
/* The same, where a handle is checked before all else, as in NVIDIA's library. */
#define FORWARD_OF(handle, name, need, call)                                                       \
    ENTRY(name) {                                                                                  \
        CHECK(handle, CUDA_ERROR_INVALID_HANDLE);                                                  \
        ENTER(need);                                                                               \
        return call;                                                                               \
    }
/* A function that writes a value to a pointer. */
#define ANSWER(name, need, result, value) FORWARD(name, need, GIVE(result, value))

/* A function with a variable that another function finds, and a call with it. */
#define WITH(name, need, declaration, find, call)                                                  \
    API(name, need) {                                                                              \
        declaration;                                                                               \
        TRY(find);                                                                                 \
        return call;                                                                               \
    }
#define WITH_FUNCTION(name, handle, call)                                                          \
    WITH(name, CURRENT, Function *function, function_of(handle, &function), call)
#define WITH_STREAM(name, call)                                                                    \
    WITH(name, CURRENT, Stream *stream, stream_of(hStream, &stream), call)

/* The settings DEVMOD_STANDIN_… are listed in extras/simulators/README.md. */

/* ---- textures.c */

typedef struct {
    uint64_t address;
    CUDA_ARRAY3D_DESCRIPTOR form;
    size_t pitch, height, depth; /* of a row in bytes, in rows, and in planes or layers */
    unsigned objects;            /* the textures and surfaces that use it */
    bool of_mipmap;              /* a level: it lives as long as the mipmapped array */
} Array;

/* ---- mipmaps.c */

enum { MOST_LEVELS = 18 };

typedef struct {
    CUarray levels[MOST_LEVELS];
    unsigned count;
} Mipmap;

#endif
