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

/* ---- kernels and host functions
 * ------------------------------------------------------------------------------------------------
 */

static cudaError_t take_kernel(CUDA_KERNEL_NODE_PARAMS *to,
                               const struct cudaKernelNodeParams *from) {
    CHECK(from, cudaErrorInvalidValue);
    *to = (CUDA_KERNEL_NODE_PARAMS){
        .gridDimX = from->gridDim.x,
        .gridDimY = from->gridDim.y,
        .gridDimZ = from->gridDim.z,
        .blockDimX = from->blockDim.x,
        .blockDimY = from->blockDim.y,
        .blockDimZ = from->blockDim.z,
        .sharedMemBytes = from->sharedMemBytes,
        .kernelParams = from->kernelParams,
        .extra = from->extra,
    };
    return runtime_function(from->func, &to->func);
}

static cudaError_t take_host(CUDA_HOST_NODE_PARAMS *to, const struct cudaHostNodeParams *from) {
    CHECK(from, cudaErrorInvalidValue);
    to->fn = from->fn;
    to->userData = from->userData;
    return cudaSuccess;
}

#define NODES(kind, Driver, take)                                                                  \
    cudaError_t CUDARTAPI cudaGraphAdd##kind##Node(WHERE,                                          \
                                                   const struct cuda##kind##NodeParams *params) {  \
        Driver driver = {0};                                                                       \
        ENTER();                                                                                   \
        TRY(take(&driver, params));                                                                \
        FINISH(cuGraphAdd##kind##Node(AT_WHERE, &driver));                                         \
    }                                                                                              \
    cudaError_t CUDARTAPI cudaGraph##kind##NodeSetParams(                                          \
        cudaGraphNode_t node, const struct cuda##kind##NodeParams *params) {                       \
        Driver driver = {0};                                                                       \
        ENTER();                                                                                   \
        TRY(take(&driver, params));                                                                \
        FINISH(cuGraph##kind##NodeSetParams(node, &driver));                                       \
    }                                                                                              \
    cudaError_t CUDARTAPI cudaGraphExec##kind##NodeSetParams(                                      \
        cudaGraphExec_t hGraphExec, cudaGraphNode_t node,                                          \
        const struct cuda##kind##NodeParams *params) {                                             \
        Driver driver = {0};                                                                       \
        ENTER();                                                                                   \
        TRY(take(&driver, params));                                                                \
        FINISH(cuGraphExec##kind##NodeSetParams(hGraphExec, node, &driver));                       \
    }

NODES(Kernel, CUDA_KERNEL_NODE_PARAMS, take_kernel)
NODES(Host, CUDA_HOST_NODE_PARAMS, take_host)

API_IF(pNodeParams, cudaGraphKernelNodeGetParams) {
    CUDA_KERNEL_NODE_PARAMS driver;
    TRY(cuGraphKernelNodeGetParams(node, &driver));
    *pNodeParams = (struct cudaKernelNodeParams){
        .func = driver.func, /* a handle, which stands for the host's function elsewhere too */
        .gridDim = {driver.gridDimX, driver.gridDimY, driver.gridDimZ},
        .blockDim = {driver.blockDimX, driver.blockDimY, driver.blockDimZ},
        .sharedMemBytes = driver.sharedMemBytes,
        .kernelParams = driver.kernelParams,
        .extra = driver.extra,
    };
    return cudaSuccess;
}

API_IF(pNodeParams, cudaGraphHostNodeGetParams) {
    CUDA_HOST_NODE_PARAMS driver;
    TRY(cuGraphHostNodeGetParams(node, &driver));
    *pNodeParams = (struct cudaHostNodeParams){.fn = driver.fn, .userData = driver.userData};
    return cudaSuccess;
}

/* The values of attributes have the driver's layout. */
_Static_assert(sizeof(cudaLaunchAttributeValue) == sizeof(CUkernelNodeAttrValue), "one layout");

/* CUDA 12 and 13 have these parameters in another order. */
FORWARD(cudaGraphKernelNodeCopyAttributes, cuGraphKernelNodeCopyAttributes(hDst, hSrc))

/* ---- copies and fills
 * ------------------------------------------------------------------------------------------------
 */

static cudaError_t take_row(CUDA_MEMCPY3D *copy, void *to, const void *from, size_t count,
                            enum cudaMemcpyKind kind) {
    *copy = (CUDA_MEMCPY3D){.WidthInBytes = count, .Height = 1, .Depth = 1};
    TRY(runtime_source(copy, from, count, 0, kind));
    return runtime_target(copy, to, count, 0, kind);
}

static cudaError_t take_to_symbol(CUDA_MEMCPY3D *copy, const void *symbol, const void *from,
                                  size_t count, size_t offset, enum cudaMemcpyKind kind) {
    void *to;
    TRY(runtime_variable_bytes(symbol, offset, count, &to));
    return take_row(copy, to, from, count, kind);
}

static cudaError_t take_from_symbol(CUDA_MEMCPY3D *copy, void *to, const void *symbol, size_t count,
                                    size_t offset, enum cudaMemcpyKind kind) {
    void *from;
    TRY(runtime_variable_bytes(symbol, offset, count, &from));
    return take_row(copy, to, from, count, kind);
}

#define COPIES(form, take, ...)                                                                    \
    cudaError_t CUDARTAPI cudaGraphAddMemcpyNode##form(WHERE, __VA_ARGS__) {                       \
        CUDA_MEMCPY3D copy;                                                                        \
        ENTER();                                                                                   \
        TRY(take);                                                                                 \
        FINISH(cuGraphAddMemcpyNode(AT_WHERE, &copy, current()));                                  \
    }                                                                                              \
    cudaError_t CUDARTAPI cudaGraphMemcpyNodeSetParams##form(cudaGraphNode_t node, __VA_ARGS__) {  \
        CUDA_MEMCPY3D copy;                                                                        \
        ENTER();                                                                                   \
        TRY(take);                                                                                 \
        FINISH(cuGraphMemcpyNodeSetParams(node, &copy));                                           \
    }                                                                                              \
    cudaError_t CUDARTAPI cudaGraphExecMemcpyNodeSetParams##form(                                  \
        cudaGraphExec_t hGraphExec, cudaGraphNode_t node, __VA_ARGS__) {                           \
        CUDA_MEMCPY3D copy;                                                                        \
        ENTER();                                                                                   \
        TRY(take);                                                                                 \
        FINISH(cuGraphExecMemcpyNodeSetParams(hGraphExec, node, &copy, current()));                \
    }

COPIES(, runtime_copy(&copy, params), const struct cudaMemcpy3DParms *params)
COPIES(1D, take_row(&copy, dst, src, count, kind), void *dst, const void *src, size_t count,
       enum cudaMemcpyKind kind)
COPIES(ToSymbol, take_to_symbol(&copy, symbol, src, count, offset, kind), const void *symbol,
       const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind)
COPIES(FromSymbol, take_from_symbol(&copy, dst, symbol, count, offset, kind), void *dst,
       const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind)

/* A fill has the driver's layout. */
_Static_assert(sizeof(struct cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS), "one layout");

FORWARD(cudaGraphAddMemsetNode,
        cuGraphAddMemsetNode(AT_WHERE, (const CUDA_MEMSET_NODE_PARAMS *)pMemsetParams, current()))
FORWARD(cudaGraphExecMemsetNodeSetParams,
        cuGraphExecMemsetNodeSetParams(hGraphExec, node,
                                       (const CUDA_MEMSET_NODE_PARAMS *)pNodeParams, current()))

/* ---- memory, events and graphs
 * ------------------------------------------------------------------------------------------------
 */

/* An allocation has the driver's layout. */
_Static_assert(sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS),
               "one layout");

FORWARD(cudaGraphConditionalHandleCreate,
        cuGraphConditionalHandleCreate((CUgraphConditionalHandle *)pHandle_out, graph, current(),
                                       defaultLaunchValue, flags))

/* ---- nodes of any kind: what the driver's structure has otherwise
 * ------------------------------------------------------------------------------------------------
 */

_Static_assert(sizeof(struct cudaGraphNodeParams) == sizeof(CUgraphNodeParams), "one layout");

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
        return runtime_copy(&to->memcpy.copyParams, &from->memcpy.copyParams);
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
