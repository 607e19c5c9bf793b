/* Graphs. */
#include "cuda_standin.h"

#include <string.h>

CUresult CUDAAPI cuGraphDestroy(CUgraph hGraph)
{
    ENTER(READY);
    return graph_destroy(hGraph);
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    ENTER(READY);
    return graph_nodes(hGraph, (void **)nodes, numNodes);
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    ENTER(READY);
    return graph_node_kind(hNode, (NodeKind *)type);
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
    ENTER(CURRENT);
    CHECK(!(flags & ~(unsigned long long)CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH), CUDA_ERROR_INVALID_VALUE);
    return graph_instantiate((void **)phGraphExec, hGraph);
}

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    ENTER(CURRENT);
    CHECK(instantiateParams, CUDA_ERROR_INVALID_VALUE);
    CUresult code = graph_instantiate((void **)phGraphExec, hGraph);
    instantiateParams->result_out = code ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return code;
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
    ENTER(CURRENT);
    bool changed = false;
    CHECK(resultInfo, CUDA_ERROR_INVALID_VALUE);
    memset(resultInfo, 0, sizeof *resultInfo);
    CUresult code = graph_update(hGraphExec, hGraph, &changed);
    if (changed)
        resultInfo->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    return code;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    ENTER(READY);
    return graph_destroy_executable(hGraphExec);
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    ENTER(CURRENT);
    return graph_upload(hGraphExec, hStream);
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    if (skip_launches)
        return CUDA_SUCCESS;
    ENTER(CURRENT);
    return graph_launch(hGraphExec, hStream);
}
