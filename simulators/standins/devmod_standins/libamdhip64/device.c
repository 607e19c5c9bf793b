/* Devices: their number, targets and limits. */
#include "hip_standin.h"

void device_target(int device, char target[TARGET_BYTES]) {
    device_setting("arch", device, "gfx1100", target, TARGET_BYTES);
}

void device_name(int device, char *name, size_t size) {
    device_setting("name", device, "stand-in runtime (no GPU)", name, size);
}

int device_attribute(int device, int attribute) {
    char target[TARGET_BYTES];
    device_target(device, target);
    switch (attribute) {
    case hipDeviceAttributeAsyncEngineCount:
        return 2;
    case hipDeviceAttributeCanMapHostMemory:
        return 1;
    case hipDeviceAttributeClockRate:
        return 1000000;
    case hipDeviceAttributeConcurrentKernels:
        return 1;
    case hipDeviceAttributeCooperativeLaunch:
        return 1;
    case hipDeviceAttributeIntegrated:
        return 0;
    case hipDeviceAttributeL2CacheSize:
        return 4 << 20;
    case hipDeviceAttributeComputeCapabilityMajor:
        return target_major(target);
    case hipDeviceAttributeComputeCapabilityMinor:
        return target_minor(target);
    case hipDeviceAttributeManagedMemory:
        return 1;
    case hipDeviceAttributeMaxBlocksPerMultiProcessor:
        return 32;
    case hipDeviceAttributeMaxBlockDimX:
    case hipDeviceAttributeMaxBlockDimY:
    case hipDeviceAttributeMaxBlockDimZ:
        return MAX_THREADS;
    case hipDeviceAttributeMaxGridDimX:
        return 2147483647;
    case hipDeviceAttributeMaxGridDimY:
    case hipDeviceAttributeMaxGridDimZ:
        return 65536;
    case hipDeviceAttributeMaxThreadsPerBlock:
        return MAX_THREADS;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor:
        return 2048;
    case hipDeviceAttributeMaxPitch:
        return 2147483647;
    case hipDeviceAttributeMemoryBusWidth:
        return 384;
    case hipDeviceAttributeMemoryClockRate:
        return 1000000;
    case hipDeviceAttributeMultiprocessorCount:
        return (int)setting_number("multiprocessors", 16);
    case hipDeviceAttributePciBusId:
        return physical_device(device) + 1;
    case hipDeviceAttributeMaxRegistersPerBlock:
    case hipDeviceAttributeMaxRegistersPerMultiprocessor:
        return 65536;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
    case hipDeviceAttributeSharedMemPerBlockOptin:
    case hipDeviceAttributeSharedMemPerMultiprocessor:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor:
        return (int)setting_number("shared_memory", SHARED_BYTES);
    case hipDeviceAttributeStreamPrioritiesSupported:
        return 1;
    case hipDeviceAttributeTextureAlignment:
        return 256;
    case hipDeviceAttributeTotalConstantMemory:
        return 2147483647;
    case hipDeviceAttributeUnifiedAddressing:
        return 1;
    case hipDeviceAttributeWarpSize:
        return target_lanes(target);
    case hipDeviceAttributeMemoryPoolsSupported:
        return 1;
    default:
        return 0;
    }
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

HIP(hipDeviceTotalMem, READY) {
    CHECK(bytes, CODE_INVALID_VALUE);
    CHECK(device_valid(device), CODE_INVALID_DEVICE);
    *bytes = device_memory();
    return CODE_SUCCESS;
}

HIP(hipDeviceGetAttribute, READY) {
    CHECK(pi && attr >= 0 && attr < hipDeviceAttributes, CODE_INVALID_VALUE);
    CHECK(device_valid(deviceId), CODE_INVALID_DEVICE);
    *pi = device_attribute(deviceId, attr);
    return CODE_SUCCESS;
}
