/* Devices: their number, names and targets. */
#include "hip_standin.h"

/* Write the target of a device, such as gfx90a:sramecc+:xnack-. */
void device_target(int device, char target[TARGET_BYTES]) {
    device_setting("arch", device, "gfx1100", target, TARGET_BYTES);
}

void device_name(int device, char *name, size_t size) {
    device_setting("name", device, "stand-in runtime (no GPU)", name, size);
}

HIP(hipGetDeviceCount, ANY) {
    CHECK(count, CODE_INVALID_VALUE);
    *count = 0;
    TRY(process_initialize());
    *count = device_count();
    return CODE_SUCCESS;
}

HIP(hipDeviceGet, READY) {
    CHECK(device, CODE_INVALID_VALUE);
    CHECK(device_valid(ordinal) && ordinal < device_count(), CODE_INVALID_DEVICE);
    *device = ordinal;
    return CODE_SUCCESS;
}

HIP(hipDeviceGetName, READY) {
    CHECK(name && len > 0, CODE_INVALID_VALUE);
    CHECK(device_valid(device), CODE_INVALID_DEVICE);
    device_name(device, name, (size_t)len);
    return CODE_SUCCESS;
}

HIP_FORWARD(hipDeviceTotalMem, READY, GIVE_OF(device, bytes, device_memory()))

HIP(hipDeviceGetAttribute, READY) {
    CHECK(pi && attr >= 0 && attr < hipDeviceAttributes, CODE_INVALID_VALUE);
    CHECK(device_valid(deviceId), CODE_INVALID_DEVICE);
    *pi = device_attribute(deviceId, attr);
    return CODE_SUCCESS;
}
