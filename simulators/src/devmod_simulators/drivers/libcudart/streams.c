/* Streams, events and pools: those that exist, and what a thread may do while one captures. */
#include "runtime.h"

FORWARD(cudaStreamCreate, cuStreamCreate(pStream, CU_STREAM_DEFAULT))
FORWARD(cudaStreamCreateWithFlags, cuStreamCreate(pStream, flags))
FORWARD(cudaStreamCreateWithPriority, cuStreamCreateWithPriority(pStream, flags, priority))
FORWARD(cudaStreamDestroy, cuStreamDestroy(stream))
FORWARD(cudaDeviceGetStreamPriorityRange,
        cuCtxGetStreamPriorityRange(leastPriority, greatestPriority))
FORWARD(cudaThreadExchangeStreamCaptureMode,
        cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))

FORWARD(cudaEventCreate, cuEventCreate(event, CU_EVENT_DEFAULT))
FORWARD(cudaEventCreateWithFlags, cuEventCreate(event, flags))
FORWARD(cudaEventDestroy, cuEventDestroy(event))
FORWARD(cudaEventQuery, cuEventQuery(event))
FORWARD(cudaEventSynchronize, cuEventSynchronize(event))
FORWARD(cudaEventElapsedTime, cuEventElapsedTime(ms, start, end))
#if RUNTIME_MAJOR < 13
FORWARD(cudaEventElapsedTime_v2, cuEventElapsedTime_v2(ms, start, end))
#endif

/* ---- pools. Their properties and access have the runtime's numbers and layouts.
 * ------------------------------------------------------------------------------------------------
 */

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "one layout");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "one layout");
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "one layout");

FORWARD(cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool(memPool, device))
FORWARD(cudaDeviceGetMemPool, cuDeviceGetMemPool(memPool, device))
FORWARD(cudaDeviceSetMemPool, cuDeviceSetMemPool(device, memPool))
#if RUNTIME_MAJOR >= 13
FORWARD(cudaMemGetDefaultMemPool,
        cuMemGetDefaultMemPool(memPool, (CUmemLocation *)location, (CUmemAllocationType)type))
FORWARD(cudaMemGetMemPool,
        cuMemGetMemPool(memPool, (CUmemLocation *)location, (CUmemAllocationType)type))
FORWARD(cudaMemSetMemPool,
        cuMemSetMemPool((CUmemLocation *)location, (CUmemAllocationType)type, memPool))
#endif
FORWARD(cudaMemPoolCreate, cuMemPoolCreate(memPool, (const CUmemPoolProps *)poolProps))
FORWARD(cudaMemPoolDestroy, cuMemPoolDestroy(memPool))
FORWARD(cudaMemPoolTrimTo, cuMemPoolTrimTo(memPool, minBytesToKeep))
FORWARD(cudaMemPoolSetAttribute, cuMemPoolSetAttribute(memPool, (CUmemPool_attribute)attr, value))
FORWARD(cudaMemPoolGetAttribute, cuMemPoolGetAttribute(memPool, (CUmemPool_attribute)attr, value))
FORWARD(cudaMemPoolSetAccess, cuMemPoolSetAccess(memPool, (const CUmemAccessDesc *)descList, count))
FORWARD(cudaMemPoolGetAccess,
        cuMemPoolGetAccess((CUmemAccess_flags *)flags, memPool, (CUmemLocation *)location))
