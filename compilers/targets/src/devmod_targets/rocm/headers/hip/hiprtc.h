/* The functions of hiprtc, for the host's half of a source, as in hip_runtime_api.h. */
#pragma once
#include <hip/hip_runtime_api.h>

typedef enum hiprtcResult { HIPRTC_SUCCESS, HIPRTC_ERROR_OUT_OF_MEMORY, HIPRTC_ERROR_INVALID_INPUT = 3, HIPRTC_ERROR_COMPILATION = 6 } hiprtcResult;
DEVMOD_HANDLE(hiprtcProgram)
const char *hiprtcGetErrorString(hiprtcResult result);
#define DEVMOD_RTC(name) template <class... A> hiprtcResult name(A...) { return HIPRTC_SUCCESS; }
DEVMOD_RTC(hiprtcVersion)
DEVMOD_RTC(hiprtcCreateProgram)
DEVMOD_RTC(hiprtcCompileProgram)
DEVMOD_RTC(hiprtcDestroyProgram)
DEVMOD_RTC(hiprtcAddNameExpression)
DEVMOD_RTC(hiprtcGetLoweredName)
DEVMOD_RTC(hiprtcGetCode)
DEVMOD_RTC(hiprtcGetCodeSize)
DEVMOD_RTC(hiprtcGetProgramLog)
DEVMOD_RTC(hiprtcGetProgramLogSize)
