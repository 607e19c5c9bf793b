/* Work of a stream that is no copy, fill or launch: events, captures, allocations, prefetches. */
#include "runtime.h"

#include <stdlib.h>

FORWARD(cudaStreamSynchronize, cuStreamSynchronize(STREAM(stream)), cudaStream_t stream)
FORWARD(cudaStreamQuery, cuStreamQuery(STREAM(stream)), cudaStream_t stream)
FORWARD(cudaStreamGetFlags, cuStreamGetFlags(STREAM(hStream), flags), cudaStream_t hStream,
        unsigned int *flags)
FORWARD(cudaStreamGetPriority, cuStreamGetPriority(STREAM(hStream), priority), cudaStream_t hStream,
        int *priority)
FORWARD(cudaStreamGetId, cuStreamGetId(STREAM(hStream), streamId), cudaStream_t hStream,
        unsigned long long *streamId)
FORWARD(cudaStreamGetDevice, cuStreamGetDevice(STREAM(hStream), device), cudaStream_t hStream,
        int *device)
FORWARD(cudaStreamWaitEvent, cuStreamWaitEvent(STREAM(stream), event, flags), cudaStream_t stream,
        cudaEvent_t event, unsigned int flags)
FORWARD(cudaEventRecord, cuEventRecord(event, STREAM(stream)), cudaEvent_t event,
        cudaStream_t stream)
FORWARD(cudaEventRecordWithFlags, cuEventRecordWithFlags(event, STREAM(stream), flags),
        cudaEvent_t event, cudaStream_t stream, unsigned int flags)
FORWARD(cudaStreamAttachMemAsync,
        cuStreamAttachMemAsync(STREAM(stream), POINTER(devPtr), length, flags), cudaStream_t stream,
        void *devPtr, size_t length, unsigned int flags)

/* Attributes of a stream have the runtime's numbers and layouts. */
FORWARD(cudaStreamSetAttribute,
        cuStreamSetAttribute(STREAM(hStream), (CUstreamAttrID)attr, (const void *)value),
        cudaStream_t hStream, cudaStreamAttrID attr, const cudaStreamAttrValue *value)
FORWARD(cudaStreamGetAttribute,
        cuStreamGetAttribute(STREAM(hStream), (CUstreamAttrID)attr, (void *)value_out),
        cudaStream_t hStream, cudaStreamAttrID attr, cudaStreamAttrValue *value_out)
FORWARD(cudaStreamCopyAttributes, cuStreamCopyAttributes(STREAM(dst), STREAM(src)),
        cudaStream_t dst, cudaStream_t src)

/* ---- callbacks
 * -------------------------------------------------------------------------------------------------------------
 */

typedef struct {
    cudaStreamCallback_t function;
    cudaStream_t stream;
    void *data;
} Callback;

static void call_back(void *data) {
    Callback callback = *(Callback *)data;
    free(data);
    callback.function(callback.stream, cudaSuccess, callback.data);
}

cudaError_t CUDARTAPI cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                            void *userData, unsigned int flags) {
    CUstreamCaptureStatus status;
    ENTER();
    CHECK(callback && !flags, cudaErrorInvalidValue);
    TRY(cuStreamIsCapturing(STREAM(stream), &status));
    if (status != CU_STREAM_CAPTURE_STATUS_NONE) /* unlike a host function, it is no node */
        FINISH(cuStreamSynchronize(STREAM(stream)));
    Callback *call = malloc(sizeof *call);
    CHECK(call, cudaErrorMemoryAllocation);
    *call = (Callback){callback, stream, userData};
    CUresult result = cuLaunchHostFunc(STREAM(stream), call_back, call);
    if (result)
        free(call);
    FINISH(result);
}

/* ---- memory
 * ----------------------------------------------------------------------------------------------------------------
 */

cudaError_t CUDARTAPI cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream) {
    ENTER();
    CHECK(devPtr, cudaErrorInvalidValue);
    *devPtr = NULL;
    if (!size)
        return cudaSuccess;
    FINISH(cuMemAllocAsync((CUdeviceptr *)devPtr, size, STREAM(hStream)));
}

FORWARD(cudaMallocFromPoolAsync,
        cuMemAllocFromPoolAsync((CUdeviceptr *)ptr, size, memPool, STREAM(stream)), void **ptr,
        size_t size, cudaMemPool_t memPool, cudaStream_t stream)
FORWARD(cudaFreeAsync, cuMemFreeAsync(POINTER(devPtr), STREAM(hStream)), void *devPtr,
        cudaStream_t hStream)

#if RUNTIME_MAJOR >= 13
#define cudaMemPrefetchAsync_v2 cudaMemPrefetchAsync
#else
FORWARD(cudaMemPrefetchAsync,
        cuMemPrefetchAsync_v2(POINTER(devPtr), count, runtime_location(dstDevice), 0,
                              STREAM(stream)),
        const void *devPtr, size_t count, int dstDevice, cudaStream_t stream)
#endif

FORWARD(cudaMemPrefetchAsync_v2,
        cuMemPrefetchAsync_v2(POINTER(devPtr), count,
                              (CUmemLocation){.type = (CUmemLocationType)location.type,
                                              .id = location.id},
                              flags, STREAM(stream)),
        const void *devPtr, size_t count, struct cudaMemLocation location, unsigned int flags,
        cudaStream_t stream)

/* ---- captures
 * --------------------------------------------------------------------------------------------------------------
 */

FORWARD(cudaStreamBeginCapture, cuStreamBeginCapture(STREAM(stream), (CUstreamCaptureMode)mode),
        cudaStream_t stream, enum cudaStreamCaptureMode mode)
FORWARD(cudaStreamEndCapture, cuStreamEndCapture(STREAM(stream), pGraph), cudaStream_t stream,
        cudaGraph_t *pGraph)
FORWARD(cudaStreamIsCapturing,
        cuStreamIsCapturing(STREAM(stream), (CUstreamCaptureStatus *)pCaptureStatus),
        cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus)

#define CAPTURE_INFO(stream, edges)                                                                \
    cuStreamGetCaptureInfo_v3(STREAM(stream), (CUstreamCaptureStatus *)captureStatus_out,          \
                              (cuuint64_t *)id_out, graph_out, dependencies_out, edges,            \
                              numDependencies_out)

#if RUNTIME_MAJOR >= 13
#define cudaStreamGetCaptureInfo_v3 cudaStreamGetCaptureInfo
#else
FORWARD(cudaStreamGetCaptureInfo, CAPTURE_INFO(stream, NULL), cudaStream_t stream,
        enum cudaStreamCaptureStatus *captureStatus_out, unsigned long long *id_out,
        cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out,
        size_t *numDependencies_out)
#endif

FORWARD(cudaStreamGetCaptureInfo_v3, CAPTURE_INFO(stream, (const CUgraphEdgeData **)edgeData_out),
        cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
        unsigned long long *id_out, cudaGraph_t *graph_out,
        const cudaGraphNode_t **dependencies_out, const cudaGraphEdgeData **edgeData_out,
        size_t *numDependencies_out)

FORWARD(cudaStreamBeginCaptureToGraph,
        cuStreamBeginCaptureToGraph(STREAM(stream), graph, dependencies,
                                    (const CUgraphEdgeData *)dependencyData, numDependencies,
                                    (CUstreamCaptureMode)mode),
        cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
        const cudaGraphEdgeData *dependencyData, size_t numDependencies,
        enum cudaStreamCaptureMode mode)

#if RUNTIME_MAJOR >= 13
#define cudaStreamUpdateCaptureDependencies_v2 cudaStreamUpdateCaptureDependencies
#else
FORWARD(cudaStreamUpdateCaptureDependencies,
        cuStreamUpdateCaptureDependencies_v2(STREAM(stream), dependencies, NULL, numDependencies,
                                             flags),
        cudaStream_t stream, cudaGraphNode_t *dependencies, size_t numDependencies,
        unsigned int flags)
#endif

FORWARD(cudaStreamUpdateCaptureDependencies_v2,
        cuStreamUpdateCaptureDependencies_v2(STREAM(stream), dependencies,
                                             (const CUgraphEdgeData *)dependencyData,
                                             numDependencies, flags),
        cudaStream_t stream, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *dependencyData,
        size_t numDependencies, unsigned int flags)

/* ---- graphs
 * ----------------------------------------------------------------------------------------------------------------
 */

FORWARD(cudaGraphLaunch, cuGraphLaunch(graphExec, STREAM(stream)), cudaGraphExec_t graphExec,
        cudaStream_t stream)
FORWARD(cudaGraphUpload, cuGraphUpload(graphExec, STREAM(stream)), cudaGraphExec_t graphExec,
        cudaStream_t stream)
FORWARD(cudaGraphInstantiateWithParams,
        cuGraphInstantiateWithParams(pGraphExec, graph,
                                     (CUDA_GRAPH_INSTANTIATE_PARAMS *)instantiateParams),
        cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
        cudaGraphInstantiateParams *instantiateParams)
