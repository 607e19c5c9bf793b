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
    struct Pool *default_pool, *pool; /* the current one, NULL: the default */
} Device;

extern Device devices[DEVICES];

/* ---- what a vendor's stand-in defines
 * ---------------------------------------------------------------------------------------- */

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
    void (*drop_module)(void *);  /* free a module of a context that ends */
    void (*leaving)(Context *);   /* forget a context that ends; may be NULL */
} Vendor;

extern const Vendor vendor;

/* ---- process.c: what each function of an API does first
 * ---------------------------------------------------------------------- */

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

/* Return the name of the function of the API that this thread is in. */
const char *current_call(void);
/* Note the reason of the last error that has a text of its own. The report has it. */
void explain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Note why a kernel failed with a code. */
void explain_failure(int code, const char *kernel, const char *message);
/* Return why a kernel failed, if its failure is the latest with this code, or NULL. The text stays.
 */
const char *failure_reason(int code);

/* ---- devices.c
 * ---------------------------------------------------------------------------------------------------------------
 */

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

/* ---- contexts.c
 * --------------------------------------------------------------------------------------------------------------
 */

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
/* The same, or the failure of a launch alone, which only one call returns. */
int context_failure(Context *context);
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

/* ---- rules.c: streams
 * ----------------------------------------------------------------------------------------------------------
 */

/* Make a stream of the current context; flag 1: the legacy stream and it do not wait for each
 * other. Priorities: -5 to 0. */
int stream_create(void **handle, unsigned flags, int priority);
int stream_destroy(void *handle);
int stream_synchronize(void *handle);
int stream_query(void *handle);
int context_synchronize(void);
/* Queue a call of a function of the user. */
int stream_call(void *handle, void (*function)(void *), void *data);
/* Queue an operation, or record it in the graph that the stream captures. */
int submit(Stream *stream, Op *op);
/* Queue an operation; run the stream up to it if `wait`, which a capture does not permit. */
int submit_and(Stream *stream, Op *op, bool wait);

/* ---- captures.c, graphs.c
 * ------------------------------------------------------------------------------------------------------
 */

typedef enum { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED } CaptureMode;
typedef enum { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED } CaptureStatus;

typedef struct {
    Op *op;
    void *handle;
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
    void *handle;
    Body *body;
} Graph;

/* The kinds of nodes, with the numbers of CUDA's type. */
typedef enum { NODE_KERNEL, NODE_COPY, NODE_FILL, NODE_HOST } NodeKind;

/* End one use of nodes. */
void body_release(Body *body);

int capture_begin(void *stream, CaptureMode mode);
int capture_end(void *stream, void **graph);
int capture_status(void *stream, CaptureStatus *status);
int capture_add(Stream *stream, Op *op);
bool capture_active(const Stream *stream);
void capture_invalidate(Stream *stream);
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

int graph_nodes(void *graph, void **nodes, size_t *count);
int graph_node_kind(void *node, NodeKind *kind);
int graph_destroy(void *graph);
int graph_instantiate(void **executable, void *graph);
/* Replace the nodes of an executable graph; *changed: the graphs differ in form. */
int graph_update(void *executable, void *graph, bool *changed);
int graph_destroy_executable(void *executable);
int graph_upload(void *executable, void *stream);
int graph_launch(void *executable, void *stream);

/* ---- events.c
 * ------------------------------------------------------------------------------------------------------------------
 */

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

int event_create(void **handle, unsigned flags);
int event_destroy(void *handle);
int event_record(void *handle, void *stream);
int event_synchronize(void *handle);
int event_query(void *handle);
int event_elapsed(float *milliseconds, void *start, void *end);
int stream_wait_event(void *stream, void *event);

/* ---- allocations.c, pools.c
 * ------------------------------------------------------------------------------------------------------
 */

enum { PITCH = 512 };

/* Return whether [address, address + size) is host memory that the driver has pinned or registered.
 */
bool is_pinned(const void *address, size_t size);
/* Return whether the host pointer is registered, so that it is a device pointer too. */
bool is_registered(uint64_t address, size_t size);
/* Check that a device pointer and size lie in one allocation. */
int check_range(uint64_t address, uint64_t size, const char *what);
int memory_allocate(BlockKind kind, uint64_t size, unsigned flags, uint64_t *address);
/* Free memory, after the pending work of the context unless the setting "frees_wait" is 0 and the
 * vendor documents no wait. */
int memory_release(uint64_t address, bool host);
int memory_register(void *address, size_t size);
int memory_unregister(void *address);
int memory_info(size_t *free, size_t *total);
/* Return the memory behind an address, or NULL if its allocation is gone. */
unsigned char *memory_at(uint64_t address, size_t size);

typedef struct Pool {
    void *handle;
    int device;
    unsigned access;          /* bit i: device i may access its memory */
    uint64_t threshold, most; /* bytes that are kept, which is a hint, and that it may have, or 0 */
    uint64_t high;            /* the most bytes so far */
    int reuse[3];             /* hints, as CUDA's attributes: 1 disables one */
} Pool;

/* Allocate from a pool, or from the current one of the stream's device for NULL. */
int pool_allocate(Pool *pool, uint64_t *address, size_t size, void *stream);
int pool_free(uint64_t address, void *stream);
Pool *pool_make(int device);
int pool_destroy(Pool *pool);
Pool *pool_default(int device);
Pool *pool_current(int device);
/* Return the bytes of a pool's allocations. */
uint64_t pool_used(const Pool *pool);

/* ---- copying.c, filling.c
 * --------------------------------------------------------------------------------------------------------
 */

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
/* Copy bytes in one piece. */
int copy_linear(uint64_t to, uint64_t from, size_t size, void *stream, bool async, int kinds);

typedef struct {
    uint64_t address;
    size_t pitch, width, height, element;
    uint32_t value;
} Fill;

int submit_fill(Fill fill, void *stream, bool async);

/* ---- launches.c
 * -------------------------------------------------------------------------------------------------------------------
 */

/* True while launches do nothing: they return before anything else. */
extern volatile int skip_launches;

/* Count a launch, and note what a test reads of it: a name, and fields of the form name=value. The
 * block is written in hexadecimal. */
void note_launch(const void *block, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Append the ranges of memory that a kernel of a context may access to a request, or those that a
 * stream has yet to allocate. */
void put_ranges(Bytes *request, const Context *context, bool live);

/* ---- notes.c
 * -----------------------------------------------------------------------------------------------------------------------
 */

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
/* Report the memory of an owner, or all, that the program did not free. */
void note_leaks(const void *owner);

/* ---- images.c
 * ----------------------------------------------------------------------------------------------------------------------
 */

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
