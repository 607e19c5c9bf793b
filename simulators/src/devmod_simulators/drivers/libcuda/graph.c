/* Graphs. */
#include "cuda_standin.h"

#include <string.h>
#include <unistd.h>

FORWARD(cuGraphDestroy, READY, graph_destroy(hGraph), CUgraph hGraph)
FORWARD(cuGraphGetNodes, READY, graph_nodes(hGraph, (void **)nodes, numNodes), CUgraph hGraph,
        CUgraphNode *nodes, size_t *numNodes)
FORWARD(cuGraphNodeGetType, READY, graph_node_kind(hNode, (NodeKind *)type), CUgraphNode hNode,
        CUgraphNodeType *type)

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph,
                                    unsigned long long flags) {
    ENTER(CURRENT);
    CHECK(!(flags & ~(unsigned long long)CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH),
          CUDA_ERROR_INVALID_VALUE);
    return graph_instantiate((void **)phGraphExec, hGraph);
}

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                              CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
    ENTER(CURRENT);
    CHECK(instantiateParams, CUDA_ERROR_INVALID_VALUE);
    CUresult code = graph_instantiate((void **)phGraphExec, hGraph);
    instantiateParams->result_out =
        code ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return code;
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
                                   CUgraphExecUpdateResultInfo *resultInfo) {
    ENTER(CURRENT);
    bool changed = false;
    CHECK(resultInfo, CUDA_ERROR_INVALID_VALUE);
    memset(resultInfo, 0, sizeof *resultInfo);
    CUresult code = graph_update(hGraphExec, hGraph, &changed);
    if (changed)
        resultInfo->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    return code;
}

FORWARD(cuGraphExecDestroy, READY, graph_destroy_executable(hGraphExec), CUgraphExec hGraphExec)
FORWARD(cuGraphUpload, CURRENT, graph_upload(hGraphExec, hStream), CUgraphExec hGraphExec,
        CUstream hStream)

/* The executable graphs that a thread launches now. CUDA does not serialize the calls of several
 * threads with one graph. */
enum { MOST_AT_ONCE = 64 };
static CUgraphExec at_once[MOST_AT_ONCE];
static pthread_mutex_t at_once_lock = PTHREAD_MUTEX_INITIALIZER;

/* Note a graph and return its place, -1 if another thread launches it. */
static int note_graph(CUgraphExec graph) {
    int place = MOST_AT_ONCE;
    pthread_mutex_lock(&at_once_lock);
    for (int i = MOST_AT_ONCE; i-- > 0 && place >= 0;)
        place = at_once[i] == graph ? -1 : at_once[i] ? place : i;
    if (place >= 0 && place < MOST_AT_ONCE)
        at_once[place] = graph;
    pthread_mutex_unlock(&at_once_lock);
    return place;
}

static void forget_graph(int place) {
    pthread_mutex_lock(&at_once_lock);
    if (place >= 0 && place < MOST_AT_ONCE)
        at_once[place] = NULL;
    pthread_mutex_unlock(&at_once_lock);
}

static CUresult launch_noted(CUgraphExec graph, CUstream stream, bool is_shared) {
    ENTER_AS("cuGraphLaunch", CURRENT);
    if (is_shared)
        violation("two threads launch one executable graph at once");
    return graph_launch(graph, stream);
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
    if (skip_launches)
        return CUDA_SUCCESS;
    int place = hGraphExec ? note_graph(hGraphExec) : MOST_AT_ONCE;
    usleep(100); /* or else two threads would hardly meet here */
    CUresult code = launch_noted(hGraphExec, hStream, place < 0);
    forget_graph(place);
    return code;
}
