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

/* ---- device.c */

/* Return the compute capability as major * 10 + minor. */
int device_arch(int device);
int device_attribute(int device, CUdevice_attribute attribute);
int driver_version(void);

/* ---- module.c, image.c */

/* Return a copy of an image, or of what a wrapper has, and set *size, or NULL if it is damaged or
 * not all of it is there. */
void *image_copy(const void *image, size_t *size);
/* Return whether cubins are loaded: their launches do nothing. Otherwise a fatbin's PTX is, as by a
 * device without a cubin for it. */
bool takes_cubins(void);
/* Load what `image_copy` has returned into a context, where `shares` may be the same image in
 * another one. Standard error gets the error log, unless the program reads it. */
CUresult module_load(Context *context, const void *image, size_t size, const Module *shares,
                     bool reads_log, Module **module);
/* Return the most registers that options of the compiler let a thread have, or 0 for any number. */
unsigned jit_registers(unsigned count, CUjit_option *options, void **values);
void module_limit_registers(Module *module, unsigned most);
/* Return the function of a handle of a function, or of a library's kernel in the current context.
 */
CUresult function_of(CUfunction handle, Function **function);
/* Drop the modules of libraries in a context that ends. */
void libraries_leave(Context *context);
/* Set the address and the bytes of a module's global; each may be NULL. */
CUresult global_place(const Module *module, const char *name, CUdeviceptr *address, size_t *size);

/* ---- launch.c, limits.c, attributes.c */

/* Make the operation of a launch, which is checked. */
CUresult launch_op(const CUlaunchConfig *config, CUfunction f, void **params, void **extra,
                   bool cooperative, Op **op);
/* Give a launch the attributes of another one, or of its own, and check them. */
CUresult launch_take_attributes(Launch *launch, const Launch *from);
/* Make the operation of the same launch with the attributes of another one, or one more; each may
 * be NULL. */
CUresult launch_copy(const Launch *launch, const Launch *from, const CUlaunchAttribute *attribute,
                     Op **result);

/* Check a launch against its kernel and device, and complete its cluster. */
CUresult check_dimensions(const Launch *launch, int device);
CUresult check_cluster(Launch *launch, int device);
CUresult check_resources(const Launch *launch, int device);
CUresult take_attributes(Launch *launch, const CUlaunchAttribute *attributes, unsigned count);

/* ---- copies.c, graph_nodes.c */

/* Read the parameters of a copy, and which sides must be memory of a device. */
CUresult read_copy(const CUDA_MEMCPY3D *params, Copy *copy, int *kinds);
/* Return the parameters of a node. They may point into it. */
CUresult describe_node(CUgraphNode handle, CUgraphNodeParams *params);

/* ---- textures.c */

typedef struct {
    uint64_t address;
    CUDA_ARRAY3D_DESCRIPTOR form;
    size_t pitch, height, depth; /* of a row in bytes, in rows, and in planes or layers */
    unsigned objects;            /* the textures and surfaces that use it */
    bool of_mipmap;              /* a level: it lives as long as the mipmapped array */
} Array;

CUresult array_make(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *form);
CUresult array_drop(CUarray handle);

/* ---- mipmaps.c */

enum { MOST_LEVELS = 18 };

typedef struct {
    CUarray levels[MOST_LEVELS];
    unsigned count;
} Mipmap;

/* Set the side of a copy that is an array. `at` and `extent` count bytes, rows and planes. */
CUresult array_side(Side *side, CUarray array, const size_t at[3], const size_t extent[3]);

#endif
