/* The parts of a stand-in driver that no vendor's API appears in.
 *
 * A stand-in driver is a shared library with the API of a vendor's driver. It keeps memory,
 * handles, streams and events, and checks what it gets. A worker process runs the kernels
 * (protocol.md). Tests alone build and load it.
 *
 * One lock guards everything: each function here expects its caller to hold it, if it says nothing
 * else.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codes.h"

/* ---- heap.c: the process's own memory */

/* Return new memory, zeros. */
void *zeroed(size_t size);
/* Return an array with room for one more element behind `count`. */
void *with_room(void *array, size_t count, size_t size);

/* ---- settings.c: what a test sets */

/* Return the setting `name` as text: set_setting's value, else the environment variable
 * DEVMOD_STANDIN_<NAME>, else NULL. */
const char *setting(const char *name);
/* Return the setting `name` as a number (decimal, or hexadecimal with 0x), or `fallback` without
 * one. */
uint64_t setting_number(const char *name, uint64_t fallback);

/* ---- report.c: what a test reads */

/* Note a use of the API that has no defined result with a real driver. Tests fail on it. */
void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- arena.c: device memory and pinned host memory */

enum {
    ARENA_DEVICES = 8,
    ARENA_HOST = ARENA_DEVICES,
    ARENA_VIRTUAL,
    ARENA_SLICES
}; /* one slice of addresses for each device, one for the host, one for those that a program maps */

#define SLICE_BYTES (UINT64_C(64) << 30)

typedef enum { BLOCK_DEVICE, BLOCK_HOST, BLOCK_MANAGED } BlockKind;

/* One allocation. `live` is false for a stream-ordered allocation that its stream has not reached
 * yet. */
typedef struct {
    uint64_t start, size, number;
    BlockKind kind;
    int device;
    unsigned flags;
    bool live;
    struct Pool *pool; /* of a stream-ordered allocation */
    bool of_graph;     /* a node of a graph allocates it: freed, it keeps its address */
    bool claimed;      /* of a graph: a launch has allocated it and nothing has freed it */
    bool internal; /* the driver's own, such as a module's globals: nobody else may free it, and the
                      report leaves it out */
    void *owner;
    bool read_mostly; /* advice for managed memory: places are devices, -1 the host, -2 none */
    int preferred, prefetched;
    unsigned accessed_by;  /* of mapped memory: a bit for each device that has access */
    unsigned char *mirror; /* the registered memory that it stands for, or NULL */
    char *place;           /* with checks: the line of the program that allocated it */
} Block;

/* Make the memfd and the mappings. Return whether it worked. */
bool arena_open(void);
/* Return the address of the arena. */
uint64_t arena_base(void);
/* Return the descriptor of the memfd. */
int arena_fd(void);
/* Return the bytes of the arena, of all slices. */
uint64_t arena_size(void);
/* Allocate `size` bytes of a device (kind device or managed) or of the host, and set *block. Return
 * 0 or a code. */
int arena_allocate(BlockKind kind, int device, uint64_t size, uint64_t limit, void *owner,
                   Block **block);
/* Free the block that starts at `start`; the memory behind it is gone. Return whether there is one.
 */
bool arena_free(uint64_t start);
/* Give a block the contents of new memory. */
void arena_renew(const Block *block);
/* Free all blocks of an owner. */
void arena_free_owner(void *owner);
/* Return the block that contains [address, address + size), or NULL. The pointer is valid until the
 * next call that changes blocks. */
Block *arena_block(uint64_t address, uint64_t size);
/* Return whether an address lies in the arena at all. */
bool arena_contains(uint64_t address);
/* Return the stand-in's own view of the memory at `address`: the address itself cannot be accessed
 * by the process for device memory. */
void *arena_view(uint64_t address);
/* Take or give back bytes of a device without addresses. Return whether it has them. */
bool arena_charge(int device, uint64_t size, uint64_t limit);
void arena_discharge(int device, uint64_t size);
/* Begin a block of mapped memory at an address in ARENA_VIRTUAL, and end one: the memory behind it
 * stays. */
Block *arena_place(uint64_t start, uint64_t size, int device);
void arena_unplace(uint64_t start);
/* Make the memory behind a range zeros that take no room. */
void arena_clear(uint64_t start, uint64_t size);
/* Return the bytes that a device's blocks (or the host's, ARENA_HOST) take. */
uint64_t arena_used(int slice);
/* Return the number of blocks in a slice, and one of them. */
size_t arena_count(int slice);
Block *arena_at(int slice, size_t index);

/* ---- handles.c */

enum {
    HANDLE_CONTEXT = 1,
    HANDLE_MODULE,
    HANDLE_FUNCTION,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_GRAPH,
    HANDLE_GRAPH_NODE,
    HANDLE_GRAPH_EXEC,
    HANDLE_POOL,
    HANDLE_LIBRARY,
    HANDLE_KERNEL,
    HANDLE_ARRAY,
    HANDLE_USER_OBJECT,
    HANDLE_MIPMAP,
    HANDLE_PHYSICAL,
    HANDLE_KINDS
};

/* Return a new handle of `kind` for `object`. It is not an address, so that dereferencing it
 * faults. */
void *handle_make(int kind, void *object, void *owner);
/* Return the object of a handle. NULL, and a violation, for one that is stale, of another kind, or
 * no handle. NULL alone for NULL. */
void *handle_get(int kind, const void *handle);
/* Return the object of a handle, or NULL. Nothing is noted. */
void *handle_peek(int kind, const void *handle);
/* Make a handle stale. */
void handle_drop(int kind, const void *handle);
/* Call `drop(object)` for each live handle of a kind and an owner, and make the handle stale. */
void handle_drop_owner(int kind, void *owner, void (*drop)(void *object));
/* Return the number of live handles of a kind. */
/* Call a function with each object of a kind. */
void handle_each(int kind, void (*act)(void *object));
size_t handle_count(int kind);
const char *handle_kind_name(int kind);

/* ---- streams.c: queues of deferred work */

typedef struct Op Op;
typedef struct Stream Stream;

/* Work of a stream. Nothing runs before something waits for it. `run` returns 0 or a code. */
struct Op {
    Op *next;
    uint64_t number; /* its place in its stream, from 1 */
    uint64_t ticket; /* its place in the process */
    struct {
        Stream *stream;
        uint64_t number;
    } *waits; /* what must be done before, in other streams */
    int wait_count;
    int (*run)(Op *op);
    void (*drop)(Op *op);           /* frees what `data` holds; may be NULL */
    bool (*is_ready)(const Op *op); /* of one that waits for a number in memory; may be NULL */
    const char *what;
    int references;  /* of a graph's operation, which never changes: copies of the graph share it */
    size_t size;     /* of the data */
    uint64_t data[]; /* the operation's own */
};

/* A group of streams: a context. It has the stream that others of the group wait for (CUDA's legacy
 * default stream). */
typedef struct Group {
    int device;
    Stream *barrier; /* may be NULL */
    Stream *streams;
    int failed; /* sticky: the code of the failure that ended the group, 0 before; pending work is
                   then dropped */
    int unsupported; /* the code of a launch of what the interpreter lacks: others go on */
} Group;

struct Stream {
    Stream *next;
    Group *group;
    bool blocking; /* ordered with the group's barrier stream */
    bool running;
    bool destroyed;
    bool of_thread; /* the default stream of `thread` */
    pthread_t thread;
    int priority;
    unsigned flags;
    void *handle;
    void *attributes;    /* the vendor's, may be NULL */
    void *capture;       /* the driver's: work is recorded there, not queued */
    uint64_t last, done; /* numbers of the last operation queued and done */
    Op *head, *tail;
};

/* Return a new operation with `size` bytes of data, zeros. */
Op *op_make(const char *what, int (*run)(Op *), void (*drop)(Op *), size_t size);
/* End one use of an operation. */
void op_free(Op *op);
/* Let `op` wait for the work of `stream` up to `number`. */
void op_wait(Op *op, Stream *stream, uint64_t number);
Stream *stream_make(Group *group, bool blocking);
/* Queue an operation. Return its number. */
uint64_t stream_add(Stream *stream, Op *op);
/* Run a stream up to `number`, with what that depends on and nothing else. Return the sticky code
 * of the stream's group. */
int stream_run(Stream *stream, uint64_t number);
/* Run one operation of a stream, with what it depends on: what a query advances. Return whether
 * everything was done before. */
bool stream_step(Stream *stream);
/* Return whether a stream has an operation that waits for nothing and that no thread runs. */
bool stream_is_ready(const Stream *stream);
/* Return the number of operations that all streams have had, and that have run. */
uint64_t operations_queued(void);
uint64_t operations_done(void);
/* Run everything of a group: the stream whose next operation is the youngest first, so that a
 * missing wait shows. */
int group_run(Group *group);
/* End a stream: it leaves its group when its work is done. */
void stream_retire(Stream *stream);
/* Call a function of the user without the lock. The stream counts as running meanwhile. */
void call_unlocked(void (*function)(void *), void *data);
/* Return whether this thread is in such a call. */
bool in_call(void);
/* Call no function of the user from now on: the process ends. Return whether none is running in
 * another thread. */
bool end_calls(void);
bool calls_have_ended(void);

extern pthread_mutex_t big_lock;

/* ---- idle.c: work that runs without a call */

/* Note that the program has made a call. */
void note_call(void);
/* Run what is queued after a while without calls. */
void watch_queues(void);
/* Return whether this thread is the one that does so. */
bool runs_in_background(void);

/* ---- notes.c: what checks need of the order of work */

typedef enum {
    NOTE_ALLOCATED = 1,
    NOTE_FREED,
    NOTE_ACCESS,
    NOTE_WAITS,
    NOTE_QUEUED,
    NOTE_KNOWN,
    NOTE_REACHED
} Note;

/* Note that an operation waits for work of a stream, that it is queued there as `number`, that the
 * host knows the work up to `number` done, or that a queued operation has come after what it has
 * waited for since. */
void note_order(Note kind, const Stream *stream, uint64_t number, const Op *op);
/* Note which operation runs. */
void note_running(const Stream *stream, uint64_t number);
/* Return the stream of the operation that runs, and set its number there. */
const Stream *running_stream(uint64_t *number);

/* ---- worker.c: the interpreter's process */

/* Bytes that grow: a request that is written, or a response that is read. */
typedef struct {
    unsigned char *data;
    size_t size, capacity, position;
    bool short_read;
} Bytes;

void put_u32(Bytes *bytes, uint32_t value);
void put_u64(Bytes *bytes, uint64_t value);
void put_bytes(Bytes *bytes, const void *data, size_t size); /* with its length before it */
void put_raw(Bytes *bytes, const void *data, size_t size);
/* Append text, as printf writes it, without a zero. */
void put_format(Bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint32_t get_u32(Bytes *bytes);
uint64_t get_u64(Bytes *bytes);
char *get_text(Bytes *bytes); /* the caller frees it */
void bytes_free(Bytes *bytes);

enum { WORKER_LOAD = 1, WORKER_PLACE, WORKER_UNLOAD, WORKER_LAUNCH, WORKER_NOTES };

/* Send a request (its first field is the operation), which is freed, and read the response into
 * *response, behind status and message, unless it is NULL. Return the status. The worker is started
 * if it is not there. */
int worker_call(Bytes *request, Bytes *response);
/* Wait until the worker executes no kernel of a thread that lets others have the lock meanwhile. */
void worker_wait(void);
/* Return why the last call failed. */
const char *worker_message(void);
/* Return whether the worker has been started. */
bool worker_started(void);
/* Wait for a worker that ends by itself, or has ended. The next call starts another one, which
 * knows no module. */
void worker_end(void);
/* Return the number of the current worker, or of the next one, from 0. */
uint32_t worker_generation(void);

#endif
