/* Streams, events and pools: those that exist, and what a thread may do while one captures. */
#include "runtime.h"

FORWARD(cudaStreamCreate, cuStreamCreate(pStream, CU_STREAM_DEFAULT), cudaStream_t *pStream)
FORWARD(cudaStreamCreateWithFlags, cuStreamCreate(pStream, flags), cudaStream_t *pStream,
        unsigned int flags)
FORWARD(cudaStreamCreateWithPriority, cuStreamCreateWithPriority(pStream, flags, priority),
        cudaStream_t *pStream, unsigned int flags, int priority)
FORWARD(cudaStreamDestroy, cuStreamDestroy(stream), cudaStream_t stream)
FORWARD(cudaDeviceGetStreamPriorityRange,
        cuCtxGetStreamPriorityRange(leastPriority, greatestPriority), int *leastPriority,
        int *greatestPriority)
FORWARD(cudaThreadExchangeStreamCaptureMode,
        cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode),
        enum cudaStreamCaptureMode *mode)

FORWARD(cudaEventCreate, cuEventCreate(event, CU_EVENT_DEFAULT), cudaEvent_t *event)
FORWARD(cudaEventCreateWithFlags, cuEventCreate(event, flags), cudaEvent_t *event,
        unsigned int flags)
FORWARD(cudaEventDestroy, cuEventDestroy(event), cudaEvent_t event)
FORWARD(cudaEventQuery, cuEventQuery(event), cudaEvent_t event)
FORWARD(cudaEventSynchronize, cuEventSynchronize(event), cudaEvent_t event)
FORWARD(cudaEventElapsedTime, cuEventElapsedTime(ms, start, end), float *ms, cudaEvent_t start,
        cudaEvent_t end)
#if RUNTIME_MAJOR < 13
FORWARD(cudaEventElapsedTime_v2, cuEventElapsedTime_v2(ms, start, end), float *ms,
        cudaEvent_t start, cudaEvent_t end)
#endif

/* ---- pools. Their properties and access have the runtime's numbers and layouts.
 * ------------------------------------------------------------------------------------------------
 */

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "one layout");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "one layout");
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "one layout");

FORWARD(cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool(memPool, device),
        cudaMemPool_t *memPool, int device)
FORWARD(cudaDeviceGetMemPool, cuDeviceGetMemPool(memPool, device), cudaMemPool_t *memPool,
        int device)
FORWARD(cudaDeviceSetMemPool, cuDeviceSetMemPool(device, memPool), int device,
        cudaMemPool_t memPool)
FORWARD(cudaMemPoolCreate, cuMemPoolCreate(memPool, (const CUmemPoolProps *)poolProps),
        cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps)
FORWARD(cudaMemPoolDestroy, cuMemPoolDestroy(memPool), cudaMemPool_t memPool)
FORWARD(cudaMemPoolTrimTo, cuMemPoolTrimTo(memPool, minBytesToKeep), cudaMemPool_t memPool,
        size_t minBytesToKeep)
FORWARD(cudaMemPoolSetAttribute, cuMemPoolSetAttribute(memPool, (CUmemPool_attribute)attr, value),
        cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
FORWARD(cudaMemPoolGetAttribute, cuMemPoolGetAttribute(memPool, (CUmemPool_attribute)attr, value),
        cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
FORWARD(cudaMemPoolSetAccess, cuMemPoolSetAccess(memPool, (const CUmemAccessDesc *)descList, count),
        cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList, size_t count)
FORWARD(cudaMemPoolGetAccess,
        cuMemPoolGetAccess((CUmemAccess_flags *)flags, memPool, (CUmemLocation *)location),
        enum cudaMemAccessFlags *flags, cudaMemPool_t memPool, struct cudaMemLocation *location)
