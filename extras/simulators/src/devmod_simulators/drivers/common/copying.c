/* Copies.
 *
 * Pinned host memory is read and written when the copy runs. So is pageable memory by an
 * asynchronous copy, unless the vendor stages it: then it is read when the function is called, and
 * a copy to it is done when the function returns. A copy from pageable memory, one between devices
 * and a fill are not: a stream that does not wait for them reads old data.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

static size_t extent(const Side *side, const Copy *copy) {
    return (copy->depth - 1) * side->slice + (copy->height - 1) * side->pitch + copy->width;
}

/* Return the memory behind an address, or NULL if its allocation is gone. */
unsigned char *memory_at(uint64_t address, size_t size) {
    if (!arena_contains(address))
        return (unsigned char *)(uintptr_t)address;
    Block *block = arena_block(address, size);
    if (!block || !block->live)
        return NULL;
    return block->mirror ? block->mirror + (address - block->start) : arena_view(address);
}

static void copy_rows(const Copy *copy, unsigned char *to, size_t to_pitch, size_t to_slice,
                      const unsigned char *from, size_t from_pitch, size_t from_slice) {
    for (size_t z = 0; z < copy->depth; z++)
        for (size_t y = 0; y < copy->height; y++)
            memmove(to + z * to_slice + y * to_pitch, from + z * from_slice + y * from_pitch,
                    copy->width);
}

static int run_copy(Op *op) {
    Copy *copy = (Copy *)op->data;
    unsigned char *to = memory_at(copy->to.address, extent(&copy->to, copy));
    const unsigned char *from =
        copy->staged ? copy->staged : memory_at(copy->from.address, extent(&copy->from, copy));
    if (!to || !from) {
        explain("a copy ran on memory that is not allocated: from 0x%llx to 0x%llx",
                (unsigned long long)copy->from.address, (unsigned long long)copy->to.address);
        return CODE_ILLEGAL_ADDRESS;
    }
    for (size_t z = 0; z < copy->depth; z++)
        note_access(copy->to.address + z * copy->to.slice, copy->to.pitch, copy->width,
                    copy->height, copy->staged ? 0 : copy->from.address + z * copy->from.slice,
                    copy->from.pitch);
    if (copy->staged)
        copy_rows(copy, to, copy->to.pitch, copy->to.slice, from, copy->width,
                  copy->width * copy->height);
    else
        copy_rows(copy, to, copy->to.pitch, copy->to.slice, from, copy->from.pitch,
                  copy->from.slice);
    return 0;
}

static void drop_copy(Op *op) {
    free(((Copy *)op->data)->staged);
}

/* What the address of a side is. */
typedef enum { SIDE_DEVICE, SIDE_PINNED, SIDE_PAGEABLE } Where;

static int locate(const Side *side, const Copy *copy, bool must_be_device, Where *result) {
    size_t size = extent(side, copy);
    Block *block = arena_block(side->address, size);
    CHECK(side->address, CODE_INVALID_VALUE);
    if (block) {
        *result = block->kind == BLOCK_HOST ? SIDE_PINNED : SIDE_DEVICE;
        return CODE_SUCCESS;
    }
    if (is_registered(side->address, size)) {
        *result = SIDE_PINNED;
        return CODE_SUCCESS;
    }
    if (must_be_device || arena_contains(side->address))
        return check_range(side->address, size, "copy");
    *result = SIDE_PAGEABLE;
    return CODE_SUCCESS;
}

/* Make the operation of a graph's node, with `extra` bytes for the vendor. It reads and writes when
 * it runs. */
int copy_op(const Copy *copy, int kinds, size_t extra, Op **op) {
    Where side;
    CHECK(copy->width && copy->height && copy->depth, CODE_INVALID_VALUE);
    TRY(locate(&copy->to, copy, kinds & TO_DEVICE, &side));
    TRY(locate(&copy->from, copy, kinds & FROM_DEVICE, &side));
    *op = op_make("copy", run_copy, drop_copy, sizeof *copy + extra);
    *(Copy *)(*op)->data = *copy;
    return CODE_SUCCESS;
}

int submit_copy(Copy copy, void *handle, bool async, int kinds) {
    Where to, from;
    Stream *stream;
    TRY(stream_of(handle, &stream));
    if (!copy.width || !copy.height || !copy.depth)
        return CODE_SUCCESS;
    TRY(locate(&copy.to, &copy, kinds & TO_DEVICE, &to));
    TRY(locate(&copy.from, &copy, kinds & FROM_DEVICE, &from));
    if (!async)
        TRY(refuse_in_capture());
    bool staged = !async || vendor.stages_pageable || setting_number("stages_pageable", 1);
    if (from == SIDE_PAGEABLE && staged && !capture_active(stream)) {
        copy.staged = malloc(copy.width * copy.height * copy.depth);
        CHECK(copy.staged, CODE_OUT_OF_MEMORY);
        copy_rows(&copy, copy.staged, copy.width, copy.width * copy.height,
                  (const unsigned char *)(uintptr_t)copy.from.address, copy.from.pitch,
                  copy.from.slice);
    }
    Op *op = op_make("copy", run_copy, drop_copy, sizeof copy);
    *(Copy *)op->data = copy;
    bool wait =
        (to == SIDE_PAGEABLE && staged) || (!async && (to == SIDE_PINNED || from == SIDE_PINNED));
    if (capture_active(stream)) /* a graph copies at its launch */
        return submit(stream, op);
    return submit_and(stream, op, wait);
}

/* Copy bytes in one piece. */
int copy_linear(uint64_t to, uint64_t from, size_t size, void *stream, bool async, int kinds) {
    Copy copy = {{to, size, size}, {from, size, size}, size, 1, 1, NULL};
    return submit_copy(copy, stream, async, kinds);
}
