/* Stream-ordered allocations and their pools. A pool keeps no freed memory. */
#include "driver.h"

#include <stdlib.h>

static int run_allocate(Op *op) {
    Block *block = arena_block(op->data[0], 1);
    if (block)
        block->live = true;
    return 0;
}

static int run_free(Op *op) {
    note_freed(op->data[0], (const char *)(uintptr_t)op->data[1]);
    allocation_end(op->data[0]);
    return 0;
}

/* Of each kind of memory, the default pools of places, and the current ones or NULL. */
static Pool *defaults[BLOCK_MANAGED + 1][POOL_PLACES], *currents[BLOCK_MANAGED + 1][POOL_PLACES];

/* Return the bytes of a pool's allocations. */
uint64_t pool_used(const Pool *pool) {
    uint64_t used = 0;
    int slice = pool->kind == BLOCK_DEVICE ? pool->place : ARENA_HOST;
    for (size_t i = 0; i < arena_count(slice); i++)
        if (arena_at(slice, i)->pool == pool)
            used += arena_at(slice, i)->size;
    return used;
}

Pool *pool_make(BlockKind kind, int place) {
    Pool *pool = zeroed(sizeof *pool); /* never freed: a block may still name it */
    pool->kind = kind;
    pool->place = place;
    if (kind == BLOCK_DEVICE)
        pool->access = 1u << place;
    if (kind == BLOCK_MANAGED)
        pool->access = ~0u;
    pool->handle = handle_make(HANDLE_POOL, pool, NULL);
    return pool;
}

Pool *pool_default(BlockKind kind, int place) {
    Pool **pool = &defaults[kind][place];
    if (!*pool)
        *pool = pool_make(kind, place);
    return *pool;
}

Pool *pool_current(BlockKind kind, int place) {
    Pool *pool = currents[kind][place];
    return pool ? pool : pool_default(kind, place);
}

/* Make a pool the current one of its place. */
void pool_choose(Pool *pool) {
    currents[pool->kind][pool->place] = pool;
}

int pool_destroy(Pool *pool) {
    CHECK(pool != defaults[pool->kind][pool->place], CODE_INVALID_VALUE);
    if (currents[pool->kind][pool->place] == pool)
        currents[pool->kind][pool->place] = NULL; /* the default one is current again */
    handle_drop(HANDLE_POOL, pool->handle);
    return CODE_SUCCESS;
}

/* Return the number of the device of a pool's memory, or of a context for memory of the host. */
static int device_of(const Pool *pool, const Context *context) {
    return pool->kind == BLOCK_DEVICE ? pool->place : context->device;
}

/* Record an allocation in a graph. */
static int capture_allocation(const Pool *pool, uint64_t *address, size_t size, Stream *stream) {
    Node *node;
    Op *op;
    Context *context = context_of_stream(stream);
    TRY(graph_allocation(pool->kind, context, device_of(pool, context), size, 0, &op));
    *address = ((GraphMemory *)op->data)->address;
    return capture_add_kind(stream, NODE_ALLOCATE, op, &node);
}

/* Record a free in a graph. */
static int capture_free(uint64_t address, Stream *stream) {
    Node *node;
    Op *op;
    TRY(graph_deallocation(capture_graph(stream), address, &op));
    return capture_add_kind(stream, NODE_FREE, op, &node);
}

/* Allocate from a pool, or from the current one of the stream's device for NULL. */
int pool_allocate(Pool *pool, uint64_t *address, size_t size, void *handle) {
    Stream *stream;
    Block *block;
    CHECK(address, CODE_INVALID_VALUE);
    TRY(stream_of(handle, &stream));
    /* NVIDIA documents nothing for no bytes; cuda.core's tests, and hipMallocAsync, expect this. */
    *address = 0;
    CHECK(size, CODE_SUCCESS);
    Context *context = context_of_stream(stream);
    if (!pool)
        pool = pool_current(BLOCK_DEVICE, context->device);
    if (capture_active(stream))
        return capture_allocation(pool, address, size, stream);
    CHECK(!pool->most || size <= pool->most - pool_used(pool), CODE_OUT_OF_MEMORY);
    TRY(arena_allocate(pool->kind, device_of(pool, context), size, memory_limit(pool->kind),
                       context, &block));
    block->live = false;
    block->pool = pool;
    if (pool->kind == BLOCK_MANAGED && pool->place < DEVICES)
        block->preferred = pool->place;
    note_allocated(block);
    *address = block->start;
    if (pool_used(pool) > pool->high)
        pool->high = pool_used(pool);
    Op *op = op_make("allocation", run_allocate, NULL, sizeof(uint64_t));
    op->data[0] = *address;
    return submit(stream, op);
}

int pool_free(uint64_t address, void *handle) {
    Stream *stream;
    CHECK(address, CODE_SUCCESS);
    TRY(stream_of(handle, &stream));
    if (capture_active(stream))
        return capture_free(address, stream);
    Block *block = freeable_block(address);
    if (!block || (block->kind != BLOCK_DEVICE && !block->pool && !block->of_graph)) {
        violation("0x%llx is freed and is not the start of a device allocation",
                  (unsigned long long)address);
        return CODE_INVALID_VALUE;
    }
    block->claimed = false;
    Op *op = op_make("free", run_free, NULL, 2 * sizeof(uint64_t));
    op->data[0] = address;
    op->data[1] = (uintptr_t)note_freeing(block);
    return submit(stream, op);
}
