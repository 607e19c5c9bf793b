/* Functions that are one of the driver (forwards.txt): structures have the driver's layout, and
 * numbers are the driver's. */
#include "runtime.h"

_Static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo),
               "one layout");
_Static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS),
               "one layout");
/* Shared memory has more bytes in the runtime's, of which the driver's has the lower ones. */
_Static_assert(sizeof(cudaLaunchConfig_t) == sizeof(CUlaunchConfig), "one layout");
_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "one layout");
_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData), "one layout");
_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "one layout");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "one layout");
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "one layout");

#include "forwards.h" /* a build writes it */

/* ---- the same with an argument more */

FORWARD(cudaStreamCreate, cuStreamCreate(pStream, CU_STREAM_DEFAULT))
FORWARD(cudaEventCreate, cuEventCreate(event, CU_EVENT_DEFAULT))
/* The pitch is for this size of elements: any row is aligned to it. */
FORWARD(cudaMallocPitch, cuMemAllocPitch((CUdeviceptr *)devPtr, pitch, width, height, 4))
