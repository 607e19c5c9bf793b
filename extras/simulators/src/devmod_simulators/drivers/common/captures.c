/* Stream capture: work of a stream becomes the nodes of a graph. While one captures, other calls
 * are refused. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Graph *graph;
    bool own_graph; /* it began with the capture */
    uint64_t number;
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
    void **handles; /* of these nodes, for the program, and behind them the data of their edges */
} Front;

static __thread CaptureMode thread_mode = CAPTURE_GLOBAL;

static void add_number(int **numbers, int *count, int number) {
    for (int i = 0; i < *count; i++)
        if ((*numbers)[i] == number)
            return;
    *numbers = with_room(*numbers, (size_t)*count, sizeof **numbers);
    (*numbers)[(*count)++] = number;
}

bool capture_active(const Stream *stream) {
    return stream->capture != NULL;
}

/* Return the graph that a stream captures into. */
Graph *capture_graph(const Stream *stream) {
    return ((const Front *)stream->capture)->capture->graph;
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

static void drop_front(Stream *stream) {
    Front *side = stream->capture;
    stream->capture = NULL;
    free(side->front);
    free(side->handles);
    free(side);
}

/* Take a stream that is destroyed out of its capture, which ends if it began there. */
void capture_leave(Stream *stream) {
    if (((Front *)stream->capture)->capture->origin == stream)
        capture_invalidate(stream);
    else
        drop_front(stream); /* the end notices whether its work is joined */
}

void capture_invalidate(Stream *stream) {
    explain("%s ends the capture of a stream", current_call());
    ((Front *)stream->capture)->capture->invalid = true;
}

static NodeKind kind_of(const Op *op) {
    if (strcmp(op->what, "copy") == 0)
        return NODE_COPY;
    if (strcmp(op->what, "fill") == 0)
        return NODE_FILL;
    if (strcmp(op->what, "host function") == 0)
        return NODE_HOST;
    return NODE_KERNEL;
}

/* The same for a kind that its operation does not show. */
int capture_add_kind(Stream *stream, NodeKind kind, Op *op, Node **node) {
    Front *side = stream->capture;
    if (side->capture->invalid) {
        if (op)
            op_free(op);
        return CODE_STREAM_CAPTURE_INVALIDATED;
    }
    Graph *graph = side->capture->graph;
    *node = graph_append(graph, kind, op, side->front, side->front_count);
    (*node)->context = context_of_stream(stream);
    if (!graph->context)
        graph->context = (*node)->context;
    side->front_count = 0;
    add_number(&side->front, &side->front_count, (*node)->number);
    return CODE_SUCCESS;
}

/* Add a node for an operation of a stream. */
int capture_add(Stream *stream, Op *op) {
    Node *node;
    return capture_add_kind(stream, kind_of(op), op, &node);
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
        stream->capture = side = zeroed(sizeof *side);
        side->capture = capture;
    }
    for (int i = 0; i < event->node_count; i++)
        add_number(&side->front, &side->front_count, event->nodes[i]);
    return CODE_SUCCESS;
}

/* Set the mode of this thread, and *mode to the one before. */
int capture_exchange_mode(int *mode) {
    CHECK(mode && *mode >= CAPTURE_GLOBAL && *mode <= CAPTURE_RELAXED, CODE_INVALID_VALUE);
    CaptureMode before = thread_mode;
    thread_mode = (CaptureMode)*mode;
    *mode = (int)before;
    return CODE_SUCCESS;
}

static uint64_t captures;

/* Replace the nodes that the next one of a stream waits for. */
static int set_front(Front *side, void *const *nodes, size_t count, bool adds) {
    TRY(graph_check_nodes(side->capture->graph, nodes, count));
    if (!adds)
        side->front_count = 0;
    for (size_t i = 0; i < count; i++)
        add_number(&side->front, &side->front_count, node_of(nodes[i])->number);
    return CODE_SUCCESS;
}

/* Begin a capture, into a graph of its own for NULL; the first node waits for `nodes`. */
int capture_begin(void *handle, CaptureMode mode, void *graph_handle, void *const *nodes,
                  size_t count) {
    Stream *stream;
    CHECK(mode <= CAPTURE_RELAXED, CODE_INVALID_VALUE);
    TRY(stream_of(handle, &stream));
    CHECK(stream != stream->group->barrier, CODE_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(!stream->capture, CODE_ILLEGAL_STATE);
    bool own_graph = !graph_handle;
    if (own_graph)
        TRY(graph_create(&graph_handle));
    Graph *graph = graph_of(graph_handle);
    CHECK(graph && !graph->captures, CODE_INVALID_VALUE);
    Front *side = zeroed(sizeof *side);
    side->capture = zeroed(sizeof *side->capture); /* never freed: an event may still name it */
    *side->capture = (Capture){.graph = graph,
                               .own_graph = own_graph,
                               .number = ++captures,
                               .origin = stream,
                               .mode = mode,
                               .thread = pthread_self()};
    int code = set_front(side, nodes, count, false);
    if (code) {
        free(side);
        return code;
    }
    stream->capture = side;
    graph->captures = true;
    return CODE_SUCCESS;
}

/* Replace the nodes that the next one of a stream waits for, or add to them. */
int capture_set_front(void *handle, void *const *nodes, size_t count, bool adds) {
    Stream *stream;
    TRY(stream_of(handle, &stream));
    Front *side = stream->capture;
    CHECK(side, CODE_ILLEGAL_STATE);
    CHECK(!side->capture->invalid, CODE_STREAM_CAPTURE_INVALIDATED);
    return set_front(side, nodes, count, adds);
}

/* Return whether each node that no other waits for is in the origin's front: all streams have come
 * back to it. */
static bool joined(const Graph *graph, const Front *origin) {
    for (int i = 0; i < graph->count; i++) {
        int number = graph->nodes[i]->number;
        bool awaited = false;
        for (int j = 0; j < graph->count && !awaited; j++)
            awaited = node_awaits(graph->nodes[j], number);
        for (int j = 0; j < origin->front_count && !awaited; j++)
            awaited = origin->front[j] == number;
        if (!awaited)
            return false;
    }
    return true;
}

int capture_end(void *handle, void **result) {
    Stream *stream;
    if (result)
        *result = NULL;
    TRY(stream_of(handle, &stream));
    Front *side = stream->capture;
    /* A caller that captures into a graph of its own needs no result. */
    CHECK(result || (side && !side->capture->own_graph), CODE_INVALID_VALUE);
    CHECK(side, CODE_ILLEGAL_STATE);
    Capture *capture = side->capture;
    CHECK(capture->origin == stream, CODE_STREAM_CAPTURE_UNMATCHED);
    CHECK(capture->mode == CAPTURE_RELAXED || pthread_equal(capture->thread, pthread_self()),
          CODE_STREAM_CAPTURE_WRONG_THREAD);
    int code = capture->invalid ? CODE_STREAM_CAPTURE_INVALIDATED : CODE_SUCCESS;
    if (!code && capture->own_graph && !joined(capture->graph, side))
        code = CODE_STREAM_CAPTURE_UNJOINED;
    capture->ended = true;
    for (Stream *other = stream->group->streams; other; other = other->next) {
        Front *own = other->capture;
        if (own && own->capture == capture)
            drop_front(other);
    }
    capture->graph->captures = false;
    if (code && capture->own_graph)
        graph_release(capture->graph);
    if (!code && result)
        *result = capture->graph->handle;
    return code;
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

int capture_info(void *handle, CaptureInfo *info) {
    Stream *stream;
    TRY(capture_status(handle, &info->status));
    if (info->status != CAPTURE_ACTIVE)
        return CODE_SUCCESS;
    TRY(stream_of(handle, &stream));
    Front *side = stream->capture;
    const Graph *graph = side->capture->graph;
    info->number = side->capture->number;
    info->graph = graph->handle;
    info->count = (size_t)side->front_count;
    free(side->handles);
    side->handles = zeroed(info->count * (sizeof *side->handles + sizeof *info->data));
    for (int i = 0; i < side->front_count; i++) {
        int index = graph_index(graph, side->front[i]);
        if (index >= 0)
            side->handles[i] = graph->nodes[index]->handle;
    }
    info->nodes = side->handles;
    info->data = (EdgeData *)(side->handles + info->count); /* each is waited for as a whole */
    return CODE_SUCCESS;
}

/* ---- what a capture refuses */

/* Return the next stream of the current context that captures, behind `stream` (NULL: the first),
 * or NULL. */
static Stream *next_capturing(Stream *stream) {
    Context *context = current_context();
    stream = stream ? stream->next : context ? context->group.streams : NULL;
    while (stream && !capture_active(stream))
        stream = stream->next;
    return stream;
}

/* Refuse what a capture cannot record, such as an allocation, as the modes of the captures and of
 * this thread have it. */
int refuse_in_capture(void) {
    for (Stream *stream = next_capturing(NULL); stream; stream = next_capturing(stream)) {
        if (!capture_forbids(stream))
            continue;
        capture_invalidate(stream);
        return CODE_STREAM_CAPTURE_UNSUPPORTED;
    }
    return CODE_SUCCESS;
}

/* Refuse to wait for the whole context while one of its streams captures. */
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

/* Return whether a stream is the legacy one, and one that it waits for captures. */
bool legacy_is_captured(const Stream *stream) {
    return stream == stream->group->barrier && blocking_capture();
}

/* Refuse a use of the legacy stream while a stream captures that it would wait for. */
int refuse_legacy(Stream *stream) {
    if (!legacy_is_captured(stream))
        return CODE_SUCCESS;
    capture_invalidate(blocking_capture());
    return CODE_STREAM_CAPTURE_IMPLICIT;
}
