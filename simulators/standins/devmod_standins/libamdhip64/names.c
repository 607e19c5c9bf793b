/* The names and the texts of HIP's errors. A text is the name, in words since HIP 6. */
#include "hip_standin.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int code;
    const char *name;
} names[] = {
    {0, "hipSuccess"},
    {1, "hipErrorInvalidValue"},
    {2, "hipErrorOutOfMemory"},
    {3, "hipErrorNotInitialized"},
    {4, "hipErrorDeinitialized"},
    {9, "hipErrorInvalidConfiguration"},
    {12, "hipErrorInvalidPitchValue"},
    {13, "hipErrorInvalidSymbol"},
    {17, "hipErrorInvalidDevicePointer"},
    {21, "hipErrorInvalidMemcpyDirection"},
    {35, "hipErrorInsufficientDriver"},
    {53, "hipErrorPriorLaunchFailure"},
    {98, "hipErrorInvalidDeviceFunction"},
    {100, "hipErrorNoDevice"},
    {101, "hipErrorInvalidDevice"},
    {200, "hipErrorInvalidImage"},
    {201, "hipErrorInvalidContext"},
    {209, "hipErrorNoBinaryForGpu"},
    {214, "hipErrorECCNotCorrectable"},
    {215, "hipErrorUnsupportedLimit"},
    {217, "hipErrorPeerAccessUnsupported"},
    {218, "hipErrorInvalidKernelFile"},
    {300, "hipErrorInvalidSource"},
    {301, "hipErrorFileNotFound"},
    {302, "hipErrorSharedObjectSymbolNotFound"},
    {303, "hipErrorSharedObjectInitFailed"},
    {304, "hipErrorOperatingSystem"},
    {400, "hipErrorInvalidHandle"},
    {401, "hipErrorIllegalState"},
    {500, "hipErrorNotFound"},
    {600, "hipErrorNotReady"},
    {700, "hipErrorIllegalAddress"},
    {701, "hipErrorLaunchOutOfResources"},
    {702, "hipErrorLaunchTimeOut"},
    {704, "hipErrorPeerAccessAlreadyEnabled"},
    {705, "hipErrorPeerAccessNotEnabled"},
    {708, "hipErrorSetOnActiveProcess"},
    {709, "hipErrorContextIsDestroyed"},
    {710, "hipErrorAssert"},
    {712, "hipErrorHostMemoryAlreadyRegistered"},
    {713, "hipErrorHostMemoryNotRegistered"},
    {719, "hipErrorLaunchFailure"},
    {720, "hipErrorCooperativeLaunchTooLarge"},
    {801, "hipErrorNotSupported"},
    {900, "hipErrorStreamCaptureUnsupported"},
    {901, "hipErrorStreamCaptureInvalidated"},
    {902, "hipErrorStreamCaptureMerge"},
    {903, "hipErrorStreamCaptureUnmatched"},
    {904, "hipErrorStreamCaptureUnjoined"},
    {905, "hipErrorStreamCaptureIsolation"},
    {906, "hipErrorStreamCaptureImplicit"},
    {907, "hipErrorCapturedEvent"},
    {908, "hipErrorStreamCaptureWrongThread"},
    {910, "hipErrorGraphExecUpdateFailure"},
    {999, "hipErrorUnknown"},
    {1052, "hipErrorRuntimeMemory"},
    {1053, "hipErrorRuntimeOther"},
};

enum { COUNT = sizeof names / sizeof names[0] };

static int place_of(int code) {
    for (int i = 0; i < COUNT; i++)
        if (names[i].code == code)
            return i;
    return -1;
}

/* Return the words of a name: hipErrorOutOfMemory is "out of memory". */
static const char *words(int place) {
    static char texts[COUNT][64];
    const char *name = names[place].code ? names[place].name + strlen("hipError") : "NoError";
    char text[64];
    size_t length = 0;
    for (; *name && length + 2 < sizeof text; name++) {
        if (isupper((unsigned char)*name) && length && !isupper((unsigned char)name[-1]))
            text[length++] = ' ';
        text[length++] = (char)tolower((unsigned char)*name);
    }
    text[length] = 0;
    memcpy(texts[place], text,
           sizeof text); /* the same bytes each time, so threads do not matter */
    return texts[place];
}

const char *hipGetErrorName(hipError_t error) {
    int place = place_of(error);
    return place < 0 ? "hipErrorUnknown" : names[place].name;
}

const char *hipGetErrorString(hipError_t error) {
    int place = place_of(error);
    if (!hip_since(6))
        return hipGetErrorName(error);
    return words(place < 0 ? place_of(CODE_UNKNOWN) : place);
}
