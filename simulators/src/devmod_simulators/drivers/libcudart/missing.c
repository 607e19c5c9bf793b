/* The functions of NVIDIA's library that this one lacks: an error with the name. The definitions
 * are weak, so a file that defines one of them needs no change here. */
#include <stdbool.h>

#include "version.h"

/* This file includes none of NVIDIA's headers, for these are not its prototypes: each function
 * ignores what its callers pass. */
int runtime_missing(const char *name, bool *told);

#define MISSING(name)                                                                              \
    __attribute__((weak)) int name(void);                                                          \
    __attribute__((weak)) int name(void) {                                                         \
        static bool told;                                                                          \
        return runtime_missing(#name, &told);                                                      \
    }

#define MISSING4(a, b, c, d) MISSING(a) MISSING(b) MISSING(c) MISSING(d)

MISSING4(cudaArrayGetMemoryRequirements, cudaArrayGetPlane, cudaArrayGetSparseProperties,
         cudaDestroyExternalMemory)
MISSING4(cudaDestroyExternalSemaphore, cudaDeviceFlushGPUDirectRDMAWrites,
         cudaDeviceGetNvSciSyncAttributes, cudaDeviceGetTexture1DLinearMaxWidth)
MISSING4(cudaDeviceRegisterAsyncNotification, cudaDeviceUnregisterAsyncNotification,
         cudaEGLStreamConsumerAcquireFrame, cudaEGLStreamConsumerConnect)
MISSING4(cudaEGLStreamConsumerConnectWithFlags, cudaEGLStreamConsumerDisconnect,
         cudaEGLStreamConsumerReleaseFrame, cudaEGLStreamProducerConnect)
MISSING4(cudaEGLStreamProducerDisconnect, cudaEGLStreamProducerPresentFrame,
         cudaEGLStreamProducerReturnFrame, cudaEventCreateFromEGLSync)
MISSING4(cudaExternalMemoryGetMappedBuffer, cudaExternalMemoryGetMappedMipmappedArray,
         cudaFreeMipmappedArray, cudaGLGetDevices)
MISSING4(cudaGLMapBufferObject, cudaGLMapBufferObjectAsync, cudaGLRegisterBufferObject,
         cudaGLSetBufferObjectMapFlags)
MISSING4(cudaGLSetGLDevice, cudaGLUnmapBufferObject, cudaGLUnmapBufferObjectAsync,
         cudaGLUnregisterBufferObject)
MISSING4(cudaGetExportTable, cudaGetMipmappedArrayLevel, cudaGetSurfaceObjectResourceDesc,
         cudaGetTextureObjectResourceDesc)
MISSING4(cudaGetTextureObjectResourceViewDesc, cudaGetTextureObjectTextureDesc,
         cudaGraphAddExternalSemaphoresSignalNode, cudaGraphAddExternalSemaphoresWaitNode)
MISSING4(cudaGraphExecExternalSemaphoresSignalNodeSetParams,
         cudaGraphExecExternalSemaphoresWaitNodeSetParams, cudaGraphExecGetFlags,
         cudaGraphExternalSemaphoresSignalNodeGetParams)
MISSING4(cudaGraphExternalSemaphoresSignalNodeSetParams,
         cudaGraphExternalSemaphoresWaitNodeGetParams, cudaGraphExternalSemaphoresWaitNodeSetParams,
         cudaGraphMemcpyNodeGetParams)
MISSING4(cudaGraphicsEGLRegisterImage, cudaGraphicsGLRegisterBuffer, cudaGraphicsGLRegisterImage,
         cudaGraphicsMapResources)
MISSING4(cudaGraphicsResourceGetMappedEglFrame, cudaGraphicsResourceGetMappedMipmappedArray,
         cudaGraphicsResourceGetMappedPointer, cudaGraphicsResourceSetMapFlags)
MISSING4(cudaGraphicsSubResourceGetMappedArray, cudaGraphicsUnmapResources,
         cudaGraphicsUnregisterResource, cudaGraphicsVDPAURegisterOutputSurface)
MISSING4(cudaGraphicsVDPAURegisterVideoSurface, cudaImportExternalMemory,
         cudaImportExternalSemaphore, cudaIpcCloseMemHandle)
MISSING4(cudaIpcGetEventHandle, cudaIpcGetMemHandle, cudaIpcOpenEventHandle, cudaIpcOpenMemHandle)
MISSING4(cudaLibraryGetUnifiedFunction, cudaMallocMipmappedArray, cudaMemPoolExportPointer,
         cudaMemPoolExportToShareableHandle)
MISSING4(cudaMemPoolImportFromShareableHandle, cudaMemPoolImportPointer, cudaMemRangeGetAttributes,
         cudaMemcpy3DBatchAsync)
MISSING4(cudaMemcpy3DBatchAsync_ptsz, cudaMipmappedArrayGetMemoryRequirements,
         cudaMipmappedArrayGetSparseProperties, cudaSignalExternalSemaphoresAsync)
MISSING4(cudaSignalExternalSemaphoresAsync_ptsz, cudaVDPAUGetDevice, cudaVDPAUSetVDPAUDevice,
         cudaWaitExternalSemaphoresAsync)
MISSING(cudaWaitExternalSemaphoresAsync_ptsz)

#if RUNTIME_MAJOR == 12
MISSING4(cudaGetDeviceProperties, cudaLaunchCooperativeKernelMultiDevice, cudaSetDoubleForDevice,
         cudaSetDoubleForHost)
MISSING4(cudaSignalExternalSemaphoresAsync_v2, cudaSignalExternalSemaphoresAsync_v2_ptsz,
         cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz)
MISSING(cudaWaitExternalSemaphoresAsync_v2)
MISSING(cudaWaitExternalSemaphoresAsync_v2_ptsz)
#else
MISSING4(__cudaGetProcAddress, cudaDevResourceGenerateDesc, cudaDevSmResourceSplit,
         cudaDevSmResourceSplitByCount)
MISSING4(cudaDeviceGetDevResource, cudaDeviceGetExecutionCtx, cudaDeviceGetHostAtomicCapabilities,
         cudaDeviceGetP2PAtomicCapabilities)
MISSING4(cudaExecutionCtxDestroy, cudaExecutionCtxGetDevResource, cudaExecutionCtxGetDevice,
         cudaExecutionCtxGetId)
MISSING4(cudaExecutionCtxRecordEvent, cudaExecutionCtxStreamCreate, cudaExecutionCtxSynchronize,
         cudaExecutionCtxWaitEvent)
MISSING4(cudaGraphConditionalHandleCreate_v2, cudaGraphExecGetId, cudaGraphGetId,
         cudaGraphNodeGetContainingGraph)
MISSING4(cudaGraphNodeGetLocalId, cudaGraphNodeGetParams, cudaGraphNodeGetToolsId,
         cudaGreenCtxCreate)
MISSING4(cudaLogsCurrent, cudaLogsDumpToFile, cudaLogsDumpToMemory, cudaLogsRegisterCallback)
MISSING4(cudaLogsUnregisterCallback, cudaMemDiscardAndPrefetchBatchAsync,
         cudaMemDiscardAndPrefetchBatchAsync_ptsz, cudaMemDiscardBatchAsync)
MISSING4(cudaMemDiscardBatchAsync_ptsz, cudaMemGetDefaultMemPool, cudaMemGetLocationInfo,
         cudaMemGetMemPool)
MISSING4(cudaMemPrefetchBatchAsync, cudaMemPrefetchBatchAsync_ptsz, cudaMemSetMemPool,
         cudaMemcpy3DWithAttributesAsync)
MISSING4(cudaMemcpy3DWithAttributesAsync_ptsz, cudaMemcpyWithAttributesAsync,
         cudaMemcpyWithAttributesAsync_ptsz, cudaStreamBeginRecaptureToGraph)
MISSING4(cudaStreamBeginRecaptureToGraph_ptsz, cudaStreamGetDevResource,
         cudaStreamGetDevResource_ptsz, cudaSubgridCreate)
MISSING(cudaSubgridWorkerGridCreate)
MISSING(cudaSubgridWorksetCreate)
#endif
