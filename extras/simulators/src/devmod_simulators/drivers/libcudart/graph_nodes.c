/* The nodes of graphs. Kernels and copies have structures of the runtime's own. */
#include "runtime.h"

#include <string.h>

#define WHERE                                                                                      \
    cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,          \
        size_t numDependencies
#define AT_WHERE pGraphNode, graph, pDependencies, numDependencies

static CUcontext current(void) {
    CUcontext context = NULL;
    cuCtxGetCurrent(&context);
    return context;
}

/* ---- kinds of nodes. Layouts are the driver's, but for a copy and a kernel's function. */

_Static_assert(sizeof(struct cudaGraphNodeParams) == sizeof(CUgraphNodeParams), "one layout");
_Static_assert(offsetof(struct cudaKernelNodeParams, extra) ==
                   offsetof(CUDA_KERNEL_NODE_PARAMS, extra),
               "one layout");
_Static_assert(sizeof(cudaLaunchAttributeValue) == sizeof(CUkernelNodeAttrValue), "one layout");
_Static_assert(sizeof(struct cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS), "one layout");
_Static_assert(sizeof(struct cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS), "one layout");
_Static_assert(sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS),
               "one layout");

static cudaError_t take_node(const struct cudaGraphNodeParams *from, CUgraphNodeParams *to) {
    CHECK(from, cudaErrorInvalidValue);
    memcpy(to, from, sizeof *to);
    switch (from->type) {
    case cudaGraphNodeTypeKernel:
        to->kernel.kern = NULL;
        to->kernel.ctx = NULL;
        return runtime_function(from->kernel.func, &to->kernel.func);
    case cudaGraphNodeTypeMemcpy:
        to->memcpy.copyCtx = current();
        return runtime_space(&to->memcpy.copyParams, &from->memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
        to->memset.ctx = current();
        return cudaSuccess;
    case cudaGraphNodeTypeConditional:
        to->conditional.ctx = current();
        return cudaSuccess;
    default:
        return cudaSuccess;
    }
}

/* The same for the parameters of one kind, which are the first bytes of those of all but for a
 * copy's. */
static cudaError_t take_kind(CUgraphNodeParams *to, enum cudaGraphNodeType kind, const void *own,
                             size_t size) {
    struct cudaGraphNodeParams from = {.type = kind};
    CHECK(own, cudaErrorInvalidValue);
    if (kind == cudaGraphNodeTypeMemcpy)
        memcpy(&from.memcpy.copyParams, own, size);
    else
        memcpy(&from.kernel, own, size);
    return take_node(&from, to);
}

static cudaError_t take_row(CUgraphNodeParams *to, void *target, const void *source, size_t count,
                            enum cudaMemcpyKind kind) {
    Side to_side, from_side;
    to->type = CU_GRAPH_NODE_TYPE_MEMCPY;
    to->memcpy.copyCtx = current();
    TRY(runtime_pointer(&from_side, source, count, 0, kind, cudaMemcpyDeviceToHost));
    TRY(runtime_pointer(&to_side, target, count, 0, kind, cudaMemcpyHostToDevice));
    to->memcpy.copyParams = runtime_copy(to_side, from_side, count, 1, 1);
    return cudaSuccess;
}

static cudaError_t take_to_symbol(CUgraphNodeParams *to, const void *symbol, const void *source,
                                  size_t count, size_t offset, enum cudaMemcpyKind kind) {
    void *target;
    TRY(runtime_variable_bytes(symbol, offset, count, &target));
    return take_row(to, target, source, count, kind);
}

static cudaError_t take_from_symbol(CUgraphNodeParams *to, void *target, const void *symbol,
                                    size_t count, size_t offset, enum cudaMemcpyKind kind) {
    void *source;
    TRY(runtime_variable_bytes(symbol, offset, count, &source));
    return take_row(to, target, source, count, kind);
}

#define NODE(name, take, call, ...)                                                                \
    cudaError_t CUDARTAPI name(__VA_ARGS__) {                                                      \
        CUgraphNodeParams to = {0};                                                                \
        ENTER();                                                                                   \
        TRY(take);                                                                                 \
        FINISH(call);                                                                              \
    }
#define NODES(add, set, set_executable, take, ...)                                                 \
    NODE(add, take,                                                                                \
         cuGraphAddNode_v2(pGraphNode, graph, pDependencies, NULL, numDependencies, &to), WHERE,   \
         __VA_ARGS__)                                                                              \
    NODE(set, take, cuGraphNodeSetParams(node, &to), cudaGraphNode_t node, __VA_ARGS__)            \
    NODE(set_executable, take, cuGraphExecNodeSetParams(executable, node, &to),                    \
         cudaGraphExec_t executable, cudaGraphNode_t node, __VA_ARGS__)
#define COPIES(form, take, ...)                                                                    \
    NODES(cudaGraphAddMemcpyNode##form, cudaGraphMemcpyNodeSetParams##form,                        \
          cudaGraphExecMemcpyNodeSetParams##form, take, __VA_ARGS__)

NODES(cudaGraphAddKernelNode, cudaGraphKernelNodeSetParams, cudaGraphExecKernelNodeSetParams,
      take_kind(&to, cudaGraphNodeTypeKernel, params, sizeof *params),
      const struct cudaKernelNodeParams *params)
NODES(cudaGraphAddMemsetNode, cudaGraphMemsetNodeSetParams, cudaGraphExecMemsetNodeSetParams,
      take_kind(&to, cudaGraphNodeTypeMemset, params, sizeof *params),
      const struct cudaMemsetParams *params)
COPIES(, take_kind(&to, cudaGraphNodeTypeMemcpy, params, sizeof *params),
       const struct cudaMemcpy3DParms *params)
COPIES(1D, take_row(&to, dst, src, count, kind), void *dst, const void *src, size_t count,
       enum cudaMemcpyKind kind)
COPIES(ToSymbol, take_to_symbol(&to, symbol, src, count, offset, kind), const void *symbol,
       const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind)
COPIES(FromSymbol, take_from_symbol(&to, dst, symbol, count, offset, kind), void *dst,
       const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind)

/* The function is a handle, which stands for the host's function elsewhere too. */
API_IF(pNodeParams, cudaGraphKernelNodeGetParams) {
    CUDA_KERNEL_NODE_PARAMS driver;
    TRY(cuGraphKernelNodeGetParams(node, &driver));
    memcpy(pNodeParams, &driver, sizeof *pNodeParams);
    return cudaSuccess;
}

/* CUDA 12 and 13 have these parameters in another order. */
FORWARD(cudaGraphKernelNodeCopyAttributes, cuGraphKernelNodeCopyAttributes(hDst, hSrc))

FORWARD(cudaGraphConditionalHandleCreate,
        cuGraphConditionalHandleCreate((CUgraphConditionalHandle *)pHandle_out, graph, current(),
                                       defaultLaunchValue, flags))

static cudaError_t add_node(WHERE, const cudaGraphEdgeData *edges,
                            struct cudaGraphNodeParams *params) {
    CUgraphNodeParams driver;
    TRY(take_node(params, &driver));
    TRY(cuGraphAddNode_v2(pGraphNode, graph, pDependencies, (const CUgraphEdgeData *)edges,
                          numDependencies, &driver));
    if (params->type == cudaGraphNodeTypeMemAlloc)
        params->alloc.dptr = (void *)(uintptr_t)driver.alloc.dptr;
    if (params->type == cudaGraphNodeTypeConditional)
        params->conditional.phGraph_out = driver.conditional.phGraph_out;
    return cudaSuccess;
}

#if RUNTIME_MAJOR >= 13
#define cudaGraphAddNode_v2 cudaGraphAddNode
#else
FORWARD(cudaGraphAddNode, add_node(AT_WHERE, NULL, nodeParams))
#endif

FORWARD(cudaGraphAddNode_v2, add_node(AT_WHERE, dependencyData, nodeParams))

API(cudaGraphNodeSetParams) {
    CUgraphNodeParams driver;
    TRY(take_node(nodeParams, &driver));
    FINISH(cuGraphNodeSetParams(node, &driver));
}

API(cudaGraphExecNodeSetParams) {
    CUgraphNodeParams driver;
    TRY(take_node(nodeParams, &driver));
    FINISH(cuGraphExecNodeSetParams(graphExec, node, &driver));
}
