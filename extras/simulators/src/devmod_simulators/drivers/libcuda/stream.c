/* Streams and their captures. */
#include "cuda_standin.h"

FORWARD(cuStreamCreate, CURRENT, stream_create((void **)phStream, Flags, 0))
FORWARD(cuStreamCreateWithPriority, CURRENT, stream_create((void **)phStream, flags, priority))

FORWARD_OF(hStream, cuStreamDestroy, READY, stream_destroy(hStream))

FORWARD(cuStreamSynchronize, CURRENT, stream_synchronize(hStream))
FORWARD(cuStreamQuery, CURRENT, stream_query(hStream))

WITH_STREAM(cuStreamGetFlags, GIVE(flags, stream->flags))

WITH_STREAM(cuStreamGetPriority, GIVE(priority, stream->priority))

API_IF(pctx, cuStreamGetCtx, READY) {
    Stream *stream;
    bool special = !hStream || hStream == CU_STREAM_LEGACY || hStream == CU_STREAM_PER_THREAD;
    CHECK(!special || current_context(),
          CUDA_ERROR_INVALID_CONTEXT); /* these alone are the current context's */
    TRY(stream_of(hStream, &stream));
    *pctx = context_of_stream(stream)->handle;
    return CUDA_SUCCESS;
}

FORWARD(cuLaunchHostFunc, CURRENT, stream_call(hStream, fn, userData))

/* ---- captures */

API(cuThreadExchangeStreamCaptureMode, ANY) {
    /* a thread has its mode without a device too, once cuInit was called */
    CHECK(process_was_initialized(), CUDA_ERROR_NOT_INITIALIZED);
    return capture_exchange_mode((int *)mode);
}

FORWARD(cuStreamBeginCapture, CURRENT, capture_begin(hStream, (CaptureMode)mode, NULL, NULL, 0))
FORWARD(cuStreamEndCapture, CURRENT, capture_end(hStream, (void **)phGraph))
FORWARD(cuStreamIsCapturing, CURRENT, capture_status(hStream, (CaptureStatus *)captureStatus))

/* The next node waits for the whole of others, whatever the data of their edges. */
FORWARD_IF(graph_of(hGraph), cuStreamBeginCaptureToGraph, CURRENT,
           capture_begin(hStream, (CaptureMode)mode, hGraph, (void *const *)dependencies,
                         numDependencies))

FORWARD_IF(flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES, cuStreamUpdateCaptureDependencies, CURRENT,
           capture_set_front(hStream, (void *const *)dependencies, numDependencies,
                             flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES))

API_IF(captureStatus_out, cuStreamGetCaptureInfo, CURRENT) {
    CaptureInfo info = {0};
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
