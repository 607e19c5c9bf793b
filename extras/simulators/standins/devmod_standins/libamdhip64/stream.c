/* Streams, their captures, and events. */
#include "hip_standin.h"

HIP_FORWARD(hipStreamCreate, CURRENT, stream_create(stream, 0, 0))

HIP_FORWARD(hipStreamCreateWithFlags, CURRENT, stream_create(stream, flags, 0))

HIP_FORWARD(hipStreamDestroy, READY, stream_destroy(stream))

HIP_FORWARD(hipStreamSynchronize, CURRENT, stream_synchronize(stream))

HIP_FORWARD(hipStreamQuery, CURRENT, stream_query(stream))

HIP(hipStreamWaitEvent, CURRENT) {
    CHECK(!flags, CODE_INVALID_VALUE);
    return stream_wait_event(stream, event, false);
}

HIP(hipStreamGetDevice, CURRENT) {
    Stream *object;
    CHECK(device, CODE_INVALID_VALUE);
    TRY(stream_of(stream, &object));
    *device = context_of_stream(object)->device;
    return CODE_SUCCESS;
}

HIP(hipStreamGetId, CURRENT) {
    Stream *object;
    CHECK(streamId, CODE_INVALID_VALUE);
    TRY(stream_of(stream, &object));
    *streamId = (uintptr_t)object; /* the structure stays */
    return CODE_SUCCESS;
}

HIP_FORWARD(hipLaunchHostFunc, CURRENT, stream_call(stream, fn, userData))

/* ---- captures */

HIP_FORWARD(hipStreamBeginCapture, CURRENT, capture_begin(stream, (CaptureMode)mode, NULL, NULL, 0))

HIP_FORWARD(hipStreamEndCapture, CURRENT, capture_end(stream, pGraph))

HIP_FORWARD(hipStreamIsCapturing, CURRENT, capture_status(stream, (CaptureStatus *)pCaptureStatus))

HIP_FORWARD(hipThreadExchangeStreamCaptureMode, READY, capture_exchange_mode(mode))

/* ---- events */

HIP_FORWARD(hipEventCreate, CURRENT, event_create(event, 0))

HIP(hipEventCreateWithFlags, CURRENT) {
    unsigned known =
        hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess | 0xe0000000u;
    CHECK(!(flags & ~known), CODE_INVALID_VALUE);
    CHECK(!(flags & hipEventInterprocess), CODE_NOT_SUPPORTED);
    return event_create(event, flags);
}

HIP_FORWARD(hipEventDestroy, READY, event_destroy(event))

HIP_FORWARD(hipEventRecord, CURRENT, event_record(event, stream, false))

HIP_FORWARD(hipEventSynchronize, READY, event_synchronize(event))

HIP_FORWARD(hipEventQuery, READY, event_query(event))

HIP_FORWARD(hipEventElapsedTime, READY, event_elapsed(ms, start, stop))
