/* The parts of a stand-in driver that no vendor's API appears in.
 *
 * A stand-in driver is a shared library with the API of a vendor's driver. It keeps memory,
 * handles, streams and events, and checks what it gets. A worker process runs the kernels
 * (protocol.md). Tests alone build and load it.
 *
 * One lock guards everything: each function of these files expects its caller to hold it, if it
 * says nothing else.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codes.h"

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

extern pthread_mutex_t big_lock;

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

/* ---- worker.c: the interpreter's process */

/* Bytes that grow: a request that is written, or a response that is read. */
typedef struct {
    unsigned char *data;
    size_t size, capacity, position;
    bool short_read;
} Bytes;

/* Append text, as printf writes it, without a zero. */
void put_format(Bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum { WORKER_LOAD = 1, WORKER_PLACE, WORKER_UNLOAD, WORKER_LAUNCH, WORKER_NOTES };

#endif
