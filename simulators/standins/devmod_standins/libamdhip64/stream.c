/* Streams, their captures, and events. */
#include "hip_standin.h"

HIP(hipStreamCreate, CURRENT, (hipStream_t * stream), (stream)) {
    return stream_create(stream, 0, 0);
}

HIP(hipStreamCreateWithFlags, CURRENT, (hipStream_t * stream, unsigned flags), (stream, flags)) {
    return stream_create(stream, flags, 0);
}

HIP(hipStreamDestroy, READY, (hipStream_t stream), (stream)) {
    return stream_destroy(stream);
}

HIP(hipStreamSynchronize, CURRENT, (hipStream_t stream), (stream)) {
    return stream_synchronize(stream);
}

HIP(hipStreamQuery, CURRENT, (hipStream_t stream), (stream)) {
    return stream_query(stream);
}

HIP(hipStreamWaitEvent, CURRENT, (hipStream_t stream, hipEvent_t event, unsigned flags),
    (stream, event, flags)) {
    CHECK(!flags, CODE_INVALID_VALUE);
    return stream_wait_event(stream, event, false);
}

HIP(hipStreamGetDevice, CURRENT, (hipStream_t stream, int *device), (stream, device)) {
    Stream *object;
    CHECK(device, CODE_INVALID_VALUE);
    TRY(stream_of(stream, &object));
    *device = context_of_stream(object)->device;
    return CODE_SUCCESS;
}

HIP(hipLaunchHostFunc, CURRENT, (hipStream_t stream, hipHostFn_t fn, void *userData),
    (stream, fn, userData)) {
    return stream_call(stream, fn, userData);
}

/* ---- captures
 * --------------------------------------------------------------------------------------------------------------
 */

HIP(hipStreamBeginCapture, CURRENT, (hipStream_t stream, int mode), (stream, mode)) {
    return capture_begin(stream, (CaptureMode)mode);
}

HIP(hipStreamEndCapture, CURRENT, (hipStream_t stream, hipGraph_t *pGraph), (stream, pGraph)) {
    return capture_end(stream, pGraph);
}

HIP(hipStreamIsCapturing, CURRENT, (hipStream_t stream, int *pCaptureStatus),
    (stream, pCaptureStatus)) {
    return capture_status(stream, (CaptureStatus *)pCaptureStatus);
}

HIP(hipThreadExchangeStreamCaptureMode, READY, (int *mode), (mode)) {
    return capture_exchange_mode(mode);
}

/* ---- events
 * ----------------------------------------------------------------------------------------------------------------
 */

HIP(hipEventCreate, CURRENT, (hipEvent_t * event), (event)) {
    return event_create(event, 0);
}

HIP(hipEventCreateWithFlags, CURRENT, (hipEvent_t * event, unsigned flags), (event, flags)) {
    unsigned known =
        hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess | 0xe0000000u;
    CHECK(!(flags & ~known), CODE_INVALID_VALUE);
    CHECK(!(flags & hipEventInterprocess), CODE_NOT_SUPPORTED);
    return event_create(event, flags);
}

HIP(hipEventDestroy, READY, (hipEvent_t event), (event)) {
    return event_destroy(event);
}

HIP(hipEventRecord, CURRENT, (hipEvent_t event, hipStream_t stream), (event, stream)) {
    return event_record(event, stream, false);
}

HIP(hipEventSynchronize, READY, (hipEvent_t event), (event)) {
    return event_synchronize(event);
}

HIP(hipEventQuery, READY, (hipEvent_t event), (event)) {
    return event_query(event);
}

HIP(hipEventElapsedTime, READY, (float *ms, hipEvent_t start, hipEvent_t stop), (ms, start, stop)) {
    return event_elapsed(ms, start, stop);
}
