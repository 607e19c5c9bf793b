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

#define NAME(name) {name, #name},

static const struct {
    cudaError_t code;
    const char *name;
} names[] = {
#include "error_names.h" /* a build writes it, from NVIDIA's header */
};

/* The texts are those of NVIDIA's library. The driver has the others. */
static const struct {
    cudaError_t code;
    const char *text;
} texts[] = {
    {cudaErrorInvalidConfiguration, "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "invalid pitch argument"},
    {cudaErrorInvalidSymbol, "invalid device symbol"},
    {cudaErrorInvalidHostPointer, "invalid host pointer"},
    {cudaErrorInvalidDevicePointer, "invalid device pointer"},
    {cudaErrorInvalidTexture, "invalid texture reference"},
    {cudaErrorInvalidTextureBinding, "texture is not bound to a pointer"},
    {cudaErrorInvalidChannelDescriptor, "invalid channel descriptor"},
    {cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"},
    {cudaErrorAddressOfConstant, "invalid address of constant"},
    {cudaErrorTextureFetchFailed, "fetch from texture failed"},
    {cudaErrorTextureNotBound, "cannot fetch from a texture that is not bound"},
    {cudaErrorSynchronizationError, "incorrect use of __syncthreads()"},
    {cudaErrorInvalidFilterSetting, "linear filtering not supported for non-float type"},
    {cudaErrorInvalidNormSetting, "read as normalized float not supported for data type"},
    {cudaErrorMixedDeviceExecution,
     "device emulation mode and device execution mode cannot be mixed"},
    {cudaErrorNotYetImplemented, "feature not yet implemented"},
    {cudaErrorMemoryValueTooLarge, "memory size or pointer value too large to fit in 32 bit"},
    {cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidSurface, "invalid surface reference"},
    {cudaErrorDuplicateVariableName, "duplicate global variable looked up by string name"},
    {cudaErrorDuplicateTextureName, "duplicate texture looked up by string name"},
    {cudaErrorDuplicateSurfaceName, "duplicate surface looked up by string name"},
    {cudaErrorIncompatibleDriverContext, "incompatible driver context"},
    {cudaErrorMissingConfiguration, "__global__ function call is not configured"},
    {cudaErrorPriorLaunchFailure, "unspecified launch failure in prior launch"},
    {cudaErrorLaunchMaxDepthExceeded, "launch would exceed maximum depth of nested launches"},
    {cudaErrorLaunchFileScopedTex,
     "launch failed because kernel uses unsupported, file-scoped textures (texture objects are supported)"},
    {cudaErrorLaunchFileScopedSurf,
     "launch failed because kernel uses unsupported, file-scoped surfaces (surface objects are supported)"},
    {cudaErrorSyncDepthExceeded,
     "cudaDeviceSynchronize failed because caller's grid depth exceeds cudaLimitDevRuntimeSyncDepth"},
    {cudaErrorLaunchPendingCountExceeded,
     "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount"},
    {cudaErrorInvalidDeviceFunction, "invalid device function"},
    {cudaErrorSoftwareValidityNotEstablished, "integrity checks failed"},
    {cudaErrorStartupFailure, "startup failure in cuda runtime"},
    {cudaErrorApiFailureBase, "api failure base"},
#if CUDART_VERSION >= 13050
    {cudaErrorVersionTranslation,
     "Driver is newer than runtime and returned parameters the runtime cannot process"},
#endif
};

enum { NAMES = sizeof names / sizeof names[0], TEXTS = sizeof texts / sizeof texts[0] };

static const char unknown[] = "unrecognized error code";

const char *CUDARTAPI cudaGetErrorName(cudaError_t error) {
    for (int i = 0; i < NAMES; i++)
        if (names[i].code == error)
            return names[i].name;
    return unknown;
}

/* The driver's text of a kernel's failure has the reason. */
const char *CUDARTAPI cudaGetErrorString(cudaError_t error) {
    const char *text = unknown;
    for (int i = 0; i < TEXTS; i++)
        if (texts[i].code == error)
            return texts[i].text;
    if (cudaGetErrorName(error) != unknown)
        cuGetErrorString((CUresult)error, &text);
    return text;
}
