/* The stand-in CUDA driver: CUDA's driver API over tests/standin. The prototypes are those of cuda.h, so the compiler checks them. */
#ifndef CUDA_STANDIN_H
#define CUDA_STANDIN_H

#include <cuda.h>

#include "standin.h"

/* The settings DEVMOD_STANDIN_… are listed in tests/standin/README.md. */

enum { DEVICES = ARENA_DEVICES, CONTEXT_DEPTH = 32, LIMITS = CU_LIMIT_MAX };

typedef struct Context {
    Group group; /* first: a Group of a Context is one */
    int device;
    unsigned flags;
    unsigned long long id;
    CUcontext handle;
    bool alive, primary;
    int references; /* of a primary context */
    unsigned peers; /* bit i: memory of device i may be accessed */
    size_t limits[LIMITS];
    CUfunc_cache cache;
} Context;

typedef struct {
    bool exists;
    int failed; /* sticky for the process: a new context of this device fails at once */
    unsigned primary_flags;
    Context *primary;
    CUmemoryPool pool;
} Device;

extern Device devices[DEVICES];

/* ---- entry.c: what each function of the API does first ---------------------------------------------------------------------- */

typedef struct Counter {
    const char *name;
    uint64_t calls;
    struct Counter *next;
} Counter;

typedef struct {
    bool locked;
} Entry;

/* What a function needs: nothing, cuInit before it, or a current context that still works. */
typedef enum { ANY, READY, CURRENT } Need;

CUresult enter(Entry *entry, Counter *counter, const char *name, Need need);
void leave(Entry *entry);
/* Return the current context, or NULL. */
Context *current_context(void);

#define ENTER(need)                                                              \
    static Counter counter_;                                                     \
    __attribute__((cleanup(leave))) Entry entry_ = {0};                          \
    do {                                                                         \
        CUresult result_ = enter(&entry_, &counter_, __func__, (need));          \
        if (result_)                                                             \
            return result_;                                                      \
    } while (0)

#define CHECK(condition, code) \
    do {                       \
        if (!(condition))      \
            return (code);     \
    } while (0)

#define TRY(call)                \
    do {                         \
        CUresult try_ = (call);  \
        if (try_)                \
            return try_;         \
    } while (0)

/* Return the name of the function of the API that this thread is in. */
const char *current_call(void);
/* Note the reason of the last error that has a text of its own. The report has it. */
void explain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- device.c -------------------------------------------------------------------------------------------------------------- */

/* Note the devices that exist, at cuInit. */
void devices_open(void);
/* Return the number of devices that are visible now. */
int device_count(void);
/* Return the compute capability as major * 10 + minor. */
int device_arch(int device);
int device_attribute(int device, CUdevice_attribute attribute);
uint64_t device_memory(void);
int driver_version(void);

/* ---- context.c, primary.c ---------------------------------------------------------------------------------------------------- */

/* Return the context of a handle; a stale one has its own code. */
CUresult context_of(CUcontext handle, Context **context);
/* Return what the context's failure is, for the process: 0 or a sticky code. */
CUresult context_failure(Context *context);
/* Make a context that is not alive, let one begin, and end one: its work is done, its objects and memory are gone, their handles are stale. */
Context *context_make(int device, bool primary);
void context_activate(Context *context);
void context_deactivate(Context *context);
/* Run all work of a context. */
CUresult context_run(Context *context);

/* ---- stream.c -------------------------------------------------------------------------------------------------------------- */

/* Return the stream of a handle. NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are those of the current context. */
CUresult stream_of(CUstream handle, Stream **stream);
/* Queue an operation, or record it in the graph that the stream captures. */
CUresult submit(Stream *stream, Op *op);
/* Queue an operation; run the stream up to it if `wait`, which a capture does not permit. */
CUresult submit_and(Stream *stream, Op *op, bool wait);
/* Refuse what a capture cannot record, such as an allocation, as the modes of the captures and of this thread have it. */
CUresult refuse_in_capture(void);
/* Refuse to wait for the whole context while one of its streams captures. */
CUresult refuse_context_wait(void);

/* ---- capture.c, graph.c ------------------------------------------------------------------------------------------------------ */

typedef struct {
    Op *op;
    CUgraphNode handle;
    int *after; /* the nodes that it waits for */
    int after_count;
} Node;

/* The nodes: shared by a graph, what was instantiated from it, and launches that have not run. */
typedef struct {
    int references;
    Context *context;
    Node *nodes;
    int count;
} Body;

typedef struct {
    CUgraph handle;
    Body *body;
} Graph;

void body_release(Body *body);
CUresult capture_add(Stream *stream, Op *op);
bool capture_active(const Stream *stream);
void capture_invalidate(Stream *stream);
/* Return whether the capture of a stream forbids calls that it cannot record to this thread, which has a mode of its own. */
bool capture_forbids(const Stream *stream, CUstreamCaptureMode thread_mode);

typedef struct Event {
    Context *context;
    CUevent handle;
    unsigned flags;
    Stream *stream; /* of the last record, NULL before */
    uint64_t number, generation;
    double time; /* of the record, in milliseconds; negative before it ran */
    void *graph; /* the graph that captured the last record, with the nodes it stands for */
    int *nodes;
    int node_count;
} Event;

CUresult capture_record(Stream *stream, Event *event);
CUresult capture_wait(Stream *stream, Event *event);

/* ---- module.c, description.c, image.c, ptx.c, cubin.c, fatbin.c -------------------------------------------------------------- */

typedef struct {
    uint32_t offset, size;
} Param;

typedef struct {
    char *name;
    Param *params;
    uint32_t param_count, param_bytes;
    uint32_t block[3], max_threads, cluster[3];
    uint32_t shared, local, registers;
    bool blocks_are_clusters; /* .blocksareclusters: the grid of a launch counts clusters */
} Kernel;

typedef struct {
    char *name;
    uint64_t size, address;
    uint32_t align, flags;
    const void *initial; /* of a cubin */
} Global;

typedef struct Module Module;

typedef struct {
    Module *module;
    Kernel *kernel;
    uint32_t index;
    CUfunction handle;
    uint32_t max_dynamic; /* bytes of dynamic shared memory that a launch may ask for */
    int attributes[CU_FUNC_ATTRIBUTE_MAX];
} Function;

struct Module {
    Context *context;
    CUmodule handle;
    bool ptx, failed;
    uint32_t worker_number;
    int arch; /* of the image */
    uint32_t kernel_count, global_count;
    Kernel *kernels;
    Global *globals;
    Function *functions; /* one for each kernel */
};

/* The kinds of images. */
typedef enum { IMAGE_UNKNOWN, IMAGE_PTX, IMAGE_CUBIN, IMAGE_FATBIN } ImageKind;
ImageKind image_kind(const void *image);

/* The first bytes of a fatbin; its members follow. */
typedef struct {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size; /* of the members */
} FatbinHeader;

#define FATBIN_MAGIC 0xba55ed50u
#define WRAPPER_MAGIC 0x466243b1u

/* Return whether `length` bytes at `offset` lie within `size` bytes. */
static inline bool inside(size_t size, uint64_t offset, uint64_t length)
{
    return offset <= size && length <= size - offset;
}

/* Return the data of a wrapped fatbin, else the image itself. */
const void *image_of(const void *image);
/* Return the bytes of an image, which it has within, 0 if it is damaged. */
size_t image_size(const void *image);
/* Return a copy of an image and set *size, or NULL if it is damaged or not all of it is there. */
void *image_copy(const void *image, size_t *size);
/* Read kernels and globals of a cubin into *module. */
CUresult cubin_read(const unsigned char *image, size_t size, Module *module);
/* Set *member to a copy of a fatbin's best member for `arch` (a cubin for it, else the newest PTX that it takes), with a zero behind it. */
CUresult fatbin_member(const unsigned char *image, int arch, void **member, size_t *size);
/* Check .version, .target and .address_size of PTX against a device and the driver. */
CUresult ptx_check(const char *text, int arch, char *log, size_t log_size);
/* Load an image into a context. `log` takes the error log. */
CUresult module_load(Context *context, const void *image, char *log, size_t log_size, Module **module);
/* Load PTX into the worker and fill *module from its description. */
CUresult load_ptx(Module *module, const char *text, char *log, size_t log_size);
void module_drop(void *module);
/* Return the function of a handle of a function, or of a library's kernel in the current context. */
CUresult function_of(CUfunction handle, Function **function);
/* Return the function of a module by name, or NULL. */
Function *module_function(Module *module, const char *name);

/* ---- copies.c -------------------------------------------------------------------------------------------------------------- */

/* Return the memory behind an address, or NULL if its allocation is gone. */
unsigned char *memory_at(uint64_t address, size_t size);

/* ---- launch.c, limits.c, attributes.c ---------------------------------------------------------------------------------------- */

/* True while launches do nothing: they return before anything else. */
extern volatile int skip_launches;

typedef struct {
    Function *function;
    CUfunction handle;
    uint32_t grid[3], block[3], cluster[3], preferred[3], shared;
    bool cooperative, programmatic, non_portable;
    unsigned char params[];
} Launch;

/* Check a launch against its kernel and device, and complete its cluster. */
CUresult check_dimensions(const Launch *launch, int device);
CUresult check_cluster(Launch *launch, int device);
CUresult check_resources(const Launch *launch, int device);
CUresult take_attributes(Launch *launch, const CUlaunchAttribute *attributes, unsigned count);

/* ---- memory.c -------------------------------------------------------------------------------------------------------------- */

/* Return whether [address, address + size) is host memory that CUDA has pinned or registered. */
bool is_pinned(const void *address, size_t size);
/* Return whether the host pointer is registered, so that it is a device pointer too. */
bool is_registered(uint64_t address, size_t size);
/* Check that a device pointer and size lie in one allocation that the context may access. */
CUresult check_range(Context *context, uint64_t address, uint64_t size, const char *what);

#endif
