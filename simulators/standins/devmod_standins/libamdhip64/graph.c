/* Graphs. */
#include "hip_standin.h"

HIP(hipGraphDestroy, READY, (hipGraph_t graph), (graph)) {
    return graph_destroy(graph);
}

HIP(hipGraphGetNodes, READY, (hipGraph_t graph, hipGraphNode_t *nodes, size_t *numNodes),
    (graph, nodes, numNodes)) {
    return graph_nodes(graph, nodes, numNodes);
}

HIP(hipGraphInstantiate, CURRENT,
    (hipGraphExec_t * pGraphExec, hipGraph_t graph, hipGraphNode_t *pErrorNode, char *pLogBuffer,
     size_t bufferSize),
    (pGraphExec, graph, pErrorNode, pLogBuffer, bufferSize)) {
    if (pErrorNode)
        *pErrorNode = NULL;
    if (pLogBuffer && bufferSize)
        *pLogBuffer = 0;
    return graph_instantiate(pGraphExec, graph, 0, NULL);
}

HIP(hipGraphInstantiateWithFlags, CURRENT,
    (hipGraphExec_t * pGraphExec, hipGraph_t graph, unsigned long long flags),
    (pGraphExec, graph, flags)) {
    enum { AUTO_FREE_ON_LAUNCH = 1 };
    CHECK(!(flags & ~(unsigned long long)AUTO_FREE_ON_LAUNCH), CODE_INVALID_VALUE);
    return graph_instantiate(pGraphExec, graph, flags, NULL);
}

HIP(hipGraphExecDestroy, READY, (hipGraphExec_t graphExec), (graphExec)) {
    return graph_destroy_executable(graphExec);
}

HIP_LAUNCH(hipGraphLaunch, (hipGraphExec_t graphExec, hipStream_t stream), (graphExec, stream)) {
    return graph_launch(graphExec, stream);
}
