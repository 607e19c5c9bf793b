/* The rules of a driver of CUDA's model, which HIP follows: contexts, streams, captures, graphs,
 * events, copies and fills.
 *
 * A vendor's stand-in has its API's functions, devices, images and launches. Functions of
 * these files return a code of codes.h, and expect their caller to hold the lock. A build writes
 * the prototypes of what another file calls.
 */
#ifndef STANDIN_DRIVER_H
#define STANDIN_DRIVER_H

#include "standin.h"

enum { DEVICES = ARENA_DEVICES, CONTEXT_DEPTH = 32, LIMITS = 32 };

typedef struct Context {
    Group group; /* first: a Group of a Context is one */
    int device;
    void *handle;
    bool alive, primary;
    int references; /* of a primary context */
    unsigned peers; /* bit i: memory of device i may be accessed */
    size_t limits[LIMITS];
    int cache;
} Context;

typedef struct {
    bool exists;
    int failed; /* sticky for the process: a new context of this device fails at once */
    Context *primary;
} Device;

extern Device devices[DEVICES];

/* ---- what a vendor's stand-in defines */

typedef struct Launch Launch;

typedef struct {
    const char *const *visible; /* environment variables that choose among the devices, until NULL;
                                   the first that is set counts */
    bool initializes_itself;    /* the first call initializes the driver */
    bool frees_wait; /* a free waits for the pending work of the context, whatever "frees_wait" says
                      */
    bool stages_pageable; /* a copy from pageable memory has read it, and one to it is done, when
                             the call returns */
    int without_device;   /* the code of such a call where there is no device */
    Context *(*current)(void);    /* the context of this thread, or NULL */
    void (*activated)(Context *); /* set the limits of a context that begins; may be NULL */
    void (*leaving)(Context *);   /* forget a context that ends; may be NULL */
    const void *extra_end;        /* the end of the entries of `extra` of a launch */
    void (*launch_failed)(int code, const char *kernel); /* worker_message() has the reason */
    uint64_t (*hidden_value)(const Launch *, const char *kind); /* of a hidden parameter */
} Vendor;

extern const Vendor vendor;

/* ---- process.c: what each function of an API does first */

typedef struct Counter {
    const char *name;
    uint64_t calls;
    struct Counter *next;
} Counter;

typedef struct {
    bool locked;
} Entry;

/* What a function needs: nothing, the initialized driver, or a current context that still works. */
typedef enum { ANY, READY, CURRENT } Need;

int enter(Entry *entry, Counter *counter, const char *name, Need need);
void leave(Entry *entry);

/* Return the current context, or NULL. */
static inline Context *current_context(void) {
    return vendor.current();
}

#define ENTER_AS(name, need)                                                                       \
    static Counter counter_;                                                                       \
    __attribute__((cleanup(leave))) Entry entry_ = {0};                                            \
    do {                                                                                           \
        int result_ = enter(&entry_, &counter_, (name), (need));                                   \
        if (result_)                                                                               \
            return result_;                                                                        \
    } while (0)

#define ENTER(need) ENTER_AS(__func__, need)

#define CHECK(condition, code)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return (code);                                                                         \
    } while (0)

#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_ = (call);                                                                         \
        if (try_)                                                                                  \
            return try_;                                                                           \
    } while (0)

/* What a call answers that gives a value at a pointer of the caller, and the same of a device. */
#define GIVE(result, value)                                                                        \
    (result) ? (*(result) = (value), (int)CODE_SUCCESS) : (int)CODE_INVALID_VALUE
#define GIVE_OF(device, result, value)                                                             \
    !device_valid(device) ? (int)CODE_INVALID_DEVICE : GIVE(result, value)

/* Note the reason of the last error that has a text of its own. The report has it. */
void explain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- contexts.c */

#define STREAM_LEGACY ((void *)(uintptr_t)1)
#define STREAM_PER_THREAD ((void *)(uintptr_t)2)

static inline Context *context_of_stream(Stream *stream) {
    return (Context *)stream->group;
}

/* ---- rules.c: streams */

/* The data of an operation that calls a function of the user. */
typedef struct {
    void (*function)(void *);
    void *data;
} HostCall;

/* ---- graphs.c */

/* The kinds of nodes, with the numbers of CUDA's type. */
typedef enum {
    NODE_KERNEL,
    NODE_COPY,
    NODE_FILL,
    NODE_HOST,
    NODE_GRAPH,
    NODE_EMPTY,
    NODE_EVENT_WAIT,
    NODE_EVENT_RECORD,
    NODE_ALLOCATE = 10,
    NODE_FREE,
    NODE_CONDITIONAL = 13,
} NodeKind;

typedef struct Graph Graph;

/* The vendor's description of an edge. Zeros: the later node waits for the whole of the earlier. */
typedef struct {
    unsigned char bytes[8];
} EdgeData;

typedef struct {
    int from; /* the number of the node that is waited for */
    EdgeData data;
} Edge;

/* A node keeps its number in copies of its graph: clones and what is instantiated. */
typedef struct Node {
    Graph *graph;
    int number;
    NodeKind kind;
    bool disabled;
    void *handle;     /* NULL in what is instantiated */
    Context *context; /* NULL: any */
    Op *op;           /* NULL: it does nothing itself */
    Graph **children; /* the graph of a child graph node, the bodies of a conditional node */
    void **child_handles;
    int child_count;
    Stream *stream; /* of a launch's node that waits for an event: what it waits for */
    uint64_t stream_number;
    Edge *after;
    int after_count;
} Node;

typedef struct UserObject UserObject;

/* A value of the device that a conditional node reads. */
typedef struct {
    uint64_t address;
    unsigned initial;
    bool assigned; /* each launch sets it to `initial` */
    bool used;     /* a node has it */
} Condition;

struct Graph {
    int references; /* of what is instantiated: its launches that have not run have it too */
    void *handle;
    uint64_t number;   /* among the graphs of the process */
    uint64_t original; /* the number of the graph that it is a copy of */
    Context *context;  /* of the first node that has one */
    Node **nodes;      /* sorted by number */
    int count, next_number;
    int *order;    /* the indexes of the nodes as they run, of what is instantiated */
    Graph *holder; /* the graph of the node that it belongs to, or NULL */
    bool is_body;  /* that node is a conditional one */
    int instances; /* the executable graphs */
    bool captures; /* a stream captures into it */
    Condition *conditions;
    int condition_count;
    UserObject **objects; /* once for each reference */
    int object_count;
};

/* The data of an operation that records an event or waits for one. */
typedef struct {
    struct Event *event;
} EventUse;

/* The data of a conditional node: the value is at an address of the device. */
typedef struct {
    uint64_t condition;
    int type;
    unsigned size;
} Conditional;

enum { CONDITION_IF, CONDITION_WHILE, CONDITION_SWITCH };

/* ---- executables.c */

typedef enum { CHANGE_NONE, CHANGE_TOPOLOGY, CHANGE_KIND, CHANGE_CONTEXT } ChangeKind;

/* Why an executable graph cannot take another graph's operations. */
typedef struct {
    ChangeKind kind;
    void *node, *from;
} Change;

/* A flag of executable graphs: a launch frees what the last one left allocated. */
enum { GRAPH_FREES = 1 };

/* ---- graph_memory.c */

/* The data of an operation that allocates or frees in a graph. The vendor's may follow. */
typedef struct {
    uint64_t address;
} GraphMemory;

/* The bytes of a device that graphs have, and the most since the last reset. */
typedef struct {
    uint64_t used, most_used, reserved, most_reserved;
} GraphUsage;

/* ---- captures.c */

typedef enum { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED } CaptureMode;
typedef enum { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED } CaptureStatus;

/* The nodes are valid until the next call for the stream. */
typedef struct {
    CaptureStatus status;
    uint64_t number; /* of the capture */
    void *graph;
    void **nodes; /* that the next one of the stream waits for */
    EdgeData *data;
    size_t count;
} CaptureInfo;

/* ---- events.c */

enum { EVENT_BLOCKING = 1, EVENT_NO_TIMING = 2 };

typedef struct Event {
    Context *context;
    void *handle;
    unsigned flags;
    Stream *stream; /* of the last record, NULL before */
    uint64_t number, generation;
    double time; /* of the record, in milliseconds; negative before it ran */
    void *graph; /* the graph that captured the last record, with the nodes it stands for */
    int *nodes;
    int node_count;
} Event;

/* ---- allocations.c, pools.c */

enum { PITCH = 512 };

/* Where the memory of a pool is: a device's number, or one of these. */
enum { POOL_HOST = DEVICES, POOL_HOST_NODE, POOL_ANYWHERE, POOL_PLACES };

typedef struct Pool {
    void *handle;
    BlockKind kind;
    int place;
    unsigned access;          /* bit i: device i may access its memory */
    uint64_t threshold, most; /* bytes that are kept, which is a hint, and that it may have, or 0 */
    uint64_t high;            /* the most bytes so far */
    int reuse[4];             /* hints, by CUDA's attributes from 1 on: 1 disables one */
} Pool;

/* ---- copying.c, filling.c */

typedef struct {
    uint64_t address;
    size_t pitch, slice; /* bytes of a row and of a plane */
} Side;

typedef struct {
    Side to, from;
    size_t width, height, depth;
    unsigned char *staged; /* rows of the source, packed */
} Copy;

/* The sides that must be memory of a device. */
enum { TO_DEVICE = 1, FROM_DEVICE = 2 };

typedef struct {
    uint64_t address;
    size_t pitch, width, height, element;
    uint32_t value;
} Fill;

/* ---- modules.c */

/* A parameter; its kind is that of HIP's metadata. */
typedef struct {
    uint32_t offset, size;
    char *kind;
} Param;

typedef struct {
    char *name;
    Param *params;
    uint32_t param_count, param_bytes;
    uint32_t visible_bytes; /* up to the end of the last parameter that is not hidden */
    uint32_t block[3], max_threads, cluster[3];
    uint32_t shared, local;
    uint32_t registers;       /* of CUDA an estimate, which refuses no launch; 0 of a cubin */
    uint32_t lanes;           /* of a wave, with HIP */
    bool blocks_are_clusters; /* .blocksareclusters: the grid of a launch counts clusters */
} Kernel;

typedef struct {
    char *name;
    uint64_t size, offset, address; /* the offset in the image of a module that is one */
    uint32_t flags;                 /* GLOBAL_CONSTANT, GLOBAL_MANAGED */
    bool is_shared;                 /* its memory is that of `shares` */
} Global;

enum {
    GLOBAL_CONSTANT = 1,
    GLOBAL_MANAGED = 2,
    FUNCTION_ATTRIBUTES = 32,
    DYNAMIC_BYTES = 48 << 10
};

typedef struct Module Module;

typedef struct {
    Module *module;
    Kernel *kernel;
    uint32_t index;
    void *handle;
    uint32_t max_dynamic; /* bytes of dynamic shared memory that a launch may ask for */
    int attributes[FUNCTION_ATTRIBUTES]; /* the vendor's */
    /* What the launch API of CUDA 3 sets one by one. */
    uint32_t next_block[3], next_shared, next_size;
    unsigned char next_params[4096];
} Function;

struct Module {
    Context *context;
    void *handle;
    bool in_worker, is_executed;
    uint32_t worker_number, worker_generation;
    int arch;                     /* of the image, with CUDA */
    char *target;                 /* the same with HIP */
    uint64_t image_size, address; /* of a module that is an image in memory of the device */
    const Module *shares; /* the same module in another context, which has the managed globals */
    uint32_t kernel_count, global_count;
    Kernel *kernels;
    Global *globals;
    Function *functions; /* one for each kernel */
};

/* ---- launches.c */

struct Launch {
    Function *function;
    void *handle;
    uint32_t grid[3], block[3], cluster[3], preferred[3], shared;
    bool cooperative, programmatic, non_portable;
    int priority;
    void *asked;       /* the handle of a function, or of a library's kernel */
    void **param_list; /* the address of each parameter below */
    unsigned char params[];
};

/* True while launches do nothing: they return before anything else. */
extern volatile int skip_launches;

/* ---- images.c */

#define MOST_IMAGE (UINT64_C(1) << 31)

/* Return whether `length` bytes at `offset` lie within `size` bytes. */
static inline bool inside(size_t size, uint64_t offset, uint64_t length) {
    return offset <= size && length <= size - offset;
}

#endif
