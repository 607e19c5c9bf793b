/* Graphs. */
#include "runtime.h"

_Static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo),
               "one layout");
_Static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS),
               "one layout");

FORWARD(cudaGraphInstantiate, cuGraphInstantiateWithFlags(pGraphExec, graph, flags),
        cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
FORWARD(cudaGraphInstantiateWithFlags, cuGraphInstantiateWithFlags(pGraphExec, graph, flags),
        cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
FORWARD(cudaGraphExecUpdate,
        cuGraphExecUpdate(hGraphExec, hGraph, (CUgraphExecUpdateResultInfo *)resultInfo),
        cudaGraphExec_t hGraphExec, cudaGraph_t hGraph, cudaGraphExecUpdateResultInfo *resultInfo)
FORWARD(cudaGraphExecDestroy, cuGraphExecDestroy(graphExec), cudaGraphExec_t graphExec)
FORWARD(cudaGraphDestroy, cuGraphDestroy(graph), cudaGraph_t graph)
FORWARD(cudaGraphGetNodes, cuGraphGetNodes(graph, nodes, numNodes), cudaGraph_t graph,
        cudaGraphNode_t *nodes, size_t *numNodes)
FORWARD(cudaGraphNodeGetType, cuGraphNodeGetType(node, (CUgraphNodeType *)pType),
        cudaGraphNode_t node, enum cudaGraphNodeType *pType)
