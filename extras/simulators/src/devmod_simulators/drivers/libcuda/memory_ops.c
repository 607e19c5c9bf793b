/* Stream memory operations: a stream writes a number to memory, or waits for one there. */
#include "cuda_standin.h"

#include <string.h>

typedef struct {
    uint64_t address, value;
    uint32_t width, flags;
} Number;

/* The latest writes: a wait for one comes after what its stream did before. */
enum { WRITES = 64 };
static struct {
    uint64_t address;
    const Stream *stream;
    uint64_t number;
} writes[WRITES];
static unsigned written;

static uint64_t read_number(const Number *number) {
    uint64_t value = 0;
    const unsigned char *place = memory_at(number->address, number->width);
    if (place)
        memcpy(&value, place, number->width);
    return value;
}

static int run_write(Op *op) {
    const Number *number = (const Number *)op->data;
    unsigned char *place = memory_at(number->address, number->width);
    CHECK(place, CODE_ILLEGAL_ADDRESS);
    memcpy(place, &number->value, number->width);
    writes[written].address = number->address;
    writes[written].stream = running_stream(&writes[written].number);
    written = (written + 1) % WRITES;
    return 0;
}

static bool is_reached(const Op *op) {
    const Number *number = (const Number *)op->data;
    uint64_t value = read_number(number), wanted = number->value;
    unsigned unused = 64 - 8 * number->width;
    switch (number->flags) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return value == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return (value & wanted) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return ~(value | wanted) << unused != 0;
    default: /* a difference of the width of the number */
        return (int64_t)((value - wanted) << unused) >= 0;
    }
}

static int run_wait(Op *op) {
    const Number *number = (const Number *)op->data;
    CHECK(memory_at(number->address, number->width), CODE_ILLEGAL_ADDRESS);
    for (int i = 0; i < WRITES; i++)
        if (writes[i].stream && writes[i].address == number->address)
            note_order(NOTE_WAITS, writes[i].stream, writes[i].number, op);
    uint64_t own;
    const Stream *stream = running_stream(&own);
    note_order(NOTE_REACHED, stream, own, op);
    return 0;
}

static CUresult check_number(const Number *number, bool waits) {
    CHECK(number->address % number->width == 0, CUDA_ERROR_INVALID_VALUE);
    CHECK(number->flags <=
              (waits ? CU_STREAM_WAIT_VALUE_NOR : CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER),
          number->flags & CU_STREAM_WAIT_VALUE_FLUSH ? CUDA_ERROR_NOT_SUPPORTED
                                                     : CUDA_ERROR_INVALID_VALUE);
    return check_range(number->address, number->width, "a stream memory operation");
}

static CUresult queue(CUstream handle, Number number, bool waits) {
    Stream *stream;
    TRY(stream_of(handle, &stream));
    TRY(check_number(&number, waits));
    CHECK(!capture_active(stream), CUDA_ERROR_NOT_SUPPORTED);
    Op *op = op_make(waits ? "wait for a number" : "write of a number",
                     waits ? run_wait : run_write, NULL, sizeof number);
    if (waits)
        op->is_ready = is_reached;
    *(Number *)op->data = number;
    return submit(stream, op);
}

FORWARD(cuStreamWriteValue32, CURRENT, queue(stream, (Number){addr, value, 4, flags}, false))
FORWARD(cuStreamWriteValue64, CURRENT, queue(stream, (Number){addr, value, 8, flags}, false))
FORWARD(cuStreamWaitValue32, CURRENT, queue(stream, (Number){addr, value, 4, flags}, true))
FORWARD(cuStreamWaitValue64, CURRENT, queue(stream, (Number){addr, value, 8, flags}, true))

/* Read one of several operations. A barrier orders them, as they are. */
static CUresult read_operation(const CUstreamBatchMemOpParams *params, Number *number,
                               bool *waits) {
    CUstreamBatchMemOpType kind = params->operation;
    *waits = kind == CU_STREAM_MEM_OP_WAIT_VALUE_32 || kind == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    bool is_wide =
        kind == CU_STREAM_MEM_OP_WAIT_VALUE_64 || kind == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    *number = (Number){0};
    CHECK(kind != CU_STREAM_MEM_OP_BARRIER, CUDA_SUCCESS);
    CHECK(*waits || is_wide || kind == CU_STREAM_MEM_OP_WRITE_VALUE_32, CUDA_ERROR_NOT_SUPPORTED);
    /* A wait and a write have one layout. */
    *number = (Number){params->waitValue.address,
                       is_wide ? params->waitValue.value64 : params->waitValue.value,
                       is_wide ? 8 : 4, params->waitValue.flags};
    return check_number(number, *waits);
}

API_IF(count <= 256 && paramArray && !flags, cuStreamBatchMemOp, CURRENT) {
    Number number;
    bool waits;
    for (unsigned i = 0; i < count; i++)
        TRY(read_operation(&paramArray[i], &number, &waits));
    for (unsigned i = 0; i < count; i++) {
        TRY(read_operation(&paramArray[i], &number, &waits));
        if (number.width)
            TRY(queue(stream, number, waits));
    }
    return CUDA_SUCCESS;
}
