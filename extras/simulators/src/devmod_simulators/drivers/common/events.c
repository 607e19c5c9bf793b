/* Events: places in the order of a stream, with the time at which the work before them was done. */
#include "driver.h"

#include <time.h>

typedef struct {
    Event *event;
    uint64_t generation;
} Record;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static int run_record(Op *op) {
    Record *record = (Record *)op->data;
    if (record->event->generation == record->generation)
        record->event->time = now();
    return 0;
}

static int run_node_record(Op *op) {
    ((EventUse *)op->data)->event->time = now();
    return 0;
}

static int run_nothing(Op *op) {
    return 0;
}

int event_of(void *handle, Event **event) {
    *event = handle_get(HANDLE_EVENT, handle);
    return *event ? CODE_SUCCESS : CODE_INVALID_HANDLE;
}

int event_create(void **handle, unsigned flags) {
    CHECK(handle, CODE_INVALID_VALUE);
    Event *event = zeroed(sizeof *event); /* never freed: an operation may still name it */
    event->context = current_context();
    event->flags = flags;
    event->time = -1;
    event->handle = handle_make(HANDLE_EVENT, event, event->context);
    *handle = event->handle;
    return CODE_SUCCESS;
}

int event_destroy(void *handle) {
    Event *event;
    TRY(event_of(handle, &event));
    handle_drop(HANDLE_EVENT, handle);
    event->generation++;
    return CODE_SUCCESS;
}

/* Let an event stand for the last operation of a stream, which a graph's launch is. */
void event_place(Event *event, Stream *stream) {
    event->generation++;
    event->stream = stream;
    event->number = stream->last;
    event->time = -1;
    event->graph = NULL;
}

/* Make the operation of a node that records an event, or waits for it. */
Op *event_op(NodeKind kind, Event *event) {
    bool records = kind == NODE_EVENT_RECORD;
    Op *op = op_make(records ? "event record" : "event wait",
                     records ? run_node_record : run_nothing, NULL, sizeof(EventUse));
    *(EventUse *)op->data = (EventUse){event};
    return op;
}

/* `external`: in a capture, the event is recorded by a node of the graph. */
int event_record(void *handle, void *stream_handle, bool external) {
    Node *node;
    Stream *stream;
    Event *event;
    TRY(event_of(handle, &event));
    TRY(stream_of(stream_handle, &stream));
    CHECK(&event->context->group == stream->group, CODE_INVALID_HANDLE);
    CHECK(!external || capture_active(stream), CODE_INVALID_VALUE);
    if (external)
        return capture_add_kind(stream, NODE_EVENT_RECORD, event_op(NODE_EVENT_RECORD, event),
                                &node);
    if (capture_active(stream))
        return capture_record(stream, event);
    Op *op = op_make("event record", run_record, NULL, sizeof(Record));
    *(Record *)op->data = (Record){event, event->generation + 1};
    TRY(submit(stream, op));
    event_place(event, stream);
    return CODE_SUCCESS;
}

int stream_wait_event(void *stream_handle, void *handle, bool external) {
    Node *node;
    Stream *stream;
    Event *event;
    TRY(event_of(handle, &event));
    TRY(stream_of(stream_handle, &stream));
    CHECK(!external || capture_active(stream), CODE_INVALID_VALUE);
    if (external)
        return capture_add_kind(stream, NODE_EVENT_WAIT, event_op(NODE_EVENT_WAIT, event), &node);
    if (event->graph || capture_active(stream))
        return capture_wait(stream, event);
    if (!event->stream)
        return CODE_SUCCESS;
    Op *op = op_make("event wait", run_nothing, NULL, 0);
    op_wait(op, event->stream, event->number);
    return submit(stream, op);
}

int event_synchronize(void *handle) {
    Event *event;
    TRY(event_of(handle, &event));
    CHECK(!event->graph, CODE_CAPTURED_EVENT);
    TRY(refuse_in_capture());
    if (event->stream)
        stream_run(event->stream, event->number);
    return context_failure(event->context);
}

int event_query(void *handle) {
    Event *event;
    TRY(event_of(handle, &event));
    CHECK(!event->graph, CODE_CAPTURED_EVENT);
    TRY(refuse_in_capture());
    bool done = !event->stream || event->stream->done >= event->number;
    if (!done)
        stream_step(event->stream);
    else if (event->stream)
        note_order(NOTE_KNOWN, event->stream, event->number, NULL);
    TRY(context_failure_left(event->context));
    return done ? CODE_SUCCESS : CODE_NOT_READY;
}

int event_elapsed(float *milliseconds, void *start_handle, void *end_handle) {
    Event *start, *end;
    CHECK(milliseconds, CODE_INVALID_VALUE);
    TRY(event_of(start_handle, &start));
    TRY(event_of(end_handle, &end));
    CHECK(!((start->flags | end->flags) & EVENT_NO_TIMING), CODE_INVALID_HANDLE);
    CHECK(start->stream && end->stream, CODE_INVALID_HANDLE);
    TRY(context_failure(start->context));
    CHECK(start->time >= 0 && end->time >= 0, CODE_NOT_READY);
    *milliseconds = (float)(end->time - start->time);
    return CODE_SUCCESS;
}
