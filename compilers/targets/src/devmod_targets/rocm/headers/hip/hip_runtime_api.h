/* HIP's functions for the host. clang checks the host's half of a source also in a compile for a device, and emits none of it. So a
 * function here accepts any arguments and does nothing, and constants have the values of HIP 6.
 */
#pragma once
#include <devmod_hip.h>

typedef enum hipError_t {
    hipSuccess = 0,
    hipErrorInvalidValue = 1,
    hipErrorOutOfMemory = 2,
    hipErrorMemoryAllocation = 2,
    hipErrorNotInitialized = 3,
    hipErrorInitializationError = 3,
    hipErrorDeinitialized = 4,
    hipErrorInvalidConfiguration = 9,
    hipErrorInvalidSymbol = 13,
    hipErrorInvalidDevicePointer = 17,
    hipErrorInvalidMemcpyDirection = 21,
    hipErrorInsufficientDriver = 35,
    hipErrorMissingConfiguration = 52,
    hipErrorInvalidDeviceFunction = 98,
    hipErrorNoDevice = 100,
    hipErrorInvalidDevice = 101,
    hipErrorInvalidImage = 200,
    hipErrorInvalidContext = 201,
    hipErrorNoBinaryForGpu = 209,
    hipErrorUnsupportedLimit = 215,
    hipErrorPeerAccessUnsupported = 217,
    hipErrorFileNotFound = 301,
    hipErrorOperatingSystem = 304,
    hipErrorInvalidHandle = 400,
    hipErrorInvalidResourceHandle = 400,
    hipErrorNotFound = 500,
    hipErrorNotReady = 600,
    hipErrorIllegalAddress = 700,
    hipErrorLaunchOutOfResources = 701,
    hipErrorLaunchTimeOut = 702,
    hipErrorPeerAccessAlreadyEnabled = 704,
    hipErrorPeerAccessNotEnabled = 705,
    hipErrorAssert = 710,
    hipErrorHostMemoryAlreadyRegistered = 712,
    hipErrorHostMemoryNotRegistered = 713,
    hipErrorLaunchFailure = 719,
    hipErrorCooperativeLaunchTooLarge = 720,
    hipErrorNotSupported = 801,
    hipErrorUnknown = 999
} hipError_t;
typedef enum hipMemcpyKind {
    hipMemcpyHostToHost, hipMemcpyHostToDevice, hipMemcpyDeviceToHost, hipMemcpyDeviceToDevice, hipMemcpyDefault
} hipMemcpyKind;
typedef enum hipComputeMode {
    hipComputeModeDefault, hipComputeModeExclusive, hipComputeModeProhibited, hipComputeModeExclusiveProcess
} hipComputeMode;
typedef enum hipFuncCache_t {
    hipFuncCachePreferNone, hipFuncCachePreferShared, hipFuncCachePreferL1, hipFuncCachePreferEqual
} hipFuncCache_t;
typedef enum hipSharedMemConfig {
    hipSharedMemBankSizeDefault, hipSharedMemBankSizeFourByte, hipSharedMemBankSizeEightByte
} hipSharedMemConfig;
typedef enum hipFuncAttribute {
    hipFuncAttributeMaxDynamicSharedMemorySize = 8, hipFuncAttributePreferredSharedMemoryCarveout = 9
} hipFuncAttribute;
typedef enum hipMemoryType {
    hipMemoryTypeUnregistered, hipMemoryTypeHost, hipMemoryTypeDevice, hipMemoryTypeManaged, hipMemoryTypeArray = 10, hipMemoryTypeUnified
} hipMemoryType;
typedef enum hipMemoryAdvise {
    hipMemAdviseSetReadMostly = 1, hipMemAdviseUnsetReadMostly, hipMemAdviseSetPreferredLocation, hipMemAdviseUnsetPreferredLocation,
    hipMemAdviseSetAccessedBy, hipMemAdviseUnsetAccessedBy, hipMemAdviseSetCoarseGrain = 100, hipMemAdviseUnsetCoarseGrain
} hipMemoryAdvise;
typedef enum hipLimit_t { hipLimitStackSize, hipLimitPrintfFifoSize, hipLimitMallocHeapSize } hipLimit_t;
typedef enum hipStreamCaptureMode {
    hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal, hipStreamCaptureModeRelaxed
} hipStreamCaptureMode;
typedef enum hipDataType { HIP_R_32F = 0, HIP_R_64F = 1, HIP_R_16F = 2, HIP_R_8I = 3, HIP_R_32I = 10, HIP_R_16BF = 14 } hipDataType;
typedef enum hipDeviceAttribute_t {
    hipDeviceAttributeCanMapHostMemory, hipDeviceAttributeClockRate, hipDeviceAttributeComputeCapabilityMajor,
    hipDeviceAttributeComputeCapabilityMinor, hipDeviceAttributeComputeMode, hipDeviceAttributeConcurrentKernels,
    hipDeviceAttributeConcurrentManagedAccess, hipDeviceAttributeCooperativeLaunch, hipDeviceAttributeCooperativeMultiDeviceLaunch,
    hipDeviceAttributeImageSupport, hipDeviceAttributeIntegrated, hipDeviceAttributeIsMultiGpuBoard, hipDeviceAttributeL2CacheSize,
    hipDeviceAttributeManagedMemory, hipDeviceAttributeMaxBlockDimX, hipDeviceAttributeMaxBlockDimY, hipDeviceAttributeMaxBlockDimZ,
    hipDeviceAttributeMaxGridDimX, hipDeviceAttributeMaxGridDimY, hipDeviceAttributeMaxGridDimZ, hipDeviceAttributeMaxPitch,
    hipDeviceAttributeMaxRegistersPerBlock, hipDeviceAttributeMaxRegistersPerMultiprocessor,
    hipDeviceAttributeMaxSharedMemoryPerBlock, hipDeviceAttributeMaxSharedMemoryPerMultiprocessor,
    hipDeviceAttributeMaxThreadsPerBlock, hipDeviceAttributeMaxThreadsPerMultiProcessor, hipDeviceAttributeMemoryBusWidth,
    hipDeviceAttributeMemoryClockRate, hipDeviceAttributeMemoryPoolsSupported, hipDeviceAttributeMultiprocessorCount,
    hipDeviceAttributePageableMemoryAccess, hipDeviceAttributePciBusId, hipDeviceAttributePciDeviceId, hipDeviceAttributePciDomainID,
    hipDeviceAttributeTotalConstantMemory, hipDeviceAttributeTotalGlobalMem, hipDeviceAttributeWallClockRate,
    hipDeviceAttributeWarpSize
} hipDeviceAttribute_t;

enum { HIP_SUCCESS, HIP_ERROR_INVALID_VALUE, HIP_ERROR_NOT_INITIALIZED, HIP_ERROR_LAUNCH_OUT_OF_RESOURCES };

#define DEVMOD_HANDLE(name) typedef struct devmod_##name *name;
DEVMOD_HANDLE(hipStream_t)
DEVMOD_HANDLE(hipEvent_t)
DEVMOD_HANDLE(hipCtx_t)
DEVMOD_HANDLE(hipModule_t)
DEVMOD_HANDLE(hipFunction_t)
DEVMOD_HANDLE(hipGraph_t)
DEVMOD_HANDLE(hipGraphNode_t)
DEVMOD_HANDLE(hipGraphExec_t)
DEVMOD_HANDLE(hipArray_t)
DEVMOD_HANDLE(hipMemPool_t)
typedef int hipDevice_t;
typedef void *hipDeviceptr_t;
typedef void (*hipStreamCallback_t)(hipStream_t, hipError_t, void *);
typedef struct hipUUID { char bytes[16]; } hipUUID;
typedef struct hipIpcMemHandle_t { char reserved[64]; } hipIpcMemHandle_t;
typedef struct hipFuncAttributes {
    int binaryVersion, cacheModeCA;
    size_t constSizeBytes, localSizeBytes;
    int maxDynamicSharedSizeBytes, maxThreadsPerBlock, numRegs, preferredShmemCarveout, ptxVersion;
    size_t sharedSizeBytes;
} hipFuncAttributes;
typedef struct hipPointerAttribute_t {
    hipMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
    int isManaged;
    unsigned allocationFlags;
} hipPointerAttribute_t;
typedef struct hipDeviceArch_t {
    unsigned hasGlobalInt32Atomics : 1, hasGlobalFloatAtomicExch : 1, hasSharedInt32Atomics : 1, hasSharedFloatAtomicExch : 1,
        hasFloatAtomicAdd : 1, hasGlobalInt64Atomics : 1, hasSharedInt64Atomics : 1, hasDoubles : 1, hasWarpVote : 1, hasWarpBallot : 1,
        hasWarpShuffle : 1, hasFunnelShift : 1, hasThreadFenceSystem : 1, hasSyncThreadsExt : 1, hasSurfaceFuncs : 1, has3dGrid : 1,
        hasDynamicParallelism : 1;
} hipDeviceArch_t;
typedef struct hipDeviceProp_t {
    char name[256];
    hipUUID uuid;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode, maxTexture1D,
        maxTexture2D[2], maxTexture3D[3], concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver,
        asyncEngineCount, unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize,
        maxThreadsPerMultiProcessor, streamPrioritiesSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported,
        singleToDoublePrecisionPerfRatio, pageableMemoryAccess, concurrentManagedAccess, cooperativeLaunch,
        cooperativeMultiDeviceLaunch;
    size_t sharedMemPerBlockOptin, maxSharedMemoryPerMultiProcessor;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor, memoryPoolsSupported;
    char gcnArchName[256];
    int clockInstructionRate, gcnArch, isLargeBar, asicRevision;
    hipDeviceArch_t arch;
} hipDeviceProp_t;

#define hipStreamDefault 0
#define hipStreamNonBlocking 1
#define hipEventDefault 0
#define hipEventBlockingSync 1
#define hipEventDisableTiming 2
#define hipEventInterprocess 4
#define hipHostMallocDefault 0
#define hipHostMallocPortable 1
#define hipHostMallocMapped 2
#define hipHostMallocWriteCombined 4
#define hipHostMallocNumaUser 0x20000000
#define hipHostMallocCoherent 0x40000000
#define hipHostMallocNonCoherent 0x80000000
#define hipHostRegisterDefault 0
#define hipHostRegisterPortable 1
#define hipHostRegisterMapped 2
#define hipHostRegisterReadOnly 8
#define hipMemAttachGlobal 1
#define hipMemAttachHost 2
#define hipDeviceScheduleAuto 0
#define hipDeviceScheduleSpin 1
#define hipDeviceScheduleYield 2
#define hipDeviceScheduleBlockingSync 4
#define hipDeviceMapHost 8
#define hipOccupancyDefault 0
#define hipIpcMemLazyEnablePeerAccess 1
#define hipGraphInstantiateFlagAutoFreeOnLaunch 1
#define hipCpuDeviceId (-1)
#define hipInvalidDeviceId (-2)
#define hipStreamPerThread ((hipStream_t)2)
#define hipStreamLegacy ((hipStream_t)1)
#define HIP_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define HIP_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)
#define HIP_LAUNCH_PARAM_END ((void *)3)
#define HIP_SYMBOL(name) name
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_VERSION_MAJOR 6
#define HIP_VERSION_MINOR 0
#define HIP_VERSION_PATCH 0
#define HIP_VERSION 60000000

/* What clang calls for kernel<<<grid, block>>>(…). */
extern "C" hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, hipStream_t stream = nullptr);
extern "C" hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, hipStream_t stream);
template <class F, class... A>
hipError_t hipLaunchCooperativeKernel(F kernel, dim3 grid, dim3 block, A... rest) { return hipSuccess; }
#ifdef HIP_TEMPLATE_KERNEL_LAUNCH
template <class... A, class F = void (*)(A...)> /* the default is for a kernel whose template arguments follow from its arguments */
void hipLaunchKernelGGL(F kernel, dim3 grid, dim3 block, unsigned shared, hipStream_t stream, A... arguments) {}
#else
#define hipLaunchKernelGGL(kernel, grid, block, shared, stream, ...) \
    do {                                                             \
        kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__); \
    } while (0)
#endif
const char *hipGetErrorString(hipError_t error);
const char *hipGetErrorName(hipError_t error);

#define DEVMOD_HOST(name) template <class... A> hipError_t name(A...) { return hipSuccess; }
/* devices */
DEVMOD_HOST(hipInit)
DEVMOD_HOST(hipDriverGetVersion)
DEVMOD_HOST(hipRuntimeGetVersion)
DEVMOD_HOST(hipGetDeviceCount)
DEVMOD_HOST(hipGetDevice)
DEVMOD_HOST(hipSetDevice)
DEVMOD_HOST(hipChooseDevice)
DEVMOD_HOST(hipSetDeviceFlags)
DEVMOD_HOST(hipGetDeviceFlags)
DEVMOD_HOST(hipGetDeviceProperties)
DEVMOD_HOST(hipDeviceGet)
DEVMOD_HOST(hipDeviceGetAttribute)
DEVMOD_HOST(hipDeviceGetName)
DEVMOD_HOST(hipDeviceGetUuid)
DEVMOD_HOST(hipDeviceGetPCIBusId)
DEVMOD_HOST(hipDeviceGetByPCIBusId)
DEVMOD_HOST(hipDeviceTotalMem)
DEVMOD_HOST(hipDeviceComputeCapability)
DEVMOD_HOST(hipDeviceGetLimit)
DEVMOD_HOST(hipDeviceSetLimit)
DEVMOD_HOST(hipDeviceGetStreamPriorityRange)
DEVMOD_HOST(hipDeviceSetCacheConfig)
DEVMOD_HOST(hipDeviceSetSharedMemConfig)
DEVMOD_HOST(hipDeviceSynchronize)
DEVMOD_HOST(hipDeviceReset)
DEVMOD_HOST(hipDeviceCanAccessPeer)
DEVMOD_HOST(hipDeviceEnablePeerAccess)
DEVMOD_HOST(hipDeviceDisablePeerAccess)
DEVMOD_HOST(hipDeviceGetP2PAttribute)
DEVMOD_HOST(hipGetLastError)
DEVMOD_HOST(hipPeekAtLastError)
DEVMOD_HOST(hipExtGetLastError)
DEVMOD_HOST(hipCtxCreate)
DEVMOD_HOST(hipCtxDestroy)
DEVMOD_HOST(hipCtxSetCurrent)
DEVMOD_HOST(hipCtxGetCurrent)
DEVMOD_HOST(hipCtxPushCurrent)
DEVMOD_HOST(hipCtxPopCurrent)
DEVMOD_HOST(hipCtxSynchronize)
DEVMOD_HOST(hipDevicePrimaryCtxRetain)
DEVMOD_HOST(hipDevicePrimaryCtxRelease)
DEVMOD_HOST(hipProfilerStart)
DEVMOD_HOST(hipProfilerStop)
/* memory */
DEVMOD_HOST(hipMalloc)
DEVMOD_HOST(hipMallocAsync)
DEVMOD_HOST(hipMallocManaged)
DEVMOD_HOST(hipMallocPitch)
DEVMOD_HOST(hipExtMallocWithFlags)
DEVMOD_HOST(hipFree)
DEVMOD_HOST(hipFreeAsync)
DEVMOD_HOST(hipHostMalloc)
DEVMOD_HOST(hipHostAlloc)
DEVMOD_HOST(hipHostFree)
DEVMOD_HOST(hipMallocHost)
DEVMOD_HOST(hipFreeHost)
DEVMOD_HOST(hipHostRegister)
DEVMOD_HOST(hipHostUnregister)
DEVMOD_HOST(hipHostGetDevicePointer)
DEVMOD_HOST(hipHostGetFlags)
DEVMOD_HOST(hipMemcpy)
DEVMOD_HOST(hipMemcpyAsync)
DEVMOD_HOST(hipMemcpyWithStream)
DEVMOD_HOST(hipMemcpy2D)
DEVMOD_HOST(hipMemcpy2DAsync)
DEVMOD_HOST(hipMemcpy3D)
DEVMOD_HOST(hipMemcpyPeer)
DEVMOD_HOST(hipMemcpyPeerAsync)
DEVMOD_HOST(hipMemcpyHtoD)
DEVMOD_HOST(hipMemcpyHtoDAsync)
DEVMOD_HOST(hipMemcpyDtoH)
DEVMOD_HOST(hipMemcpyDtoHAsync)
DEVMOD_HOST(hipMemcpyDtoD)
DEVMOD_HOST(hipMemcpyDtoDAsync)
DEVMOD_HOST(hipMemset)
DEVMOD_HOST(hipMemsetAsync)
DEVMOD_HOST(hipMemset2D)
DEVMOD_HOST(hipMemset2DAsync)
DEVMOD_HOST(hipMemsetD8)
DEVMOD_HOST(hipMemsetD16)
DEVMOD_HOST(hipMemsetD32)
DEVMOD_HOST(hipMemsetD32Async)
DEVMOD_HOST(hipMemGetInfo)
DEVMOD_HOST(hipMemAdvise)
DEVMOD_HOST(hipMemPrefetchAsync)
DEVMOD_HOST(hipMemGetAddressRange)
DEVMOD_HOST(hipPointerGetAttributes)
DEVMOD_HOST(hipIpcGetMemHandle)
DEVMOD_HOST(hipIpcOpenMemHandle)
DEVMOD_HOST(hipIpcCloseMemHandle)
DEVMOD_HOST(hipDeviceGetDefaultMemPool)
DEVMOD_HOST(hipMemPoolSetAttribute)
DEVMOD_HOST(hipMemPoolTrimTo)
/* A variable is an argument by reference: it may be an array, or have a type that cannot be copied. */
#define DEVMOD_HOST_SYMBOL(name) template <class S, class... A> hipError_t name(S &&, A...) { return hipSuccess; }
#define DEVMOD_HOST_TO_SYMBOL(name) template <class P, class S, class... A> hipError_t name(P, S &&, A...) { return hipSuccess; }
DEVMOD_HOST_SYMBOL(hipMemcpyToSymbol)
DEVMOD_HOST_SYMBOL(hipMemcpyToSymbolAsync)
DEVMOD_HOST_TO_SYMBOL(hipMemcpyFromSymbol)
DEVMOD_HOST_TO_SYMBOL(hipMemcpyFromSymbolAsync)
DEVMOD_HOST_TO_SYMBOL(hipGetSymbolAddress)
DEVMOD_HOST_TO_SYMBOL(hipGetSymbolSize)
/* streams, events, graphs */
DEVMOD_HOST(hipStreamCreate)
DEVMOD_HOST(hipStreamCreateWithFlags)
DEVMOD_HOST(hipStreamCreateWithPriority)
DEVMOD_HOST(hipStreamDestroy)
DEVMOD_HOST(hipStreamSynchronize)
DEVMOD_HOST(hipStreamQuery)
DEVMOD_HOST(hipStreamWaitEvent)
DEVMOD_HOST(hipStreamAddCallback)
DEVMOD_HOST(hipStreamGetFlags)
DEVMOD_HOST(hipStreamGetPriority)
DEVMOD_HOST(hipStreamGetDevice)
DEVMOD_HOST(hipStreamBeginCapture)
DEVMOD_HOST(hipStreamEndCapture)
DEVMOD_HOST(hipStreamIsCapturing)
DEVMOD_HOST(hipLaunchHostFunc)
DEVMOD_HOST(hipEventCreate)
DEVMOD_HOST(hipEventCreateWithFlags)
DEVMOD_HOST(hipEventDestroy)
DEVMOD_HOST(hipEventRecord)
DEVMOD_HOST(hipEventSynchronize)
DEVMOD_HOST(hipEventQuery)
DEVMOD_HOST(hipEventElapsedTime)
DEVMOD_HOST(hipGraphCreate)
DEVMOD_HOST(hipGraphDestroy)
DEVMOD_HOST(hipGraphInstantiate)
DEVMOD_HOST(hipGraphLaunch)
DEVMOD_HOST(hipGraphExecDestroy)
DEVMOD_HOST(hipGraphAddKernelNode)
DEVMOD_HOST(hipGraphAddMemcpyNode)
DEVMOD_HOST(hipGraphAddMemsetNode)
DEVMOD_HOST(hipGraphGetNodes)
/* modules, kernels, occupancy */
DEVMOD_HOST(hipModuleLoad)
DEVMOD_HOST(hipModuleLoadData)
DEVMOD_HOST(hipModuleLoadDataEx)
DEVMOD_HOST(hipModuleUnload)
DEVMOD_HOST(hipModuleGetFunction)
DEVMOD_HOST(hipModuleGetGlobal)
DEVMOD_HOST(hipModuleLaunchKernel)
DEVMOD_HOST(hipExtModuleLaunchKernel)
DEVMOD_HOST(hipHccModuleLaunchKernel)
DEVMOD_HOST(hipExtLaunchKernel)
DEVMOD_HOST(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor)
DEVMOD_HOST(hipModuleOccupancyMaxPotentialBlockSize)
DEVMOD_HOST(hipFuncGetAttributes)
DEVMOD_HOST(hipFuncSetAttribute)
DEVMOD_HOST(hipFuncSetCacheConfig)
DEVMOD_HOST(hipFuncSetSharedMemConfig)
DEVMOD_HOST(hipOccupancyMaxActiveBlocksPerMultiprocessor)
DEVMOD_HOST(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
DEVMOD_HOST(hipOccupancyMaxPotentialBlockSize)
