/* Errors: the last one of each thread, names and texts. */
#include "runtime.h"

#include <stdio.h>
#include <string.h>

static __thread cudaError_t last;

/* Return whether an error has ended the context: it stays, as each later call would return it. */
static bool is_sticky(cudaError_t error) {
    switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorExternalDevice:
        return true;
    default:
        return false;
    }
}

/* CUDA's programming guide: cudaErrorNotReady is no error, and cudaGetLastError does not report it.
 */
cudaError_t runtime_note(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady && !is_sticky(last))
        last = error;
    return error;
}

int runtime_missing(const char *name, bool *told) {
    if (!*told)
        fprintf(stderr, "devmod-simulators: the simulated CUDA runtime does not have %s\n", name);
    *told = true;
    return runtime_note(cudaErrorNotSupported);
}

cudaError_t CUDARTAPI cudaGetLastError(void) {
    cudaError_t error = last;
    if (!is_sticky(error))
        last = cudaSuccess;
    return error;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void) {
    return last;
}

#define NAME(name) name, #name
/* The texts are those of NVIDIA's library; one without a text has the driver's. */
static const struct {
    cudaError_t code;
    const char *name, *text;
} names[] = {
    {NAME(cudaSuccess), NULL},
    {NAME(cudaErrorInvalidValue), NULL},
    {NAME(cudaErrorMemoryAllocation), NULL},
    {NAME(cudaErrorInitializationError), NULL},
    {NAME(cudaErrorCudartUnloading), NULL},
    {NAME(cudaErrorProfilerDisabled), NULL},
    {NAME(cudaErrorProfilerNotInitialized), NULL},
    {NAME(cudaErrorProfilerAlreadyStarted), NULL},
    {NAME(cudaErrorProfilerAlreadyStopped), NULL},
    {NAME(cudaErrorInvalidConfiguration), "invalid configuration argument"},
#if CUDART_VERSION >= 13050
    {NAME(cudaErrorVersionTranslation),
     "Driver is newer than runtime and returned parameters the runtime cannot process"},
#endif
    {NAME(cudaErrorInvalidPitchValue), "invalid pitch argument"},
    {NAME(cudaErrorInvalidSymbol), "invalid device symbol"},
    {NAME(cudaErrorInvalidHostPointer), "invalid host pointer"},
    {NAME(cudaErrorInvalidDevicePointer), "invalid device pointer"},
    {NAME(cudaErrorInvalidTexture), "invalid texture reference"},
    {NAME(cudaErrorInvalidTextureBinding), "texture is not bound to a pointer"},
    {NAME(cudaErrorInvalidChannelDescriptor), "invalid channel descriptor"},
    {NAME(cudaErrorInvalidMemcpyDirection), "invalid copy direction for memcpy"},
    {NAME(cudaErrorAddressOfConstant), "invalid address of constant"},
    {NAME(cudaErrorTextureFetchFailed), "fetch from texture failed"},
    {NAME(cudaErrorTextureNotBound), "cannot fetch from a texture that is not bound"},
    {NAME(cudaErrorSynchronizationError), "incorrect use of __syncthreads()"},
    {NAME(cudaErrorInvalidFilterSetting), "linear filtering not supported for non-float type"},
    {NAME(cudaErrorInvalidNormSetting), "read as normalized float not supported for data type"},
    {NAME(cudaErrorMixedDeviceExecution),
     "device emulation mode and device execution mode cannot be mixed"},
    {NAME(cudaErrorNotYetImplemented), "feature not yet implemented"},
    {NAME(cudaErrorMemoryValueTooLarge), "memory size or pointer value too large to fit in 32 bit"},
    {NAME(cudaErrorStubLibrary), NULL},
    {NAME(cudaErrorInsufficientDriver),
     "CUDA driver version is insufficient for CUDA runtime version"},
    {NAME(cudaErrorCallRequiresNewerDriver), NULL},
    {NAME(cudaErrorInvalidSurface), "invalid surface reference"},
    {NAME(cudaErrorDuplicateVariableName), "duplicate global variable looked up by string name"},
    {NAME(cudaErrorDuplicateTextureName), "duplicate texture looked up by string name"},
    {NAME(cudaErrorDuplicateSurfaceName), "duplicate surface looked up by string name"},
    {NAME(cudaErrorDevicesUnavailable), NULL},
    {NAME(cudaErrorIncompatibleDriverContext), "incompatible driver context"},
    {NAME(cudaErrorMissingConfiguration), "__global__ function call is not configured"},
    {NAME(cudaErrorPriorLaunchFailure), "unspecified launch failure in prior launch"},
    {NAME(cudaErrorLaunchMaxDepthExceeded), "launch would exceed maximum depth of nested launches"},
    {NAME(cudaErrorLaunchFileScopedTex),
     "launch failed because kernel uses unsupported, file-scoped textures (texture objects are supported)"},
    {NAME(cudaErrorLaunchFileScopedSurf),
     "launch failed because kernel uses unsupported, file-scoped surfaces (surface objects are supported)"},
    {NAME(cudaErrorSyncDepthExceeded),
     "cudaDeviceSynchronize failed because caller's grid depth exceeds cudaLimitDevRuntimeSyncDepth"},
    {NAME(cudaErrorLaunchPendingCountExceeded),
     "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount"},
    {NAME(cudaErrorInvalidDeviceFunction), "invalid device function"},
    {NAME(cudaErrorNoDevice), NULL},
    {NAME(cudaErrorInvalidDevice), NULL},
    {NAME(cudaErrorDeviceNotLicensed), NULL},
    {NAME(cudaErrorSoftwareValidityNotEstablished), "integrity checks failed"},
    {NAME(cudaErrorStartupFailure), "startup failure in cuda runtime"},
    {NAME(cudaErrorInvalidKernelImage), NULL},
    {NAME(cudaErrorDeviceUninitialized), NULL},
    {NAME(cudaErrorMapBufferObjectFailed), NULL},
    {NAME(cudaErrorUnmapBufferObjectFailed), NULL},
    {NAME(cudaErrorArrayIsMapped), NULL},
    {NAME(cudaErrorAlreadyMapped), NULL},
    {NAME(cudaErrorNoKernelImageForDevice), NULL},
    {NAME(cudaErrorAlreadyAcquired), NULL},
    {NAME(cudaErrorNotMapped), NULL},
    {NAME(cudaErrorNotMappedAsArray), NULL},
    {NAME(cudaErrorNotMappedAsPointer), NULL},
    {NAME(cudaErrorECCUncorrectable), NULL},
    {NAME(cudaErrorUnsupportedLimit), NULL},
    {NAME(cudaErrorDeviceAlreadyInUse), NULL},
    {NAME(cudaErrorPeerAccessUnsupported), NULL},
    {NAME(cudaErrorInvalidPtx), NULL},
    {NAME(cudaErrorInvalidGraphicsContext), NULL},
    {NAME(cudaErrorNvlinkUncorrectable), NULL},
    {NAME(cudaErrorJitCompilerNotFound), NULL},
    {NAME(cudaErrorUnsupportedPtxVersion), NULL},
    {NAME(cudaErrorJitCompilationDisabled), NULL},
    {NAME(cudaErrorUnsupportedExecAffinity), NULL},
    {NAME(cudaErrorUnsupportedDevSideSync), NULL},
    {NAME(cudaErrorContained), NULL},
#if CUDART_VERSION >= 13050
    {NAME(cudaErrorInsufficientLoaderVersion), NULL},
#endif
    {NAME(cudaErrorInvalidSource), NULL},
    {NAME(cudaErrorFileNotFound), NULL},
    {NAME(cudaErrorSharedObjectSymbolNotFound), NULL},
    {NAME(cudaErrorSharedObjectInitFailed), NULL},
    {NAME(cudaErrorOperatingSystem), NULL},
    {NAME(cudaErrorInvalidResourceHandle), NULL},
    {NAME(cudaErrorIllegalState), NULL},
    {NAME(cudaErrorLossyQuery), NULL},
    {NAME(cudaErrorSymbolNotFound), NULL},
    {NAME(cudaErrorNotReady), NULL},
    {NAME(cudaErrorIllegalAddress), NULL},
    {NAME(cudaErrorLaunchOutOfResources), NULL},
    {NAME(cudaErrorLaunchTimeout), NULL},
    {NAME(cudaErrorLaunchIncompatibleTexturing), NULL},
    {NAME(cudaErrorPeerAccessAlreadyEnabled), NULL},
    {NAME(cudaErrorPeerAccessNotEnabled), NULL},
    {NAME(cudaErrorSetOnActiveProcess), NULL},
    {NAME(cudaErrorContextIsDestroyed), NULL},
    {NAME(cudaErrorAssert), NULL},
    {NAME(cudaErrorTooManyPeers), NULL},
    {NAME(cudaErrorHostMemoryAlreadyRegistered), NULL},
    {NAME(cudaErrorHostMemoryNotRegistered), NULL},
    {NAME(cudaErrorHardwareStackError), NULL},
    {NAME(cudaErrorIllegalInstruction), NULL},
    {NAME(cudaErrorMisalignedAddress), NULL},
    {NAME(cudaErrorInvalidAddressSpace), NULL},
    {NAME(cudaErrorInvalidPc), NULL},
    {NAME(cudaErrorLaunchFailure), NULL},
    {NAME(cudaErrorCooperativeLaunchTooLarge), NULL},
    {NAME(cudaErrorTensorMemoryLeak), NULL},
    {NAME(cudaErrorNotPermitted), NULL},
    {NAME(cudaErrorNotSupported), NULL},
    {NAME(cudaErrorSystemNotReady), NULL},
    {NAME(cudaErrorSystemDriverMismatch), NULL},
    {NAME(cudaErrorCompatNotSupportedOnDevice), NULL},
    {NAME(cudaErrorMpsConnectionFailed), NULL},
    {NAME(cudaErrorMpsRpcFailure), NULL},
    {NAME(cudaErrorMpsServerNotReady), NULL},
    {NAME(cudaErrorMpsMaxClientsReached), NULL},
    {NAME(cudaErrorMpsMaxConnectionsReached), NULL},
    {NAME(cudaErrorMpsClientTerminated), NULL},
    {NAME(cudaErrorCdpNotSupported), NULL},
    {NAME(cudaErrorCdpVersionMismatch), NULL},
    {NAME(cudaErrorStreamCaptureUnsupported), NULL},
    {NAME(cudaErrorStreamCaptureInvalidated), NULL},
    {NAME(cudaErrorStreamCaptureMerge), NULL},
    {NAME(cudaErrorStreamCaptureUnmatched), NULL},
    {NAME(cudaErrorStreamCaptureUnjoined), NULL},
    {NAME(cudaErrorStreamCaptureIsolation), NULL},
    {NAME(cudaErrorStreamCaptureImplicit), NULL},
    {NAME(cudaErrorCapturedEvent), NULL},
    {NAME(cudaErrorStreamCaptureWrongThread), NULL},
    {NAME(cudaErrorTimeout), NULL},
    {NAME(cudaErrorGraphExecUpdateFailure), NULL},
    {NAME(cudaErrorExternalDevice), NULL},
    {NAME(cudaErrorInvalidClusterSize), NULL},
    {NAME(cudaErrorFunctionNotLoaded), NULL},
    {NAME(cudaErrorInvalidResourceType), NULL},
    {NAME(cudaErrorInvalidResourceConfiguration), NULL},
#if CUDART_VERSION >= 13050
    {NAME(cudaErrorStreamDetached), NULL},
#endif
#if CUDART_VERSION >= 13050
    {NAME(cudaErrorGraphRecaptureFailure), NULL},
#endif
#if CUDART_VERSION >= 13050
    {NAME(cudaErrorFabricNotReady), NULL},
#endif
    {NAME(cudaErrorUnknown), NULL},
};

static const char unknown[] = "unrecognized error code";

/* Return the index of an error in the table, -1 for an unknown one. */
static int index_of(cudaError_t error) {
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        if (names[i].code == error)
            return i;
    return -1;
}

const char *CUDARTAPI cudaGetErrorName(cudaError_t error) {
    int index = index_of(error);
    return index < 0 ? unknown : names[index].name;
}

/* The driver's text of a kernel's failure has the reason. */
const char *CUDARTAPI cudaGetErrorString(cudaError_t error) {
    const char *text = unknown;
    int index = index_of(error);
    if (index < 0)
        return unknown;
    if (names[index].text)
        return names[index].text;
    cuGetErrorString((CUresult)error, &text);
    return text;
}
