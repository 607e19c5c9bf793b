/* Work of a stream that is no copy, fill or launch: events, captures, allocations, prefetches. */
#include "runtime.h"

#include <stdlib.h>

#include "stream_forwards.h" /* a build writes it, of forwards.txt */

/* ---- callbacks */

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

API_IF((callback && !flags), cudaStreamAddCallback) {
    CUstreamCaptureStatus status;
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

/* ---- memory */

ALLOCATE(cudaMallocAsync, cuMemAllocAsync((CUdeviceptr *)devPtr, size, STREAM(hStream)), devPtr)
