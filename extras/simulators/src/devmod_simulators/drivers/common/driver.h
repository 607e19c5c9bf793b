/* The rules of a driver of CUDA's model, which HIP follows: contexts, streams, captures, graphs,
 * events, copies and fills.
 *
 * A vendor's stand-in has its API's functions, devices, images and launches. Functions here return
 * a code of codes.h, and expect their caller to hold the lock.
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
/* Initialize the driver. */
int process_initialize(void);
/* Return whether this process is the fork of one that was initialized. */
bool process_forked(void);
/* Return whether process_initialize was called, with or without success. */
bool process_was_initialized(void);
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

/* Return the name of the function of the API that this thread is in. */
const char *current_call(void);
/* Append the state of the process to the report. */
void report_process(Bytes *report);
/* Note the reason of the last error that has a text of its own. The report has it. */
void explain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Note why a kernel failed with a code. */
void explain_failure(int code, const char *kernel, const char *message);
/* Return why a kernel failed, if its failure is the latest with this code, or NULL. The text stays.
 */
const char *failure_reason(int code);

/* ---- devices.c */

/* Note the devices that exist, when the driver is initialized. */
void devices_open(void);
/* Return the number of devices that are visible now. */
int device_count(void);
/* Return the number of a visible device among those that are present. */
int physical_device(int device);
/* Return whether a number is that of a device. */
bool device_valid(int device);
/* Write the item of a setting with several (separated by commas) that is for a device: the last one
 * is for those behind it. */
void device_setting(const char *name, int device, const char *fallback, char *item, size_t size);
uint64_t device_memory(void);

/* ---- contexts.c */

/* The stack of contexts of this thread. Pushing and popping return whether there was room, or a
 * context. */
Context *stack_top(void);
bool stack_push(Context *context);
bool stack_pop(Context **context);
/* Replace the top; NULL pops it. */
void stack_replace(Context *context);
/* Return the context of a handle; a stale one has its own code. */
int context_of(void *handle, Context **context);
/* Return the sticky failure of a context, for the process: 0 or a code. */
int context_sticky(Context *context);
/* The same, or the failure of a launch alone, which only one wait returns. */
int context_failure(Context *context);
/* The same for a query: the wait after it returns the failure of a launch too. */
int context_failure_left(Context *context);
/* Make a context that is not alive, let one begin, and end one: its work is done, its objects and
 * memory are gone, their handles are stale. */
Context *context_make(int device, bool primary);
void context_activate(Context *context);
void context_deactivate(Context *context);
/* Return the primary context of a device, made with the first call. */
Context *context_primary(int device);
/* Run all work of a context. */
int context_run(Context *context);

#define STREAM_LEGACY ((void *)(uintptr_t)1)
#define STREAM_PER_THREAD ((void *)(uintptr_t)2)

/* Return the stream of a handle. NULL, STREAM_LEGACY and STREAM_PER_THREAD are those of the current
 * context. */
int stream_of(void *handle, Stream **stream);
static inline Context *context_of_stream(Stream *stream) {
    return (Context *)stream->group;
}

/* Let the current context access another device's memory, or no longer. */
int context_enable_peer(int device);
int context_disable_peer(int device);

/* ---- rules.c: streams */

/* Make a stream of the current context; flag 1: the legacy stream and it do not wait for each
 * other. Priorities: -5 to 0. */
int stream_create(void **handle, unsigned flags, int priority);
int stream_destroy(void *handle);
int stream_synchronize(void *handle);
int stream_query(void *handle);
int context_synchronize(void);
/* The data of an operation that calls a function of the user. */
typedef struct {
    void (*function)(void *);
    void *data;
} HostCall;

Op *host_call_op(void (*function)(void *), void *data);
/* Queue a call of a function of the user. */
int stream_call(void *handle, void (*function)(void *), void *data);
/* Queue an operation, or record it in the graph that the stream captures. */
int submit(Stream *stream, Op *op);
/* Queue an operation; run the stream up to it if `wait`, which a capture does not permit. */
int submit_and(Stream *stream, Op *op, bool wait);

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

Graph *graph_make(void);
/* End one use of a graph. */
void graph_release(Graph *graph);
/* Return a copy of a graph, with handles of its own or, to be instantiated, without any. */
Graph *graph_copy(const Graph *graph, bool with_handles);
Graph *graph_of(void *handle);
/* Return the index of a node by its number, or -1. */
int graph_index(const Graph *graph, int number);
/* Return the node of a graph that corresponds to a node of the graph it is a copy of, or NULL. */
Node *graph_counterpart(const Graph *graph, const Node *node);
/* Call a function for each node of a graph and of those within it, until it returns a code. */
int graph_visit(const Graph *graph, int (*act)(Node *node, void *data), void *data);
/* Return whether a graph has nodes of a kind, or one within it. */
bool graph_has_kind(const Graph *graph, NodeKind kind);
/* Return whether a graph has nodes that allocate or free memory: they limit what it may do. */
bool graph_has_memory(const Graph *graph);
/* Add a node, which owns `op`. `before` are the handles of nodes that it waits for, `data` may be
 * NULL. If it fails, the operation is freed. */
int graph_add(Graph *graph, void *const *before, const EdgeData *data, size_t count, NodeKind kind,
              Op *op, Node **node);
/* Add a node that waits for nodes of its graph by number. */
Node *graph_append(Graph *graph, NodeKind kind, Op *op, const int *before, int count);
/* Give a node `count` graphs, which are owned by it. */
void node_adopt(Node *node, Graph **children, int count);
/* Replace what a node does; the operation is freed if it fails. */
int node_set(Node *node, NodeKind kind, Op *op);
Node *node_of(void *handle);
int node_destroy(void *handle);
bool node_awaits(const Node *node, int number);
/* Check that handles are those of nodes of a graph. */
int graph_check_nodes(const Graph *graph, void *const *nodes, size_t count);
/* Add edges or remove them: all, or none if one is invalid. */
int graph_add_edges(void *graph, void *const *from, void *const *to, const EdgeData *data,
                    size_t count);
int graph_remove_edges(void *graph, void *const *from, void *const *to, size_t count);

int graph_create(void **handle);
int graph_clone(void **clone, void *graph);
int graph_nodes(void *graph, void **nodes, size_t *count);
int graph_node_kind(void *node, NodeKind *kind);
int graph_destroy(void *graph);
/* Make a value of the device that one conditional node of a graph may read. */
int graph_add_condition(uint64_t *address, void *graph, Context *context, unsigned initial,
                        bool assigned);
/* Return a value of a graph, or of one that contains it, or NULL. */
Condition *graph_condition(const Graph *graph, uint64_t address);

/* ---- executables.c */

typedef enum { CHANGE_NONE, CHANGE_TOPOLOGY, CHANGE_KIND, CHANGE_CONTEXT } ChangeKind;

/* Why an executable graph cannot take another graph's operations. */
typedef struct {
    ChangeKind kind;
    void *node, *from;
} Change;

/* A flag of executable graphs: a launch frees what the last one left allocated. */
enum { GRAPH_FREES = 1 };

/* *cyclic may be NULL. */
int graph_instantiate(void **executable, void *graph, unsigned long long flags, bool *cyclic);
int executable_flags(void *executable, unsigned long long *flags);
int graph_update(void *executable, void *graph, Change *change);
int graph_destroy_executable(void *executable);
int graph_upload(void *executable, void *stream);
int graph_launch(void *executable, void *stream);
/* Give other threads the time to launch an executable graph too, which is a violation: CUDA does
 * not serialize such calls. */
void executable_meet(void *executable);
/* Replace what a node does in an executable graph; the operation is freed if it fails. The node is
 * that of the graph it was instantiated from. */
int executable_set(void *executable, void *node, NodeKind kind, Op *op);
int executable_set_child(void *executable, void *node, void *graph);
int executable_enable(void *executable, void *node, bool enabled);
int executable_enabled(void *executable, void *node, bool *enabled);

/* ---- graph_memory.c */

/* The data of an operation that allocates or frees in a graph. The vendor's may follow. */
typedef struct {
    uint64_t address;
} GraphMemory;

/* Make the operation of a node that allocates, with `extra` bytes for the vendor: its address is
 * that of each launch. */
int graph_allocation(BlockKind kind, Context *context, int device, size_t size, size_t extra,
                     Op **op);
/* Make the operation of a node that frees what a node allocates. */
int graph_deallocation(const Graph *graph, uint64_t address, Op **op);
/* Let a launch of a graph allocate and free. It fails if memory of an earlier launch is left,
 * unless `frees`. */
int graph_claim(const Graph *graph, bool frees);
/* End an allocation: that of a graph is there again at the next launch. */
void allocation_end(uint64_t address);
/* The bytes of a device that graphs have, and the most since the last reset. */
typedef struct {
    uint64_t used, most_used, reserved, most_reserved;
} GraphUsage;

GraphUsage *graph_usage(int device);

/* ---- user_objects.c */

int user_object_create(void **handle, void *data, void (*destroy)(void *), unsigned references);
int user_object_retain(void *handle, unsigned count);
int user_object_release(void *handle, unsigned count);
int graph_retain_object(void *graph, void *object, unsigned count, bool moves);
int graph_release_object(void *graph, void *object, unsigned count);
/* Let a copy of a graph have its objects too, and end the use of all. */
void objects_copy(Graph *copy, const Graph *graph);
void objects_drop(Graph *graph);

/* ---- captures.c */

typedef enum { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED } CaptureMode;
typedef enum { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED } CaptureStatus;

/* Begin a capture, into a graph of its own for NULL; the first node waits for `nodes`. */
int capture_begin(void *stream, CaptureMode mode, void *graph, void *const *nodes, size_t count);
int capture_end(void *stream, void **graph);
/* Replace the nodes that the next one of a stream waits for, or add to them. */
int capture_set_front(void *stream, void *const *nodes, size_t count, bool adds);

/* The nodes are valid until the next call for the stream. */
typedef struct {
    CaptureStatus status;
    uint64_t number; /* of the capture */
    void *graph;
    void **nodes; /* that the next one of the stream waits for */
    EdgeData *data;
    size_t count;
} CaptureInfo;

int capture_info(void *stream, CaptureInfo *info);
int capture_status(void *stream, CaptureStatus *status);
/* Add a node for an operation of a stream. */
int capture_add(Stream *stream, Op *op);
/* The same for a kind that its operation does not show. */
int capture_add_kind(Stream *stream, NodeKind kind, Op *op, Node **node);
bool capture_active(const Stream *stream);
/* Return the graph that a stream captures into. */
Graph *capture_graph(const Stream *stream);
void capture_invalidate(Stream *stream);
/* Take a stream that is destroyed out of its capture, which ends if it began there. */
void capture_leave(Stream *stream);
/* Set the mode of this thread, and *mode to the one before. */
int capture_exchange_mode(int *mode);
/* Refuse what a capture cannot record, such as an allocation, as the modes of the captures and of
 * this thread have it. */
int refuse_in_capture(void);
/* Return whether a stream is the legacy one, and one that it waits for captures. */
bool legacy_is_captured(const Stream *stream);
/* Refuse to wait for the whole context while one of its streams captures. */
int refuse_context_wait(void);
/* Refuse a use of the legacy stream while a stream captures that it would wait for. */
int refuse_legacy(Stream *stream);

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

int capture_record(Stream *stream, Event *event);
int capture_wait(Stream *stream, Event *event);

int event_of(void *handle, Event **event);
/* Let an event stand for the last operation of a stream, which a graph's launch is. */
void event_place(Event *event, Stream *stream);
/* Make the operation of a node that records an event, or waits for it. */
Op *event_op(NodeKind kind, Event *event);
int event_create(void **handle, unsigned flags);
int event_destroy(void *handle);
/* `external`: in a capture, the event is recorded by a node of the graph. */
int event_record(void *handle, void *stream, bool external);
int event_synchronize(void *handle);
int event_query(void *handle);
int event_elapsed(float *milliseconds, void *start, void *end);
int stream_wait_event(void *stream, void *event, bool external);

/* ---- allocations.c, pools.c */

enum { PITCH = 512 };

/* Return whether [address, address + size) is host memory that the driver has pinned or registered.
 */
bool is_pinned(const void *address, size_t size);
/* Return whether the host pointer is registered, so that it is a device pointer too. */
bool is_registered(uint64_t address, size_t size);
/* Check that a device pointer and size lie in one allocation. */
int check_range(uint64_t address, uint64_t size, const char *what);
/* Return the most bytes that memory of a kind may take. */
uint64_t memory_limit(BlockKind kind);
int memory_allocate(BlockKind kind, uint64_t size, unsigned flags, uint64_t *address);
/* Free memory, after the pending work of the context unless the setting "frees_wait" is 0 and the
 * vendor documents no wait. */
int memory_release(uint64_t address, bool host);
/* Return the block that starts at an address, if the program may free it, or NULL. */
Block *freeable_block(uint64_t address);
int memory_register(void *address, size_t size);
int memory_unregister(void *address);
/* Set *result to the address by which kernels access pinned or registered memory. */
int memory_device_address(uint64_t address, uint64_t *result);
/* Give kernels the registered memory that has such an address, and take it back. */
void mirrors_copy(bool to_host);
int memory_info(size_t *free, size_t *total);
/* Return the memory behind an address, or NULL if its allocation is gone. */
unsigned char *memory_at(uint64_t address, size_t size);

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

/* Allocate from a pool, or from the current one of the stream's device for NULL. */
int pool_allocate(Pool *pool, uint64_t *address, size_t size, void *stream);
int pool_free(uint64_t address, void *stream);
Pool *pool_make(BlockKind kind, int place);
int pool_destroy(Pool *pool);
Pool *pool_default(BlockKind kind, int place);
Pool *pool_current(BlockKind kind, int place);
/* Make a pool the current one of its place. */
void pool_choose(Pool *pool);
/* Return the bytes of a pool's allocations. */
uint64_t pool_used(const Pool *pool);

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

int submit_copy(Copy copy, void *stream, bool async, int kinds);
/* Make the operation of a graph's node, with `extra` bytes for the vendor. It reads and writes when
 * it runs. */
int copy_op(const Copy *copy, int kinds, size_t extra, Op **op);
/* Copy bytes in one piece. */
int copy_linear(uint64_t to, uint64_t from, size_t size, void *stream, bool async, int kinds);

typedef struct {
    uint64_t address;
    size_t pitch, width, height, element;
    uint32_t value;
} Fill;

int submit_fill(Fill fill, void *stream, bool async);
int fill_op(const Fill *fill, Op **op);

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

bool param_is_hidden(const Param *param);
/* Read the worker's description of a module that it has loaded. */
int module_read(Module *module, Bytes *response);
/* Give a module with kernels its functions. */
void module_open(Module *module);
/* Free a module of whatever state, and its handles. */
void module_drop(void *module);
int module_of(void *handle, Module **module);
/* Return the function or the global of a name, or NULL. */
Function *module_function(Module *module, const char *name);
Global *module_global(const Module *module, const char *name);

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

/* Make the operation of a launch, without its parameters. */
Op *launch_make(const Launch *launch);
/* Fill the parameter block: from the addresses of parameters or from `extra`, and what is hidden
 * from the launch. */
int launch_fill(Launch *launch, void **params, void **extra);
/* Note what a test reads of a launch, and queue it. */
int launch_submit(Op *op, Stream *stream);

/* True while launches do nothing: they return before anything else. */
extern volatile int skip_launches;

/* ---- notes.c */

/* Return whether a check is on, or any for NULL. */
bool is_checked(const char *check);
/* Note the line of Python that calls a function of the API; the caller holds no lock. */
void note_place(const char *function);
void note_allocated(Block *block);
/* Return the line that frees a block, for the note when it is gone. */
const char *note_freeing(Block *block);
void note_freed(uint64_t start, const char *where);
/* Note that the operation that runs copies or fills rows. Addresses outside of the arena are the
 * host's own. */
void note_access(uint64_t address, size_t pitch, size_t width, size_t rows, uint64_t from,
                 size_t from_pitch);
/* Append the checks and the notes to the request of a launch, if there are checks. */
bool put_checks(Bytes *request);
/* Send the notes without a launch, and print the reports. */
void flush_notes(void);
/* Print the reports in the response to it. */
void take_reports(Bytes *response);
/* Tell the command above of a launch: make its file, and write to it once a launch has run to its
 * end. */
void note_launch(bool has_ended);
/* Report the memory of an owner, or all, that the program did not free. */
void note_leaks(const void *owner);

/* ---- images.c */

#define MOST_IMAGE (UINT64_C(1) << 31)

/* Return whether `length` bytes at `offset` lie within `size` bytes. */
static inline bool inside(size_t size, uint64_t offset, uint64_t length) {
    return offset <= size && length <= size - offset;
}

/* Copy memory that may not be there: an image has its size within, and a truncated one ends
 * earlier. */
bool copy_safely(void *target, const void *source, size_t size);
/* Return the bytes of an ELF file for a machine from its headers, 0 if they are damaged. */
size_t elf_size(const void *image, int machine);
/* Return the contents of a file with a zero behind it, or NULL. The caller frees it. */
char *file_contents(const char *path);

#endif
