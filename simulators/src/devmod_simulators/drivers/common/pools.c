/* Stream-ordered allocations and the default pool of each device. */
#include "driver.h"

static int run_allocate(Op *op) {
    Block *block = arena_block(op->data[0], 1);
    if (block)
        block->live = true;
    return 0;
}

static int run_free(Op *op) {
    note_freed(op->data[0], (const char *)(uintptr_t)op->data[1]);
    arena_free(op->data[0]);
    return 0;
}

int pool_allocate(uint64_t *address, size_t size, void *handle) {
    Stream *stream;
    Block *block;
    CHECK(address && size, CODE_INVALID_VALUE);
    TRY(stream_of(handle, &stream));
    CHECK(!capture_active(stream), CODE_NOT_SUPPORTED);
    Context *context = (Context *)stream->group;
    TRY(arena_allocate(BLOCK_DEVICE, context->device, size, device_memory(), context, &block));
    block->live = false;
    block->from_pool = true;
    note_allocated(block);
    *address = block->start;
    Op *op = op_make("allocation", run_allocate, NULL, sizeof(uint64_t));
    op->data[0] = block->start;
    return submit(stream, op);
}

int pool_free(uint64_t address, void *handle) {
    Stream *stream;
    Block *block = arena_block(address, 1);
    CHECK(address, CODE_SUCCESS);
    TRY(stream_of(handle, &stream));
    if (!block || block->start != address || block->kind != BLOCK_DEVICE || block->internal) {
        violation("0x%llx is freed and is not the start of a device allocation",
                  (unsigned long long)address);
        return CODE_INVALID_VALUE;
    }
    Op *op = op_make("free", run_free, NULL, 2 * sizeof(uint64_t));
    op->data[0] = address;
    op->data[1] = (uintptr_t)note_freeing(block);
    return submit(stream, op);
}

/* One pool for each device: the default one. */
int pool_of(int device, void **pool) {
    CHECK(pool, CODE_INVALID_VALUE);
    CHECK(device_valid(device), CODE_INVALID_DEVICE);
    if (!devices[device].pool)
        devices[device].pool = handle_make(HANDLE_POOL, &devices[device], NULL);
    *pool = devices[device].pool;
    return CODE_SUCCESS;
}
