/* Graphs: what a capture gave, instantiated and launched.
 *
 * A graph runs its nodes in an order that its dependencies permit, the youngest first, so that a missing dependency shows.
 */
#include "cuda_standin.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    CUgraphExec handle;
    Body *body;
} Executable;

void body_release(Body *body)
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
