/* Fills in one and two dimensions. They are asynchronous for device memory, in the legacy stream
 * too. */
#include "driver.h"

#include <string.h>

static int run_fill(Op *op) {
    Fill *fill = (Fill *)op->data;
    size_t row = fill->width * fill->element;
    unsigned char *to = memory_at(fill->address, (fill->height - 1) * fill->pitch + row);
    if (!to) {
        explain("a fill ran on memory that is not allocated: 0x%llx",
                (unsigned long long)fill->address);
        return CODE_ILLEGAL_ADDRESS;
    }
    note_access(fill->address, fill->pitch, row, fill->height, 0, 0);
    for (size_t y = 0; y < fill->height; y++)
        for (size_t x = 0; x < fill->width; x++)
            memcpy(to + y * fill->pitch + x * fill->element, &fill->value, fill->element);
    return 0;
}

static bool is_nothing(const Fill *fill) {
    return !fill->width || !fill->height;
}

int fill_op(const Fill *fill, Op **op) {
    size_t row = fill->width * fill->element;
    CHECK(!is_nothing(fill) && fill->address % fill->element == 0, CODE_INVALID_VALUE);
    CHECK(fill->height == 1 || (fill->pitch >= row && fill->pitch % fill->element == 0),
          CODE_INVALID_VALUE);
    TRY(check_range(fill->address, (fill->height - 1) * fill->pitch + row, "fill"));
    *op = op_make("fill", run_fill, NULL, sizeof *fill);
    *(Fill *)(*op)->data = *fill;
    return CODE_SUCCESS;
}

int submit_fill(Fill fill, void *handle, bool async) {
    Stream *stream;
    Op *op;
    TRY(stream_of(handle, &stream));
    CHECK(!is_nothing(&fill), CODE_SUCCESS);
    TRY(fill_op(&fill, &op));
    int code = async ? CODE_SUCCESS : refuse_in_capture();
    if (code) {
        op_free(op);
        return code;
    }
    Block *block = arena_block(fill.address, 1);
    return submit_and(stream, op, !async && (!block || block->kind != BLOCK_DEVICE));
}
