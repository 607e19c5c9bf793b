/* The errors of each thread, the version, and what common/process.c needs of HIP. */
#include "hip_standin.h"

static const char *const variables[] = {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", NULL};
static __thread int last_error;

const Vendor vendor = {
    .visible = variables,
    .initializes_itself = true,
    .without_device = CODE_INVALID_DEVICE,
    .current = hip_current,
    .frees_wait = true,
    .stages_pageable = true,
    .extra_end = (void *)(uintptr_t)HIP_LAUNCH_PARAM_END,
    .launch_failed = launch_failed,
    .hidden_value = hidden_value,
};

/* Note a code as the last error of this thread, and return it. */
hipError_t note_error(int code) {
    if (code && code != CODE_NOT_READY)
        last_error = code;
    return code;
}

/* Return the version of HIP: 10,000,000 for each major one and 100,000 for each minor one. */
int hip_version(void) {
    return (int)setting_number("driver_version", 70200000);
}

/* Return whether the version of HIP is at least a major one. */
bool hip_since(int major) {
    return hip_version() >= major * 10000000;
}

HIP_FORWARD(hipInit, READY, flags ? CODE_INVALID_VALUE : CODE_SUCCESS)
HIP_FORWARD(hipDriverGetVersion, ANY, GIVE(driverVersion, hip_version()))
HIP_FORWARD(hipRuntimeGetVersion, ANY, GIVE(runtimeVersion, hip_version()))

hipError_t hipGetLastError(void) {
    int code = last_error;
    last_error = CODE_SUCCESS;
    return code;
}
