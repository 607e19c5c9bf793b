/* The earlier forms of functions: those of CUDA 12 whose edges have no data, and those of CUDA 10.
 */
#include "cuda_standin.h"
#include "prototypes.h"

#undef cuGraphAddDependencies
#undef cuGraphAddNode
#undef cuGraphGetEdges
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuGraphRemoveDependencies
#undef cuStreamUpdateCaptureDependencies

/* A function without a lock: the later one takes it. */
#define EARLIER(name, call, ...)                                                                   \
    CUresult CUDAAPI name(__VA_ARGS__) {                                                           \
        return call;                                                                               \
    }

EARLIER(cuGraphAddDependencies, cuGraphAddDependencies_v2(graph, from, to, NULL, count),
        CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
EARLIER(cuGraphRemoveDependencies, cuGraphRemoveDependencies_v2(graph, from, to, NULL, count),
        CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
EARLIER(cuGraphGetEdges, cuGraphGetEdges_v2(graph, from, to, NULL, count), CUgraph graph,
        CUgraphNode *from, CUgraphNode *to, size_t *count)
EARLIER(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies_v2(node, nodes, NULL, count),
        CUgraphNode node, CUgraphNode *nodes, size_t *count)
EARLIER(cuGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes_v2(node, nodes, NULL, count),
        CUgraphNode node, CUgraphNode *nodes, size_t *count)
EARLIER(cuGraphAddNode, cuGraphAddNode_v2(node, graph, before, NULL, count, params),
        CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
        CUgraphNodeParams *params)
EARLIER(cuStreamUpdateCaptureDependencies,
        cuStreamUpdateCaptureDependencies_v2(stream, nodes, NULL, count, flags), CUstream stream,
        CUgraphNode *nodes, size_t count, unsigned int flags)
EARLIER(cuStreamGetCaptureInfo_v2,
        cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, NULL, count), CUstream stream,
        CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
        size_t *count)

/* The names without a version, of which a form has the same parameters. */
#define SAME(name, form)                                                                           \
    __attribute__((weak)) CUresult CUDAAPI name(PARAMETERS_##name) {                               \
        return form ARGUMENTS_##name;                                                              \
    }

/* The functions whose default stream is one of the thread. */
#define STREAM(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)
#define THREAD(name, call, ...)                                                                    \
    __attribute__((weak)) CUresult CUDAAPI name(__VA_ARGS__) {                                     \
        return call;                                                                               \
    }

#include "earlier.h" /* a build writes it, of cuda.h */
