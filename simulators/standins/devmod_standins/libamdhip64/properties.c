/* Attributes of devices, and the two structures of properties: that of HIP 5 and that of HIP 6 and
 * later, which the function's name tells apart. */
#include "hip_standin.h"

#include <stdlib.h>
#include <string.h>

enum {
    NAME_BYTES = 256,
    OLD_BYTES = 792,
    NEW_BYTES = 1472,
    OLD_TARGET = 396,
    NEW_TARGET = 1160,
    NEW_UUID = 256
};

/* Attributes: the value, 0 where it differs between devices; where it lies in both structures, -1
 * where one lacks it; the bytes of its field. */
static const struct {
    int attribute, value, old, new, size;
} fields[] = {
    {hipDeviceAttributeMaxSharedMemoryPerBlock, 0, 264, 296, 8},
    {hipDeviceAttributeMaxRegistersPerBlock, 65536, 272, 304, 4},
    {hipDeviceAttributeWarpSize, 0, 276, 308, 4},
    {hipDeviceAttributeMaxPitch, 2147483647, -1, 312, 8},
    {hipDeviceAttributeMaxThreadsPerBlock, MAX_THREADS, 280, 320, 4},
    {hipDeviceAttributeMaxBlockDimX, MAX_THREADS, 284, 324, 4},
    {hipDeviceAttributeMaxBlockDimY, MAX_THREADS, 288, 328, 4},
    {hipDeviceAttributeMaxBlockDimZ, MAX_THREADS, 292, 332, 4},
    {hipDeviceAttributeMaxGridDimX, 2147483647, 296, 336, 4},
    {hipDeviceAttributeMaxGridDimY, 65536, 300, 340, 4},
    {hipDeviceAttributeMaxGridDimZ, 65536, 304, 344, 4},
    {hipDeviceAttributeClockRate, 1000000, 308, 348, 4},
    {hipDeviceAttributeMemoryClockRate, 1000000, 312, 608, 4},
    {hipDeviceAttributeMemoryBusWidth, 384, 316, 612, 4},
    {hipDeviceAttributeTotalConstantMemory, 2147483647, 320, 352, 8},
    {hipDeviceAttributeComputeCapabilityMajor, 0, 328, 360, 4},
    {hipDeviceAttributeComputeCapabilityMinor, 0, 332, 364, 4},
    {hipDeviceAttributeTextureAlignment, 256, -1, 368, 8},
    {hipDeviceAttributeMultiprocessorCount, 0, 336, 388, 4},
    {hipDeviceAttributeCanMapHostMemory, 1, 388, 400, 4},
    {hipDeviceAttributeConcurrentKernels, 1, 360, 576, 4},
    {hipDeviceAttributePciBusId, 0, 368, 584, 4},
    {hipDeviceAttributeAsyncEngineCount, 2, -1, 600, 4},
    {hipDeviceAttributeUnifiedAddressing, 1, -1, 604, 4},
    {hipDeviceAttributeL2CacheSize, 4 << 20, 340, 616, 4},
    {hipDeviceAttributeMaxThreadsPerMultiProcessor, 2048, 344, 624, 4},
    {hipDeviceAttributeStreamPrioritiesSupported, 1, -1, 628, 4},
    {hipDeviceAttributeSharedMemPerMultiprocessor, 0, 376, 640, 8},
    {hipDeviceAttributeMaxRegistersPerMultiprocessor, 65536, -1, 648, 4},
    {hipDeviceAttributeManagedMemory, 1, -1, 652, 4},
    {hipDeviceAttributeCooperativeLaunch, 1, 656, 688, 4},
    {hipDeviceAttributeSharedMemPerBlockOptin, 0, -1, 696, 8},
    {hipDeviceAttributeMaxBlocksPerMultiProcessor, 32, -1, 712, 4},
    {hipDeviceAttributeMemoryPoolsSupported, 1, -1, 744, 4},
    {hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, 0, -1, 1416, 8},
};

enum { FIELDS = sizeof fields / sizeof fields[0] };

int device_attribute(int device, int attribute) {
    char target[TARGET_BYTES];
    device_target(device, target);
    switch (attribute) {
    case hipDeviceAttributeComputeCapabilityMajor:
        return target_major(target);
    case hipDeviceAttributeComputeCapabilityMinor:
        return target_minor(target);
    case hipDeviceAttributeMultiprocessorCount:
        return (int)setting_number("multiprocessors", 16);
    case hipDeviceAttributePciBusId:
        return physical_device(device) + 1;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
    case hipDeviceAttributeSharedMemPerBlockOptin:
    case hipDeviceAttributeSharedMemPerMultiprocessor:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor:
        return (int)setting_number("shared_memory", SHARED_BYTES);
    case hipDeviceAttributeWarpSize:
        return target_lanes(target);
    default:
        for (int i = 0; i < FIELDS; i++)
            if (fields[i].attribute == attribute)
                return fields[i].value;
        return 0;
    }
}

static void write_fields(unsigned char *properties, int device, bool new) {
    for (int i = 0; i < FIELDS; i++) {
        int place = new ? fields[i].new : fields[i].old;
        int64_t value = device_attribute(device, fields[i].attribute);
        if (place >= 0)
            memcpy(properties + place, &value, (size_t)fields[i].size);
    }
    uint64_t memory = device_memory();
    device_name(device, (char *)properties, NAME_BYTES);
    memcpy(properties + (new ? 288 : 256), &memory, sizeof memory);
    device_target(device, (char *)properties + (new ? NEW_TARGET : OLD_TARGET));
}

HIP(hipGetDeviceProperties, READY) {
    enum { NUMBER = 392 };
    CHECK(prop, CODE_INVALID_VALUE);
    CHECK(device_valid(deviceId), CODE_INVALID_DEVICE);
    memset(prop, 0, OLD_BYTES);
    write_fields(prop, deviceId, false);
    int number = atoi((const char *)prop + OLD_TARGET + strlen("gfx"));
    memcpy((char *)prop + NUMBER, &number, sizeof number);
    return CODE_SUCCESS;
}

HIP(hipGetDevicePropertiesR0600, READY) {
    CHECK(prop, CODE_INVALID_VALUE);
    CHECK(device_valid(deviceId), CODE_INVALID_DEVICE);
    memset(prop, 0, NEW_BYTES);
    write_fields(prop, deviceId, true);
    memcpy((char *)prop + NEW_UUID, "devmod stand-in", 16);
    ((char *)prop)[NEW_UUID + 15] = (char)physical_device(deviceId);
    return CODE_SUCCESS;
}
