/* Events. As in NVIDIA's library, a null handle is an error before all else. */
#include "cuda_standin.h"

CUresult CUDAAPI cuEventCreate(CUevent *phEvent, unsigned int Flags) {
    ENTER(CURRENT);
    unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    CHECK(!(Flags & ~known), CUDA_ERROR_INVALID_VALUE);
    CHECK(!(Flags & CU_EVENT_INTERPROCESS), CUDA_ERROR_NOT_SUPPORTED);
    return event_create((void **)phEvent, Flags);
}

CUresult CUDAAPI cuEventDestroy(CUevent hEvent) {
    CHECK(hEvent, CUDA_ERROR_INVALID_HANDLE);
    ENTER(READY);
    return event_destroy(hEvent);
}

FORWARD(cuEventRecord, CURRENT, event_record(hEvent, hStream, false))

CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
    ENTER(CURRENT);
    CHECK(!(flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    return event_record(hEvent, hStream, flags & CU_EVENT_RECORD_EXTERNAL);
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
    ENTER(CURRENT);
    CHECK(!(Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    return stream_wait_event(hStream, hEvent, Flags & CU_EVENT_WAIT_EXTERNAL);
}

CUresult CUDAAPI cuEventSynchronize(CUevent hEvent) {
    CHECK(hEvent, CUDA_ERROR_INVALID_HANDLE);
    ENTER(READY);
    return event_synchronize(hEvent);
}

CUresult CUDAAPI cuEventQuery(CUevent hEvent) {
    CHECK(hEvent, CUDA_ERROR_INVALID_HANDLE);
    ENTER(READY);
    return event_query(hEvent);
}

CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
    CHECK(hStart && hEnd, CUDA_ERROR_INVALID_HANDLE);
    ENTER(READY);
    return event_elapsed(pMilliseconds, hStart, hEnd);
}

/* The form of drivers older than CUDA 12.8. */
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd);
CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
    return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}
