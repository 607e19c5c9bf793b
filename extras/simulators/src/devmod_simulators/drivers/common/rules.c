/* Streams: the rules over the queues of streams.c.
 *
 * A query makes progress: it runs one operation of the stream, and answers "not ready" if there was
 * one. So a loop of queries ends, and a single query does not hide a missing wait.
 */
#include "driver.h"

enum { NON_BLOCKING = 1, HIGHEST_PRIORITY = -5 };

/* Queue an operation, or record it in the graph that the stream captures. */
int submit(Stream *stream, Op *op) {
    if (capture_active(stream))
        return capture_add(stream, op);
    int code = refuse_legacy(stream);
    if (code) {
        op_free(op);
        return code;
    }
    stream_add(stream, op);
    return CODE_SUCCESS;
}

/* Queue an operation; run the stream up to it if `wait`, which a capture does not permit. */
int submit_and(Stream *stream, Op *op, bool wait) {
    if (wait && capture_active(stream)) {
        capture_invalidate(stream);
        op_free(op);
        return CODE_STREAM_CAPTURE_UNSUPPORTED;
    }
    TRY(submit(stream, op));
    if (!wait)
        return CODE_SUCCESS;
    stream_run(stream, stream->last);
    return context_failure(context_of_stream(stream));
}

/* Make a stream of the current context; flag 1: the legacy stream and it do not wait for each
 * other. Priorities: -5 to 0. */
int stream_create(void **handle, unsigned flags, int priority) {
    CHECK(handle && flags <= NON_BLOCKING, CODE_INVALID_VALUE);
    Context *context = current_context();
    Stream *stream = stream_make(&context->group, !(flags & NON_BLOCKING));
    stream->flags = flags;
    stream->priority = priority > 0 ? 0 : priority < HIGHEST_PRIORITY ? HIGHEST_PRIORITY : priority;
    stream->handle = handle_make(HANDLE_STREAM, stream, context);
    *handle = stream->handle;
    return CODE_SUCCESS;
}

int stream_destroy(void *handle) {
    Stream *stream = handle_get(HANDLE_STREAM, handle);
    CHECK(stream, CODE_INVALID_HANDLE);
    if (capture_active(stream))
        capture_leave(stream);
    handle_drop(HANDLE_STREAM, handle);
    stream_retire(stream); /* its work goes on */
    return CODE_SUCCESS;
}

/* Set *stream to that of a handle, if no capture forbids to wait for it or to ask it. */
static int waitable(void *handle, Stream **stream) {
    TRY(stream_of(handle, stream));
    if (capture_active(*stream)) {
        capture_invalidate(*stream);
        return CODE_STREAM_CAPTURE_UNSUPPORTED;
    }
    TRY(refuse_in_capture());
    return refuse_legacy(*stream);
}

int stream_synchronize(void *handle) {
    Stream *stream;
    TRY(waitable(handle, &stream));
    /* The legacy stream waits for the blocking ones, with an operation that does nothing. */
    bool waits = stream == stream->group->barrier;
    for (Stream *other = stream->group->streams; waits && other; other = other->next)
        if (other->blocking && other != stream)
            stream_run(other, other->last);
    stream_run(stream, stream->last);
    return context_failure(context_of_stream(stream));
}

int stream_query(void *handle) {
    Stream *stream;
    TRY(waitable(handle, &stream));
    bool done = stream_step(stream);
    TRY(context_failure_left(context_of_stream(stream)));
    return done ? CODE_SUCCESS : CODE_NOT_READY;
}

int context_synchronize(void) {
    TRY(refuse_context_wait());
    return context_run(current_context());
}

/* ---- functions of the host in a stream */

static int run_host_call(Op *op) {
    HostCall *call = (HostCall *)op->data;
    call_unlocked(call->function, call->data);
    return 0;
}

Op *host_call_op(void (*function)(void *), void *data) {
    Op *op = op_make("host function", run_host_call, NULL, sizeof(HostCall));
    *(HostCall *)op->data = (HostCall){function, data};
    return op;
}

/* Queue a call of a function of the user. */
int stream_call(void *handle, void (*function)(void *), void *data) {
    Stream *stream;
    CHECK(function, CODE_INVALID_VALUE);
    TRY(stream_of(handle, &stream));
    return submit(stream, host_call_op(function, data));
}
