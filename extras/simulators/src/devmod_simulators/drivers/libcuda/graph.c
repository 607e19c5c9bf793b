/* Graphs as a whole: what they are made of, executable graphs, launches, what belongs to them. */
#include "cuda_standin.h"

#include <string.h>

FORWARD_IF(!flags, cuGraphCreate, READY, graph_create((void **)phGraph))

FORWARD(cuGraphDestroy, READY, graph_destroy(hGraph))
FORWARD(cuGraphClone, READY, graph_clone((void **)phGraphClone, originalGraph))
FORWARD(cuGraphGetNodes, READY, graph_nodes(hGraph, (void **)nodes, numNodes))
FORWARD(cuGraphNodeGetType, READY, graph_node_kind(hNode, (NodeKind *)type))
FORWARD(cuGraphDestroyNode, READY, node_destroy(hNode))

API(cuGraphNodeFindInClone, READY) {
    const Graph *clone = graph_of(hClonedGraph);
    const Node *original = node_of(hOriginalNode);
    CHECK(phNode && clone && original, CUDA_ERROR_INVALID_VALUE);
    const Node *node = graph_counterpart(clone, original);
    CHECK(node, CUDA_ERROR_INVALID_VALUE);
    *phNode = node->handle;
    return CUDA_SUCCESS;
}

API_IF((pHandle_out && !(flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT)),
       cuGraphConditionalHandleCreate, CURRENT) {
    Context *context = current_context();
    uint64_t address;
    if (ctx)
        TRY(context_of(ctx, &context));
    TRY(graph_add_condition(&address, hGraph, context, defaultLaunchValue, flags != 0));
    *pHandle_out = address;
    return CUDA_SUCCESS;
}

/* ---- executable graphs */

static CUresult instantiate(CUgraphExec *result, CUgraph graph, unsigned long long flags,
                            bool *cyclic) {
    unsigned long long frees = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
                       device = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH,
                       known = frees | device | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                               CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    CHECK(!(flags & ~known), CUDA_ERROR_INVALID_VALUE);
    CHECK(!(flags & frees) || !(flags & device), CUDA_ERROR_INVALID_VALUE);
    return graph_instantiate((void **)result, graph, flags, cyclic);
}

FORWARD_IF(!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD), cuGraphInstantiate, CURRENT,
           instantiate(phGraphExec, hGraph, flags, NULL))

API_IF(instantiateParams, cuGraphInstantiateWithParams, CURRENT) {
    bool cyclic = false;
    CUresult code = instantiate(phGraphExec, hGraph, instantiateParams->flags, &cyclic);
    instantiateParams->hErrNode_out = NULL;
    instantiateParams->result_out =
        code ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    if (cyclic)
        instantiateParams->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    return code;
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
                                   CUgraphExecUpdateResultInfo *resultInfo) {
    static const CUgraphExecUpdateResult results[] = {
        [CHANGE_NONE] = CU_GRAPH_EXEC_UPDATE_ERROR,
        [CHANGE_TOPOLOGY] = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
        [CHANGE_KIND] = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED,
        [CHANGE_CONTEXT] = CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE};
    ENTER(CURRENT);
    Change change = {CHANGE_NONE, NULL, NULL};
    CHECK(resultInfo, CUDA_ERROR_INVALID_VALUE);
    memset(resultInfo, 0, sizeof *resultInfo);
    CUresult code = graph_update(hGraphExec, hGraph, &change);
    if (code)
        resultInfo->result = results[change.kind];
    resultInfo->errorNode = change.node;
    resultInfo->errorFromNode = change.from;
    return code;
}

FORWARD(cuGraphExecGetFlags, READY, executable_flags(hGraphExec, (unsigned long long *)flags))
FORWARD(cuGraphNodeSetEnabled, READY, executable_enable(hGraphExec, hNode, isEnabled != 0))

API_IF(isEnabled, cuGraphNodeGetEnabled, READY) {
    bool enabled;
    TRY(executable_enabled(hGraphExec, hNode, &enabled));
    *isEnabled = enabled;
    return CUDA_SUCCESS;
}

FORWARD(cuGraphExecDestroy, READY, graph_destroy_executable(hGraphExec))
FORWARD(cuGraphUpload, CURRENT, graph_upload(hGraphExec, hStream))

ENTRY(cuGraphLaunch) {
    if (skip_launches)
        return CUDA_SUCCESS;
    ENTER(CURRENT);
    executable_meet(hGraphExec);
    return graph_launch(hGraphExec, hStream);
}

/* ---- user objects */

FORWARD_IF(flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, cuUserObjectCreate, READY,
           user_object_create((void **)object_out, ptr, destroy, initialRefcount))

FORWARD(cuUserObjectRetain, READY, user_object_retain(object, count))
FORWARD(cuUserObjectRelease, READY, user_object_release(object, count))

FORWARD_IF(!(flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE), cuGraphRetainUserObject, READY,
           graph_retain_object(graph, object, count, (flags & CU_GRAPH_USER_OBJECT_MOVE) != 0))

FORWARD(cuGraphReleaseUserObject, READY, graph_release_object(graph, object, count))

/* ---- memory */

API(cuDeviceGetGraphMemAttribute, READY) {
    CHECK(device_valid(device), CUDA_ERROR_INVALID_DEVICE);
    const GraphUsage *usage = graph_usage(device);
    const uint64_t values[] = {[CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT] = usage->used,
                               [CU_GRAPH_MEM_ATTR_USED_MEM_HIGH] = usage->most_used,
                               [CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT] = usage->reserved,
                               [CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH] = usage->most_reserved};
    CHECK(value && (unsigned)attr <= CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, CUDA_ERROR_INVALID_VALUE);
    *(cuuint64_t *)value = values[attr];
    return CUDA_SUCCESS;
}

API(cuDeviceSetGraphMemAttribute, READY) {
    CHECK(device_valid(device), CUDA_ERROR_INVALID_DEVICE);
    CHECK(value && !*(cuuint64_t *)value, CUDA_ERROR_INVALID_VALUE); /* it can only be reset */
    GraphUsage *usage = graph_usage(device);
    if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        usage->most_used = usage->used;
    else if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        usage->most_reserved = usage->reserved;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

API(cuDeviceGraphMemTrim, READY) {
    CHECK(device_valid(device), CUDA_ERROR_INVALID_DEVICE);
    graph_usage(device)->reserved = graph_usage(device)->used;
    return CUDA_SUCCESS;
}
