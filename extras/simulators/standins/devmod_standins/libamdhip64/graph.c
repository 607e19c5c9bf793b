/* Graphs. */
#include "hip_standin.h"

HIP_FORWARD(hipGraphDestroy, READY, graph_destroy(graph))

HIP_FORWARD(hipGraphGetNodes, READY, graph_nodes(graph, nodes, numNodes))

HIP(hipGraphInstantiate, CURRENT) {
    if (pErrorNode)
        *pErrorNode = NULL;
    if (pLogBuffer && bufferSize)
        *pLogBuffer = 0;
    return graph_instantiate(pGraphExec, graph, 0, NULL);
}

HIP(hipGraphInstantiateWithFlags, CURRENT) {
    enum { AUTO_FREE_ON_LAUNCH = 1 };
    CHECK(!(flags & ~(unsigned long long)AUTO_FREE_ON_LAUNCH), CODE_INVALID_VALUE);
    return graph_instantiate(pGraphExec, graph, flags, NULL);
}

HIP_FORWARD(hipGraphExecDestroy, READY, graph_destroy_executable(graphExec))

HIP_LAUNCH(hipGraphLaunch) {
    return graph_launch(graphExec, stream);
}
