/* Streams, their captures, and events. */
#include "hip_standin.h"

HIP(hipStreamCreate, CURRENT, (hipStream_t *stream), (stream))
{
    return stream_create(stream, 0, 0);
}

HIP(hipStreamCreateWithFlags, CURRENT, (hipStream_t *stream, unsigned flags), (stream, flags))
{
    return stream_create(stream, flags, 0);
}

HIP(hipStreamCreateWithPriority, CURRENT, (hipStream_t *stream, unsigned flags, int priority), (stream, flags, priority))
{
    return stream_create(stream, flags, priority);
}

HIP(hipStreamDestroy, READY, (hipStream_t stream), (stream))
{
    return stream_destroy(stream);
}

HIP(hipStreamSynchronize, CURRENT, (hipStream_t stream), (stream))
{
    return stream_synchronize(stream);
}

HIP(hipStreamQuery, CURRENT, (hipStream_t stream), (stream))
{
    return stream_query(stream);
}

HIP(hipStreamWaitEvent, CURRENT, (hipStream_t stream, hipEvent_t event, unsigned flags), (stream, event, flags))
{
    CHECK(!flags, CODE_INVALID_VALUE);
    return stream_wait_event(stream, event);
}

HIP(hipStreamGetFlags, CURRENT, (hipStream_t stream, unsigned *flags), (stream, flags))
{
    Stream *object;
    CHECK(flags, CODE_INVALID_VALUE);
    TRY(stream_of(stream, &object));
    *flags = object->flags;
    return CODE_SUCCESS;
}

HIP(hipStreamGetPriority, CURRENT, (hipStream_t stream, int *priority), (stream, priority))
{
    Stream *object;
    CHECK(priority, CODE_INVALID_VALUE);
    TRY(stream_of(stream, &object));
    *priority = object->priority;
    return CODE_SUCCESS;
}

HIP(hipStreamGetDevice, CURRENT, (hipStream_t stream, int *device), (stream, device))
{
    Stream *object;
    CHECK(device, CODE_INVALID_VALUE);
    TRY(stream_of(stream, &object));
    *device = context_of_stream(object)->device;
    return CODE_SUCCESS;
}

HIP(hipLaunchHostFunc, CURRENT, (hipStream_t stream, hipHostFn_t fn, void *userData), (stream, fn, userData))
{
    return stream_call(stream, fn, userData);
}

HIP(hipStreamAddCallback, CURRENT, (hipStream_t stream, hipStreamCallback_t callback, void *userData, unsigned flags),
    (stream, callback, userData, flags))
{
    CHECK(!flags, CODE_INVALID_VALUE);
    return stream_call_back(stream, callback, userData);
}

/* ---- captures -------------------------------------------------------------------------------------------------------------- */

HIP(hipStreamBeginCapture, CURRENT, (hipStream_t stream, int mode), (stream, mode))
{
    return capture_begin(stream, (CaptureMode)mode);
}

HIP(hipStreamEndCapture, CURRENT, (hipStream_t stream, hipGraph_t *pGraph), (stream, pGraph))
{
    return capture_end(stream, pGraph);
}

HIP(hipStreamIsCapturing, CURRENT, (hipStream_t stream, int *pCaptureStatus), (stream, pCaptureStatus))
{
    return capture_status(stream, (CaptureStatus *)pCaptureStatus);
}

HIP(hipStreamGetCaptureInfo, CURRENT, (hipStream_t stream, int *pCaptureStatus, unsigned long long *pId), (stream, pCaptureStatus, pId))
{
    TRY(capture_status(stream, (CaptureStatus *)pCaptureStatus));
    if (pId)
        *pId = (uintptr_t)stream;
    return CODE_SUCCESS;
}

HIP(hipStreamGetCaptureInfo_v2, CURRENT,
    (hipStream_t stream, int *captureStatus_out, unsigned long long *id_out, hipGraph_t *graph_out,
     const hipGraphNode_t **dependencies_out, size_t *numDependencies_out),
    (stream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out))
{
    CHECK(!graph_out && !dependencies_out && !numDependencies_out, CODE_NOT_SUPPORTED);
    TRY(capture_status(stream, (CaptureStatus *)captureStatus_out));
    if (id_out)
        *id_out = (uintptr_t)stream;
    return CODE_SUCCESS;
}

HIP(hipThreadExchangeStreamCaptureMode, READY, (int *mode), (mode))
{
    return capture_exchange_mode(mode);
}

/* ---- events ---------------------------------------------------------------------------------------------------------------- */

HIP(hipEventCreate, CURRENT, (hipEvent_t *event), (event))
{
    return event_create(event, 0);
}

HIP(hipEventCreateWithFlags, CURRENT, (hipEvent_t *event, unsigned flags), (event, flags))
{
    unsigned known = hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess | 0xe0000000u;
    CHECK(!(flags & ~known), CODE_INVALID_VALUE);
    CHECK(!(flags & hipEventInterprocess), CODE_NOT_SUPPORTED);
    return event_create(event, flags);
}

HIP(hipEventDestroy, READY, (hipEvent_t event), (event))
{
    return event_destroy(event);
}

HIP(hipEventRecord, CURRENT, (hipEvent_t event, hipStream_t stream), (event, stream))
{
    return event_record(event, stream);
}

HIP(hipEventRecordWithFlags, CURRENT, (hipEvent_t event, hipStream_t stream, unsigned flags), (event, stream, flags))
{
    CHECK(!flags, CODE_INVALID_VALUE);
    return event_record(event, stream);
}

HIP(hipEventSynchronize, READY, (hipEvent_t event), (event))
{
    return event_synchronize(event);
}

HIP(hipEventQuery, READY, (hipEvent_t event), (event))
{
    return event_query(event);
}

HIP(hipEventElapsedTime, READY, (float *ms, hipEvent_t start, hipEvent_t stop), (ms, start, stop))
{
    return event_elapsed(ms, start, stop);
}
