/* Work of a stream that is no copy, fill or launch: events, captures, allocations, prefetches. */
#include "runtime.h"

#include <stdlib.h>

FORWARD(cudaStreamSynchronize, cuStreamSynchronize(STREAM(stream)))
FORWARD(cudaStreamQuery, cuStreamQuery(STREAM(stream)))
FORWARD(cudaStreamGetFlags, cuStreamGetFlags(STREAM(hStream), flags))
FORWARD(cudaStreamGetPriority, cuStreamGetPriority(STREAM(hStream), priority))
FORWARD(cudaStreamGetId, cuStreamGetId(STREAM(hStream), streamId))
FORWARD(cudaStreamGetDevice, cuStreamGetDevice(STREAM(hStream), device))
FORWARD(cudaStreamWaitEvent, cuStreamWaitEvent(STREAM(stream), event, flags))
FORWARD(cudaEventRecord, cuEventRecord(event, STREAM(stream)))
FORWARD(cudaEventRecordWithFlags, cuEventRecordWithFlags(event, STREAM(stream), flags))
FORWARD(cudaStreamAttachMemAsync,
        cuStreamAttachMemAsync(STREAM(stream), POINTER(devPtr), length, flags))

/* Attributes of a stream have the runtime's numbers and layouts. */
FORWARD(cudaStreamSetAttribute,
        cuStreamSetAttribute(STREAM(hStream), (CUstreamAttrID)attr, (const void *)value))
FORWARD(cudaStreamGetAttribute,
        cuStreamGetAttribute(STREAM(hStream), (CUstreamAttrID)attr, (void *)value_out))
FORWARD(cudaStreamCopyAttributes, cuStreamCopyAttributes(STREAM(dst), STREAM(src)))

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

ALLOCATE(cudaMallocAsync, cuMemAllocAsync((CUdeviceptr *)devPtr, size, STREAM(hStream)), devPtr)
FORWARD(cudaMallocFromPoolAsync,
        cuMemAllocFromPoolAsync((CUdeviceptr *)ptr, size, memPool, STREAM(stream)))
FORWARD(cudaFreeAsync, cuMemFreeAsync(POINTER(devPtr), STREAM(hStream)))

#if RUNTIME_MAJOR >= 13
#define cudaMemPrefetchAsync_v2 cudaMemPrefetchAsync
#else
FORWARD(cudaMemPrefetchAsync, cuMemPrefetchAsync_v2(POINTER(devPtr), count,
                                                    runtime_location(dstDevice), 0, STREAM(stream)))
#endif

FORWARD(cudaMemPrefetchAsync_v2,
        cuMemPrefetchAsync_v2(POINTER(devPtr), count,
                              (CUmemLocation){.type = (CUmemLocationType)location.type,
                                              .id = location.id},
                              flags, STREAM(stream)))

/* ---- captures
 * --------------------------------------------------------------------------------------------------------------
 */

FORWARD(cudaStreamBeginCapture, cuStreamBeginCapture(STREAM(stream), (CUstreamCaptureMode)mode))
FORWARD(cudaStreamEndCapture, cuStreamEndCapture(STREAM(stream), pGraph))
FORWARD(cudaStreamIsCapturing,
        cuStreamIsCapturing(STREAM(stream), (CUstreamCaptureStatus *)pCaptureStatus))

#define CAPTURE_INFO(stream, edges)                                                                \
    cuStreamGetCaptureInfo_v3(STREAM(stream), (CUstreamCaptureStatus *)captureStatus_out,          \
                              (cuuint64_t *)id_out, graph_out, dependencies_out, edges,            \
                              numDependencies_out)

#if RUNTIME_MAJOR >= 13
#define cudaStreamGetCaptureInfo_v3 cudaStreamGetCaptureInfo
#else
FORWARD(cudaStreamGetCaptureInfo, CAPTURE_INFO(stream, NULL))
#endif

FORWARD(cudaStreamGetCaptureInfo_v3, CAPTURE_INFO(stream, (const CUgraphEdgeData **)edgeData_out))

FORWARD(cudaStreamBeginCaptureToGraph,
        cuStreamBeginCaptureToGraph(STREAM(stream), graph, dependencies,
                                    (const CUgraphEdgeData *)dependencyData, numDependencies,
                                    (CUstreamCaptureMode)mode))

#if RUNTIME_MAJOR >= 13
#define cudaStreamUpdateCaptureDependencies_v2 cudaStreamUpdateCaptureDependencies
#else
FORWARD(cudaStreamUpdateCaptureDependencies,
        cuStreamUpdateCaptureDependencies_v2(STREAM(stream), dependencies, NULL, numDependencies,
                                             flags))
#endif

FORWARD(cudaStreamUpdateCaptureDependencies_v2,
        cuStreamUpdateCaptureDependencies_v2(STREAM(stream), dependencies,
                                             (const CUgraphEdgeData *)dependencyData,
                                             numDependencies, flags))

/* ---- graphs
 * ----------------------------------------------------------------------------------------------------------------
 */

FORWARD(cudaGraphLaunch, cuGraphLaunch(graphExec, STREAM(stream)))
FORWARD(cudaGraphUpload, cuGraphUpload(graphExec, STREAM(stream)))
FORWARD(cudaGraphInstantiateWithParams,
        cuGraphInstantiateWithParams(pGraphExec, graph,
                                     (CUDA_GRAPH_INSTANTIATE_PARAMS *)instantiateParams))
