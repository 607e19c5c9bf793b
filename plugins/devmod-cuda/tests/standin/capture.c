/* Stream capture: work of a stream becomes the nodes of a graph. */
#include "cuda_standin.h"

#include <stdlib.h>

typedef struct {
    Body *body;
    Stream *origin;
    bool invalid, ended;
    CUstreamCaptureMode mode;
    pthread_t thread; /* that began it */
} Capture;

/* The capture of one stream: the nodes that its next one waits for. */
typedef struct {
    Capture *capture;
    int *front;
    int front_count;
} Side;

static void add_number(int **numbers, int *count, int number)
{
    for (int i = 0; i < *count; i++)
        if ((*numbers)[i] == number)
            return;
    *numbers = realloc(*numbers, (size_t)(*count + 1) * sizeof **numbers);
    if (!*numbers)
        abort();
    (*numbers)[(*count)++] = number;
}

bool capture_active(const Stream *stream)
{
    return stream->capture != NULL;
}

bool capture_forbids(const Stream *stream, CUstreamCaptureMode thread_mode)
{
    const Capture *capture = ((const Side *)stream->capture)->capture;
    bool own = pthread_equal(capture->thread, pthread_self());
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (own)
        return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

void capture_invalidate(Stream *stream)
{
    explain("%s ends the capture of a stream", current_call());
    ((Side *)stream->capture)->capture->invalid = true;
}

CUresult capture_add(Stream *stream, Op *op)
{
    Side *side = stream->capture;
    if (side->capture->invalid) {
        op_free(op);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
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
    return CUDA_SUCCESS;
}

CUresult capture_record(Stream *stream, Event *event)
{
    Side *side = stream->capture;
    CHECK(!side->capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    free(event->nodes);
    event->nodes = NULL;
    event->node_count = 0;
    for (int i = 0; i < side->front_count; i++)
        add_number(&event->nodes, &event->node_count, side->front[i]);
    event->graph = side->capture;
    event->generation++;
    return CUDA_SUCCESS;
}

CUresult capture_wait(Stream *stream, Event *event)
{
    Side *side = stream->capture;
    Capture *capture = event->graph;
    if (!capture) {
        capture_invalidate(stream);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    CHECK(!capture->ended, CUDA_ERROR_CAPTURED_EVENT);
    CHECK(!capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    if (side && side->capture != capture) {
        capture_invalidate(stream);
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!side) {
        CHECK(stream != stream->group->barrier, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        stream->capture = side = calloc(1, sizeof *side);
        if (!side)
            abort();
        side->capture = capture;
    }
    for (int i = 0; i < event->node_count; i++)
        add_number(&side->front, &side->front_count, event->nodes[i]);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream hStream, CUstreamCaptureMode mode)
{
    ENTER(CURRENT);
    Stream *stream;
    CHECK(mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_of(hStream, &stream));
    CHECK(stream != stream->group->barrier, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(!stream->capture, CUDA_ERROR_ILLEGAL_STATE);
    Side *side = calloc(1, sizeof *side);
    Capture *capture = calloc(1, sizeof *capture); /* never freed: an event may still name it */
    Body *body = calloc(1, sizeof *body);
    if (!side || !capture || !body)
        abort();
    *body = (Body){.references = 1, .context = current_context()};
    *capture = (Capture){.body = body, .origin = stream, .mode = mode, .thread = pthread_self()};
    side->capture = capture;
    stream->capture = side;
    return CUDA_SUCCESS;
}

/* Return whether each node that no other waits for is in the origin's front: all streams have come back to it. */
static bool joined(const Body *body, const Side *origin)
{
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

CUresult CUDAAPI cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    ENTER(CURRENT);
    Stream *stream;
    CHECK(phGraph, CUDA_ERROR_INVALID_VALUE);
    *phGraph = NULL;
    TRY(stream_of(hStream, &stream));
    Side *side = stream->capture;
    CHECK(side, CUDA_ERROR_ILLEGAL_STATE);
    Capture *capture = side->capture;
    CHECK(capture->origin == stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CHECK(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || pthread_equal(capture->thread, pthread_self()),
          CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    CUresult code = capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    if (!code && !joined(capture->body, side))
        code = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    capture->ended = true;
    for (Stream *other = stream->group->streams; other; other = other->next) {
        Side *own = other->capture;
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
    *phGraph = graph->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    ENTER(CURRENT);
    Stream *stream;
    CHECK(captureStatus, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_of(hStream, &stream));
    Side *side = stream->capture;
    *captureStatus = !side                    ? CU_STREAM_CAPTURE_STATUS_NONE
                     : side->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,
                                        const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out,
                                        size_t *numDependencies_out)
{
    CHECK(!graph_out && !dependencies_out && !edgeData_out && !numDependencies_out, CUDA_ERROR_NOT_SUPPORTED);
    TRY(cuStreamIsCapturing(hStream, captureStatus_out));
    if (id_out)
        *id_out = (uintptr_t)hStream;
    return CUDA_SUCCESS;
}
