/* Streams and their captures. */
#include "cuda_standin.h"

FORWARD(cuStreamCreate, CURRENT, stream_create((void **)phStream, Flags, 0))
FORWARD(cuStreamCreateWithPriority, CURRENT, stream_create((void **)phStream, flags, priority))

FORWARD_OF(hStream, cuStreamDestroy, READY, stream_destroy(hStream))

FORWARD(cuStreamSynchronize, CURRENT, stream_synchronize(hStream))
FORWARD(cuStreamQuery, CURRENT, stream_query(hStream))

CUresult CUDAAPI cuStreamGetFlags(CUstream hStream, unsigned int *flags) {
    ENTER(CURRENT);
    Stream *stream;
    CHECK(flags, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_of(hStream, &stream));
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetPriority(CUstream hStream, int *priority) {
    ENTER(CURRENT);
    Stream *stream;
    CHECK(priority, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_of(hStream, &stream));
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx(CUstream hStream, CUcontext *pctx) {
    ENTER(READY);
    Stream *stream;
    bool special = !hStream || hStream == CU_STREAM_LEGACY || hStream == CU_STREAM_PER_THREAD;
    CHECK(pctx, CUDA_ERROR_INVALID_VALUE);
    CHECK(!special || current_context(),
          CUDA_ERROR_INVALID_CONTEXT); /* these alone are the current context's */
    TRY(stream_of(hStream, &stream));
    *pctx = context_of_stream(stream)->handle;
    return CUDA_SUCCESS;
}

FORWARD(cuLaunchHostFunc, CURRENT, stream_call(hStream, fn, userData))

/* ---- captures
 * --------------------------------------------------------------------------------------------------------------
 */

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    ENTER(ANY); /* a thread has its mode without a device too, once cuInit was called */
    CHECK(process_was_initialized(), CUDA_ERROR_NOT_INITIALIZED);
    return capture_exchange_mode((int *)mode);
}

FORWARD(cuStreamBeginCapture, CURRENT, capture_begin(hStream, (CaptureMode)mode))
FORWARD(cuStreamEndCapture, CURRENT, capture_end(hStream, (void **)phGraph))
FORWARD(cuStreamIsCapturing, CURRENT, capture_status(hStream, (CaptureStatus *)captureStatus))

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                             const CUgraphNode *dependencies,
                                             const CUgraphEdgeData *dependencyData,
                                             size_t numDependencies, CUstreamCaptureMode mode) {
    ENTER(CURRENT);
    (void)dependencyData; /* the next node waits for the whole of them */
    return capture_begin_to(hStream, hGraph, (void *const *)dependencies, numDependencies,
                            (CaptureMode)mode);
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
                                                   const CUgraphEdgeData *dependencyData,
                                                   size_t numDependencies, unsigned int flags) {
    ENTER(CURRENT);
    (void)dependencyData;
    CHECK(flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES, CUDA_ERROR_INVALID_VALUE);
    return capture_set_front(hStream, (void *const *)dependencies, numDependencies,
                             flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                        cuuint64_t *id_out, CUgraph *graph_out,
                                        const CUgraphNode **dependencies_out,
                                        const CUgraphEdgeData **edgeData_out,
                                        size_t *numDependencies_out) {
    ENTER(CURRENT);
    CaptureInfo info = {0};
    CHECK(captureStatus_out, CUDA_ERROR_INVALID_VALUE);
    TRY(capture_info(hStream, &info));
    *captureStatus_out = (CUstreamCaptureStatus)info.status;
    if (id_out)
        *id_out = info.number;
    if (graph_out)
        *graph_out = info.graph;
    if (dependencies_out)
        *dependencies_out = (const CUgraphNode *)info.nodes;
    if (edgeData_out)
        *edgeData_out = (const CUgraphEdgeData *)info.data;
    if (numDependencies_out)
        *numDependencies_out = info.count;
    return CUDA_SUCCESS;
}
