/* Events. As in NVIDIA's library, a null handle is an error before all else. */
#include "cuda_standin.h"

API(cuEventCreate, CURRENT) {
    unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    CHECK(!(Flags & ~known), CUDA_ERROR_INVALID_VALUE);
    CHECK(!(Flags & CU_EVENT_INTERPROCESS), CUDA_ERROR_NOT_SUPPORTED);
    return event_create((void **)phEvent, Flags);
}

FORWARD_OF(hEvent, cuEventDestroy, READY, event_destroy(hEvent))

FORWARD(cuEventRecord, CURRENT, event_record(hEvent, hStream, false))

FORWARD_IF(!(flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL), cuEventRecordWithFlags, CURRENT,
           event_record(hEvent, hStream, (flags & CU_EVENT_RECORD_EXTERNAL) != 0))

FORWARD_IF(!(Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL), cuStreamWaitEvent, CURRENT,
           stream_wait_event(hStream, hEvent, (Flags & CU_EVENT_WAIT_EXTERNAL) != 0))

FORWARD_OF(hEvent, cuEventSynchronize, READY, event_synchronize(hEvent))

FORWARD_OF(hEvent, cuEventQuery, READY, event_query(hEvent))

FORWARD_OF(hStart != NULL && hEnd != NULL, cuEventElapsedTime, READY,
           event_elapsed(pMilliseconds, hStart, hEnd))

/* The form of drivers older than CUDA 12.8. */
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
    return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}
