/* Graphs: their edges, executable graphs, user objects and memory. Handles, edges and results have
 * the driver's layout. */
#include "runtime.h"

_Static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo),
               "one layout");
_Static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS),
               "one layout");
_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData), "one layout");

FORWARD(cudaGraphCreate, cuGraphCreate(pGraph, flags), cudaGraph_t *pGraph, unsigned int flags)
FORWARD(cudaGraphDestroy, cuGraphDestroy(graph), cudaGraph_t graph)
FORWARD(cudaGraphClone, cuGraphClone(pGraphClone, originalGraph), cudaGraph_t *pGraphClone,
        cudaGraph_t originalGraph)
FORWARD(cudaGraphDebugDotPrint, cuGraphDebugDotPrint(graph, path, flags), cudaGraph_t graph,
        const char *path, unsigned int flags)
FORWARD(cudaGraphGetNodes, cuGraphGetNodes(graph, nodes, numNodes), cudaGraph_t graph,
        cudaGraphNode_t *nodes, size_t *numNodes)
FORWARD(cudaGraphGetRootNodes, cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes),
        cudaGraph_t graph, cudaGraphNode_t *pRootNodes, size_t *pNumRootNodes)
FORWARD(cudaGraphNodeFindInClone, cuGraphNodeFindInClone(pNode, originalNode, clonedGraph),
        cudaGraphNode_t *pNode, cudaGraphNode_t originalNode, cudaGraph_t clonedGraph)
FORWARD(cudaGraphNodeGetType, cuGraphNodeGetType(node, (CUgraphNodeType *)pType),
        cudaGraphNode_t node, enum cudaGraphNodeType *pType)
FORWARD(cudaGraphDestroyNode, cuGraphDestroyNode(node), cudaGraphNode_t node)

/* ---- edges: CUDA 12 has a form without their data, which is an error where there is some
 * ------------------------------------------------------------------------------------------------
 */

#if RUNTIME_MAJOR >= 13
#define cudaGraphGetEdges_v2 cudaGraphGetEdges
#define cudaGraphNodeGetDependencies_v2 cudaGraphNodeGetDependencies
#define cudaGraphNodeGetDependentNodes_v2 cudaGraphNodeGetDependentNodes
#define cudaGraphAddDependencies_v2 cudaGraphAddDependencies
#define cudaGraphRemoveDependencies_v2 cudaGraphRemoveDependencies
#else
FORWARD(cudaGraphGetEdges, cuGraphGetEdges_v2(graph, from, to, NULL, numEdges), cudaGraph_t graph,
        cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *numEdges)
FORWARD(cudaGraphNodeGetDependencies,
        cuGraphNodeGetDependencies_v2(node, pDependencies, NULL, pNumDependencies),
        cudaGraphNode_t node, cudaGraphNode_t *pDependencies, size_t *pNumDependencies)
FORWARD(cudaGraphNodeGetDependentNodes,
        cuGraphNodeGetDependentNodes_v2(node, pDependentNodes, NULL, pNumDependentNodes),
        cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes, size_t *pNumDependentNodes)
FORWARD(cudaGraphAddDependencies, cuGraphAddDependencies_v2(graph, from, to, NULL, numDependencies),
        cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
        size_t numDependencies)
FORWARD(cudaGraphRemoveDependencies,
        cuGraphRemoveDependencies_v2(graph, from, to, NULL, numDependencies), cudaGraph_t graph,
        const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t numDependencies)
#endif

FORWARD(cudaGraphGetEdges_v2,
        cuGraphGetEdges_v2(graph, from, to, (CUgraphEdgeData *)edgeData, numEdges),
        cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *edgeData,
        size_t *numEdges)
FORWARD(cudaGraphNodeGetDependencies_v2,
        cuGraphNodeGetDependencies_v2(node, pDependencies, (CUgraphEdgeData *)edgeData,
                                      pNumDependencies),
        cudaGraphNode_t node, cudaGraphNode_t *pDependencies, cudaGraphEdgeData *edgeData,
        size_t *pNumDependencies)
FORWARD(cudaGraphNodeGetDependentNodes_v2,
        cuGraphNodeGetDependentNodes_v2(node, pDependentNodes, (CUgraphEdgeData *)edgeData,
                                        pNumDependentNodes),
        cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes, cudaGraphEdgeData *edgeData,
        size_t *pNumDependentNodes)
FORWARD(cudaGraphAddDependencies_v2,
        cuGraphAddDependencies_v2(graph, from, to, (const CUgraphEdgeData *)edgeData,
                                  numDependencies),
        cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
        const cudaGraphEdgeData *edgeData, size_t numDependencies)
FORWARD(cudaGraphRemoveDependencies_v2,
        cuGraphRemoveDependencies_v2(graph, from, to, (const CUgraphEdgeData *)edgeData,
                                     numDependencies),
        cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
        const cudaGraphEdgeData *edgeData, size_t numDependencies)

/* ---- executable graphs
 * -----------------------------------------------------------------------------------------------------
 */

FORWARD(cudaGraphInstantiate, cuGraphInstantiateWithFlags(pGraphExec, graph, flags),
        cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
FORWARD(cudaGraphInstantiateWithFlags, cuGraphInstantiateWithFlags(pGraphExec, graph, flags),
        cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
FORWARD(cudaGraphExecUpdate,
        cuGraphExecUpdate(hGraphExec, hGraph, (CUgraphExecUpdateResultInfo *)resultInfo),
        cudaGraphExec_t hGraphExec, cudaGraph_t hGraph, cudaGraphExecUpdateResultInfo *resultInfo)
FORWARD(cudaGraphExecDestroy, cuGraphExecDestroy(graphExec), cudaGraphExec_t graphExec)
FORWARD(cudaGraphExecGetFlags, cuGraphExecGetFlags(graphExec, (cuuint64_t *)flags),
        cudaGraphExec_t graphExec, unsigned long long *flags)
FORWARD(cudaGraphNodeSetEnabled, cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled),
        cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int isEnabled)
FORWARD(cudaGraphNodeGetEnabled, cuGraphNodeGetEnabled(hGraphExec, hNode, isEnabled),
        cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int *isEnabled)

/* ---- memory and user objects
 * -----------------------------------------------------------------------------------------------
 */

FORWARD(cudaDeviceGetGraphMemAttribute,
        cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attr, value), int device,
        enum cudaGraphMemAttributeType attr, void *value)
FORWARD(cudaDeviceSetGraphMemAttribute,
        cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)attr, value), int device,
        enum cudaGraphMemAttributeType attr, void *value)
FORWARD(cudaDeviceGraphMemTrim, cuDeviceGraphMemTrim(device), int device)
FORWARD(cudaUserObjectCreate, cuUserObjectCreate(object_out, ptr, destroy, count, flags),
        cudaUserObject_t *object_out, void *ptr, cudaHostFn_t destroy, unsigned int count,
        unsigned int flags)
FORWARD(cudaUserObjectRetain, cuUserObjectRetain(object, count), cudaUserObject_t object,
        unsigned int count)
FORWARD(cudaUserObjectRelease, cuUserObjectRelease(object, count), cudaUserObject_t object,
        unsigned int count)
FORWARD(cudaGraphRetainUserObject, cuGraphRetainUserObject(graph, object, count, flags),
        cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags)
FORWARD(cudaGraphReleaseUserObject, cuGraphReleaseUserObject(graph, object, count),
        cudaGraph_t graph, cudaUserObject_t object, unsigned int count)
