/* Events: places in the order of a stream, with the time at which the work before them was done. */
#include "cuda_standin.h"

#include <stdlib.h>
#include <time.h>

typedef struct {
    Event *event;
    uint64_t generation;
} Record;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static int run_record(Op *op)
{
    Record *record = (Record *)op->data;
    if (record->event->generation == record->generation)
        record->event->time = now();
    return 0;
}

static int run_nothing(Op *op)
{
    (void)op;
    return 0;
}

static CUresult event_of(CUevent handle, Event **event)
{
    *event = handle_get(HANDLE_EVENT, handle);
    return *event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    ENTER(CURRENT);
    unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    CHECK(phEvent && !(Flags & ~known), CUDA_ERROR_INVALID_VALUE);
    CHECK(!(Flags & CU_EVENT_INTERPROCESS), CUDA_ERROR_NOT_SUPPORTED);
    Event *event = calloc(1, sizeof *event); /* never freed: an operation may still name it */
    if (!event)
        abort();
    event->context = current_context();
    event->flags = Flags;
    event->time = -1;
    event->handle = handle_make(HANDLE_EVENT, event, event->context);
    *phEvent = event->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent hEvent)
{
    ENTER(READY);
    Event *event;
    TRY(event_of(hEvent, &event));
    handle_drop(HANDLE_EVENT, hEvent);
    event->generation++;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream)
{
    ENTER(CURRENT);
    Stream *stream;
    Event *event;
    TRY(event_of(hEvent, &event));
    TRY(stream_of(hStream, &stream));
    CHECK(&event->context->group == stream->group, CUDA_ERROR_INVALID_HANDLE);
    if (capture_active(stream))
        return capture_record(stream, event);
    Op *op = op_make("event record", run_record, NULL, sizeof(Record));
    *(Record *)op->data = (Record){event, event->generation + 1};
    TRY(submit(stream, op));
    event->generation++;
    event->stream = stream;
    event->number = stream->last;
    event->time = -1;
    event->graph = NULL;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    CHECK(!(flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    return cuEventRecord(hEvent, hStream);
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    ENTER(CURRENT);
    Stream *stream;
    Event *event;
    CHECK(!(Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    TRY(event_of(hEvent, &event));
    TRY(stream_of(hStream, &stream));
    if (event->graph || capture_active(stream))
        return capture_wait(stream, event);
    if (!event->stream)
        return CUDA_SUCCESS;
    Op *op = op_make("event wait", run_nothing, NULL, 0);
    op_wait(op, event->stream, event->number);
    return submit(stream, op);
}

CUresult CUDAAPI cuEventSynchronize(CUevent hEvent)
{
    ENTER(READY);
    Event *event;
    TRY(event_of(hEvent, &event));
    CHECK(!event->graph, CUDA_ERROR_CAPTURED_EVENT);
    if (event->stream)
        stream_run(event->stream, event->number);
    return context_failure(event->context);
}

CUresult CUDAAPI cuEventQuery(CUevent hEvent)
{
    ENTER(READY);
    Event *event;
    TRY(event_of(hEvent, &event));
    CHECK(!event->graph, CUDA_ERROR_CAPTURED_EVENT);
    bool done = !event->stream || event->stream->done >= event->number;
    if (!done)
        stream_step(event->stream);
    TRY(context_failure(event->context));
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    ENTER(READY);
    Event *start, *end;
    CHECK(pMilliseconds, CUDA_ERROR_INVALID_VALUE);
    TRY(event_of(hStart, &start));
    TRY(event_of(hEnd, &end));
    CHECK(!((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_HANDLE);
    CHECK(start->stream && end->stream, CUDA_ERROR_INVALID_HANDLE);
    TRY(context_failure(start->context));
    CHECK(start->time >= 0 && end->time >= 0, CUDA_ERROR_NOT_READY);
    *pMilliseconds = (float)(end->time - start->time);
    return CUDA_SUCCESS;
}

/* The form of drivers older than CUDA 12.8. */
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd);
CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}
