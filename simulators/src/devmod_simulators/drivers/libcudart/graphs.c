/* Graphs: their edges, executable graphs, user objects and memory. Handles, edges and results have
 * the driver's layout. */
#include "runtime.h"

_Static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo),
               "one layout");
_Static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS),
               "one layout");
_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData), "one layout");

FORWARD(cudaGraphCreate, cuGraphCreate(pGraph, flags))
FORWARD(cudaGraphDestroy, cuGraphDestroy(graph))
FORWARD(cudaGraphClone, cuGraphClone(pGraphClone, originalGraph))
FORWARD(cudaGraphDebugDotPrint, cuGraphDebugDotPrint(graph, path, flags))
FORWARD(cudaGraphGetNodes, cuGraphGetNodes(graph, nodes, numNodes))
FORWARD(cudaGraphGetRootNodes, cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes))
FORWARD(cudaGraphNodeFindInClone, cuGraphNodeFindInClone(pNode, originalNode, clonedGraph))
FORWARD(cudaGraphNodeGetType, cuGraphNodeGetType(node, (CUgraphNodeType *)pType))
FORWARD(cudaGraphDestroyNode, cuGraphDestroyNode(node))

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
FORWARD(cudaGraphGetEdges, cuGraphGetEdges_v2(graph, from, to, NULL, numEdges))
FORWARD(cudaGraphNodeGetDependencies,
        cuGraphNodeGetDependencies_v2(node, pDependencies, NULL, pNumDependencies))
FORWARD(cudaGraphNodeGetDependentNodes,
        cuGraphNodeGetDependentNodes_v2(node, pDependentNodes, NULL, pNumDependentNodes))
FORWARD(cudaGraphAddDependencies, cuGraphAddDependencies_v2(graph, from, to, NULL, numDependencies))
FORWARD(cudaGraphRemoveDependencies,
        cuGraphRemoveDependencies_v2(graph, from, to, NULL, numDependencies))
#endif

FORWARD(cudaGraphGetEdges_v2,
        cuGraphGetEdges_v2(graph, from, to, (CUgraphEdgeData *)edgeData, numEdges))
FORWARD(cudaGraphNodeGetDependencies_v2,
        cuGraphNodeGetDependencies_v2(node, pDependencies, (CUgraphEdgeData *)edgeData,
                                      pNumDependencies))
FORWARD(cudaGraphNodeGetDependentNodes_v2,
        cuGraphNodeGetDependentNodes_v2(node, pDependentNodes, (CUgraphEdgeData *)edgeData,
                                        pNumDependentNodes))
FORWARD(cudaGraphAddDependencies_v2,
        cuGraphAddDependencies_v2(graph, from, to, (const CUgraphEdgeData *)edgeData,
                                  numDependencies))
FORWARD(cudaGraphRemoveDependencies_v2,
        cuGraphRemoveDependencies_v2(graph, from, to, (const CUgraphEdgeData *)edgeData,
                                     numDependencies))

/* ---- executable graphs
 * -----------------------------------------------------------------------------------------------------
 */

FORWARD(cudaGraphInstantiate, cuGraphInstantiateWithFlags(pGraphExec, graph, flags))
FORWARD(cudaGraphInstantiateWithFlags, cuGraphInstantiateWithFlags(pGraphExec, graph, flags))
FORWARD(cudaGraphExecUpdate,
        cuGraphExecUpdate(hGraphExec, hGraph, (CUgraphExecUpdateResultInfo *)resultInfo))
FORWARD(cudaGraphExecDestroy, cuGraphExecDestroy(graphExec))
FORWARD(cudaGraphExecGetFlags, cuGraphExecGetFlags(graphExec, (cuuint64_t *)flags))
FORWARD(cudaGraphNodeSetEnabled, cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled))
FORWARD(cudaGraphNodeGetEnabled, cuGraphNodeGetEnabled(hGraphExec, hNode, isEnabled))

/* ---- memory and user objects
 * -----------------------------------------------------------------------------------------------
 */

FORWARD(cudaDeviceGetGraphMemAttribute,
        cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attr, value))
FORWARD(cudaDeviceSetGraphMemAttribute,
        cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)attr, value))
FORWARD(cudaDeviceGraphMemTrim, cuDeviceGraphMemTrim(device))
FORWARD(cudaUserObjectCreate, cuUserObjectCreate(object_out, ptr, destroy, initialRefcount, flags))
FORWARD(cudaUserObjectRetain, cuUserObjectRetain(object, count))
FORWARD(cudaUserObjectRelease, cuUserObjectRelease(object, count))
FORWARD(cudaGraphRetainUserObject, cuGraphRetainUserObject(graph, object, count, flags))
FORWARD(cudaGraphReleaseUserObject, cuGraphReleaseUserObject(graph, object, count))
