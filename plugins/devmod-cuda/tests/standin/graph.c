/* Graphs: stream capture, instantiation and launch.
 *
 * A graph runs its nodes in an order that its dependencies permit, the youngest first, so that a missing dependency shows.
 */
#include "cuda_standin.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Op *op;
    CUgraphNode handle;
    int *after; /* the nodes that it waits for */
    int after_count;
} Node;

/* The nodes: shared by a graph, what was instantiated from it, and launches that have not run. */
typedef struct {
    int references;
    Context *context;
    Node *nodes;
    int count;
} Body;

typedef struct {
    Body *body;
    Stream *origin;
    bool invalid, ended;
    CUstreamCaptureMode mode;
} Capture;

/* The capture of one stream: the nodes that its next one waits for. */
typedef struct {
    Capture *capture;
    int *front;
    int front_count;
} Side;

typedef struct {
    CUgraph handle;
    Body *body;
} Graph;

typedef struct {
    CUgraphExec handle;
    Body *body;
} Executable;

static void body_release(Body *body)
{
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

void capture_invalidate(Stream *stream)
{
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
    *capture = (Capture){.body = body, .origin = stream, .mode = mode};
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

CUresult CUDAAPI cuGraphDestroy(CUgraph hGraph)
{
    ENTER(READY);
    Graph *graph = handle_get(HANDLE_GRAPH, hGraph);
    CHECK(graph, CUDA_ERROR_INVALID_VALUE);
    handle_drop(HANDLE_GRAPH, hGraph);
    body_release(graph->body);
    free(graph);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    ENTER(READY);
    Graph *graph = handle_get(HANDLE_GRAPH, hGraph);
    CHECK(graph && numNodes, CUDA_ERROR_INVALID_VALUE);
    size_t count = (size_t)graph->body->count;
    for (size_t i = 0; nodes && i < *numNodes; i++)
        nodes[i] = i < count ? graph->body->nodes[i].handle : NULL;
    if (!nodes || *numNodes > count)
        *numNodes = count;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    ENTER(READY);
    Op *op = handle_get(HANDLE_GRAPH_NODE, hNode);
    CHECK(op && type, CUDA_ERROR_INVALID_VALUE);
    *type = strcmp(op->what, "copy") == 0            ? CU_GRAPH_NODE_TYPE_MEMCPY
            : strcmp(op->what, "fill") == 0          ? CU_GRAPH_NODE_TYPE_MEMSET
            : strcmp(op->what, "host function") == 0 ? CU_GRAPH_NODE_TYPE_HOST
                                                     : CU_GRAPH_NODE_TYPE_KERNEL;
    return CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *result, CUgraph hGraph)
{
    Graph *graph = handle_get(HANDLE_GRAPH, hGraph);
    CHECK(result && graph, CUDA_ERROR_INVALID_VALUE);
    Executable *executable = calloc(1, sizeof *executable);
    CHECK(executable, CUDA_ERROR_OUT_OF_MEMORY);
    executable->body = graph->body;
    executable->body->references++;
    executable->handle = handle_make(HANDLE_GRAPH_EXEC, executable, NULL);
    *result = executable->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
    ENTER(CURRENT);
    CHECK(!(flags & ~(unsigned long long)CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH), CUDA_ERROR_INVALID_VALUE);
    return instantiate(phGraphExec, hGraph);
}

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    ENTER(CURRENT);
    CHECK(instantiateParams, CUDA_ERROR_INVALID_VALUE);
    CUresult code = instantiate(phGraphExec, hGraph);
    instantiateParams->result_out = code ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return code;
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
    ENTER(CURRENT);
    Executable *executable = handle_get(HANDLE_GRAPH_EXEC, hGraphExec);
    Graph *graph = handle_get(HANDLE_GRAPH, hGraph);
    CHECK(executable && graph && resultInfo, CUDA_ERROR_INVALID_VALUE);
    memset(resultInfo, 0, sizeof *resultInfo);
    if (graph->body->count != executable->body->count) {
        resultInfo->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    body_release(executable->body);
    executable->body = graph->body;
    executable->body->references++;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    ENTER(READY);
    Executable *executable = handle_get(HANDLE_GRAPH_EXEC, hGraphExec);
    CHECK(executable, CUDA_ERROR_INVALID_VALUE);
    handle_drop(HANDLE_GRAPH_EXEC, hGraphExec);
    body_release(executable->body);
    free(executable);
    return CUDA_SUCCESS;
}

static bool may_run(const Body *body, const bool *done, int index)
{
    for (int i = 0; i < body->nodes[index].after_count; i++)
        if (!done[body->nodes[index].after[i]])
            return false;
    return !done[index];
}

static int run_graph(Op *op)
{
    Body *body = *(Body **)op->data;
    bool *done = calloc((size_t)body->count + 1, sizeof *done);
    int code = 0;
    if (!done)
        abort();
    for (int left = body->count; left && !code; left--) {
        int index = body->count - 1;
        while (!may_run(body, done, index))
            index--;
        code = body->nodes[index].op->run(body->nodes[index].op);
        done[index] = true;
    }
    free(done);
    return code;
}

static void drop_graph(Op *op)
{
    body_release(*(Body **)op->data);
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    ENTER(CURRENT);
    Stream *stream;
    CHECK(handle_get(HANDLE_GRAPH_EXEC, hGraphExec), CUDA_ERROR_INVALID_VALUE);
    return stream_of(hStream, &stream);
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    if (skip_launches)
        return CUDA_SUCCESS;
    ENTER(CURRENT);
    Stream *stream;
    Executable *executable = handle_get(HANDLE_GRAPH_EXEC, hGraphExec);
    CHECK(executable, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_of(hStream, &stream));
    CHECK(stream->group == &executable->body->context->group, CUDA_ERROR_INVALID_HANDLE);
    Op *op = op_make("graph", run_graph, drop_graph, sizeof(Body *));
    *(Body **)op->data = executable->body;
    executable->body->references++;
    return submit(stream, op);
}
