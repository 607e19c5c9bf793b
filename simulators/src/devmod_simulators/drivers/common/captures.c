/* Stream capture: work of a stream becomes the nodes of a graph. While one captures, other calls
 * are refused. */
#include "driver.h"

#include <stdlib.h>

typedef struct {
    Body *body;
    Stream *origin;
    bool invalid, ended;
    CaptureMode mode;
    pthread_t thread; /* that began it */
} Capture;

/* The capture of one stream: the nodes that its next one waits for. */
typedef struct {
    Capture *capture;
    int *front;
    int front_count;
} Front;

static __thread CaptureMode thread_mode = CAPTURE_GLOBAL;

static void add_number(int **numbers, int *count, int number) {
    for (int i = 0; i < *count; i++)
        if ((*numbers)[i] == number)
            return;
    *numbers = realloc(*numbers, (size_t)(*count + 1) * sizeof **numbers);
    if (!*numbers)
        abort();
    (*numbers)[(*count)++] = number;
}

bool capture_active(const Stream *stream) {
    return stream->capture != NULL;
}

/* Return whether the capture of a stream forbids calls that it cannot record to this thread. */
static bool capture_forbids(const Stream *stream) {
    const Capture *capture = ((const Front *)stream->capture)->capture;
    bool own = pthread_equal(capture->thread, pthread_self());
    if (thread_mode == CAPTURE_RELAXED)
        return false;
    if (own)
        return capture->mode != CAPTURE_RELAXED;
    return thread_mode == CAPTURE_GLOBAL && capture->mode == CAPTURE_GLOBAL;
}

void capture_invalidate(Stream *stream) {
    explain("%s ends the capture of a stream", current_call());
    ((Front *)stream->capture)->capture->invalid = true;
}

void body_release(Body *body) {
    if (--body->references)
        return;
    for (int i = 0; i < body->count; i++) {
        op_free(body->nodes[i].op);
        free(body->nodes[i].after);
        handle_drop(HANDLE_GRAPH_NODE, body->nodes[i].handle);
    }
    free(body->nodes);
    free(body);
}

int capture_add(Stream *stream, Op *op) {
    Front *side = stream->capture;
    if (side->capture->invalid) {
        op_free(op);
        return CODE_STREAM_CAPTURE_INVALIDATED;
    }
    Body *body = side->capture->body;
    body->nodes = realloc(body->nodes, (size_t)(body->count + 1) * sizeof *body->nodes);
    if (!body->nodes)
        abort();
    Node *node = &body->nodes[body->count];
    *node = (Node){op, handle_make(HANDLE_GRAPH_NODE, op, body), side->front, side->front_count};
    side->front = NULL;
    side->front_count = 0;
    add_number(&side->front, &side->front_count, body->count++);
    return CODE_SUCCESS;
}

int capture_record(Stream *stream, Event *event) {
    Front *side = stream->capture;
    CHECK(!side->capture->invalid, CODE_STREAM_CAPTURE_INVALIDATED);
    free(event->nodes);
    event->nodes = NULL;
    event->node_count = 0;
    for (int i = 0; i < side->front_count; i++)
        add_number(&event->nodes, &event->node_count, side->front[i]);
    event->graph = side->capture;
    event->generation++;
    return CODE_SUCCESS;
}

int capture_wait(Stream *stream, Event *event) {
    Front *side = stream->capture;
    Capture *capture = event->graph;
    if (!capture) {
        capture_invalidate(stream);
        return CODE_STREAM_CAPTURE_ISOLATION;
    }
    CHECK(!capture->ended, CODE_CAPTURED_EVENT);
    CHECK(!capture->invalid, CODE_STREAM_CAPTURE_INVALIDATED);
    if (side && side->capture != capture) {
        capture_invalidate(stream);
        capture->invalid = true;
        return CODE_STREAM_CAPTURE_MERGE;
    }
    if (!side) {
        CHECK(stream != stream->group->barrier, CODE_STREAM_CAPTURE_IMPLICIT);
        stream->capture = side = calloc(1, sizeof *side);
        if (!side)
            abort();
        side->capture = capture;
    }
    for (int i = 0; i < event->node_count; i++)
        add_number(&side->front, &side->front_count, event->nodes[i]);
    return CODE_SUCCESS;
}

int capture_exchange_mode(int *mode) {
    CHECK(mode && *mode >= CAPTURE_GLOBAL && *mode <= CAPTURE_RELAXED, CODE_INVALID_VALUE);
    CaptureMode before = thread_mode;
    thread_mode = (CaptureMode)*mode;
    *mode = (int)before;
    return CODE_SUCCESS;
}

int capture_begin(void *handle, CaptureMode mode) {
    Stream *stream;
    CHECK(mode <= CAPTURE_RELAXED, CODE_INVALID_VALUE);
    TRY(stream_of(handle, &stream));
    CHECK(stream != stream->group->barrier, CODE_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(!stream->capture, CODE_ILLEGAL_STATE);
    Front *side = calloc(1, sizeof *side);
    Capture *capture = calloc(1, sizeof *capture); /* never freed: an event may still name it */
    Body *body = calloc(1, sizeof *body);
    if (!side || !capture || !body)
        abort();
    *body = (Body){.references = 1, .context = current_context()};
    *capture = (Capture){.body = body, .origin = stream, .mode = mode, .thread = pthread_self()};
    side->capture = capture;
    stream->capture = side;
    return CODE_SUCCESS;
}

/* Return whether each node that no other waits for is in the origin's front: all streams have come
 * back to it. */
static bool joined(const Body *body, const Front *origin) {
    for (int i = 0; i < body->count; i++) {
        bool awaited = false;
        for (int j = 0; j < body->count && !awaited; j++)
            for (int k = 0; k < body->nodes[j].after_count; k++)
                awaited = awaited || body->nodes[j].after[k] == i;
        for (int j = 0; j < origin->front_count && !awaited; j++)
            awaited = origin->front[j] == i;
        if (!awaited)
            return false;
    }
    return true;
}

int capture_end(void *handle, void **result) {
    Stream *stream;
    CHECK(result, CODE_INVALID_VALUE);
    *result = NULL;
    TRY(stream_of(handle, &stream));
    Front *side = stream->capture;
    CHECK(side, CODE_ILLEGAL_STATE);
    Capture *capture = side->capture;
    CHECK(capture->origin == stream, CODE_STREAM_CAPTURE_UNMATCHED);
    CHECK(capture->mode == CAPTURE_RELAXED || pthread_equal(capture->thread, pthread_self()),
          CODE_STREAM_CAPTURE_WRONG_THREAD);
    int code = capture->invalid ? CODE_STREAM_CAPTURE_INVALIDATED : CODE_SUCCESS;
    if (!code && !joined(capture->body, side))
        code = CODE_STREAM_CAPTURE_UNJOINED;
    capture->ended = true;
    for (Stream *other = stream->group->streams; other; other = other->next) {
        Front *own = other->capture;
        if (!own || own->capture != capture)
            continue;
        other->capture = NULL;
        free(own->front);
        free(own);
    }
    if (code) {
        body_release(capture->body);
        return code;
    }
    Graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        abort();
    graph->body = capture->body;
    graph->handle = handle_make(HANDLE_GRAPH, graph, NULL);
    *result = graph->handle;
    return CODE_SUCCESS;
}

int capture_status(void *handle, CaptureStatus *status) {
    Stream *stream;
    CHECK(status, CODE_INVALID_VALUE);
    TRY(stream_of(handle, &stream));
    CHECK(!legacy_is_captured(stream), CODE_STREAM_CAPTURE_IMPLICIT); /* the capture stays valid */
    Front *side = stream->capture;
    *status = !side ? CAPTURE_NONE : side->capture->invalid ? CAPTURE_INVALIDATED : CAPTURE_ACTIVE;
    return CODE_SUCCESS;
}

/* ---- what a capture refuses
 * ------------------------------------------------------------------------------------------------
 */

/* Return the next stream of the current context that captures, behind `stream` (NULL: the first),
 * or NULL. */
static Stream *next_capturing(Stream *stream) {
    Context *context = current_context();
    stream = stream ? stream->next : context ? context->group.streams : NULL;
    while (stream && !capture_active(stream))
        stream = stream->next;
    return stream;
}

int refuse_in_capture(void) {
    for (Stream *stream = next_capturing(NULL); stream; stream = next_capturing(stream)) {
        if (!capture_forbids(stream))
            continue;
        capture_invalidate(stream);
        return CODE_STREAM_CAPTURE_UNSUPPORTED;
    }
    return CODE_SUCCESS;
}

int refuse_context_wait(void) {
    Stream *stream = next_capturing(NULL);
    if (!stream)
        return CODE_SUCCESS;
    capture_invalidate(stream);
    return CODE_STREAM_CAPTURE_UNSUPPORTED;
}

/* Return a stream that captures and that the legacy stream would wait for, or NULL. */
static Stream *blocking_capture(void) {
    Stream *stream = next_capturing(NULL);
    while (stream && !stream->blocking)
        stream = next_capturing(stream);
    return stream;
}

bool legacy_is_captured(const Stream *stream) {
    return stream == stream->group->barrier && blocking_capture();
}

int refuse_legacy(Stream *stream) {
    if (!legacy_is_captured(stream))
        return CODE_SUCCESS;
    capture_invalidate(blocking_capture());
    return CODE_STREAM_CAPTURE_IMPLICIT;
}
