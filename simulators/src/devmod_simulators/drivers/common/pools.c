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

uint64_t pool_used(const Pool *pool) {
    uint64_t used = 0;
    for (size_t i = 0; i < arena_count(pool->device); i++)
        if (arena_at(pool->device, i)->pool == pool)
            used += arena_at(pool->device, i)->size;
    return used;
}

Pool *pool_make(int device) {
    Pool *pool = calloc(1, sizeof *pool); /* never freed: a block may still name it */
    if (!pool)
        abort();
    pool->device = device;
    pool->access = 1u << device;
    pool->handle = handle_make(HANDLE_POOL, pool, NULL);
    return pool;
}

Pool *pool_default(int device) {
    if (!devices[device].default_pool)
        devices[device].default_pool = pool_make(device);
    return devices[device].default_pool;
}

Pool *pool_current(int device) {
    return devices[device].pool ? devices[device].pool : pool_default(device);
}

int pool_destroy(Pool *pool) {
    CHECK(pool != devices[pool->device].default_pool, CODE_INVALID_VALUE);
    if (devices[pool->device].pool == pool)
        devices[pool->device].pool = NULL; /* the default one is current again */
    handle_drop(HANDLE_POOL, pool->handle);
    return CODE_SUCCESS;
}

/* Record an allocation in a graph. */
static int capture_allocation(uint64_t *address, size_t size, Stream *stream) {
    Node *node;
    Op *op;
    Context *context = context_of_stream(stream);
    TRY(graph_allocation(BLOCK_DEVICE, context, context->device, size, 0, &op));
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

int pool_allocate(Pool *pool, uint64_t *address, size_t size, void *handle) {
    Stream *stream;
    Block *block;
    CHECK(address && size, CODE_INVALID_VALUE);
    TRY(stream_of(handle, &stream));
    if (capture_active(stream))
        return capture_allocation(address, size, stream);
    Context *context = (Context *)stream->group;
    if (!pool)
        pool = pool_current(context->device);
    CHECK(!pool->most || size <= pool->most - pool_used(pool), CODE_OUT_OF_MEMORY);
    TRY(arena_allocate(BLOCK_DEVICE, pool->device, size, device_memory(), context, &block));
    block->live = false;
    block->pool = pool;
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
    Block *block = arena_block(address, 1);
    CHECK(address, CODE_SUCCESS);
    TRY(stream_of(handle, &stream));
    if (capture_active(stream))
        return capture_free(address, stream);
    if (!block || block->start != address || block->kind != BLOCK_DEVICE || block->internal ||
        (block->of_graph && !block->claimed)) {
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
