/* The two structures of device properties: that of HIP 5 and that of HIP 6 and later, which the
 * function's name tells apart. */
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

/* Where an attribute lies in both structures, and the bytes of its field: -1 where a structure
 * lacks it. */
static const struct {
    int attribute, old, new, size;
} fields[] = {
    {hipDeviceAttributeMaxSharedMemoryPerBlock, 264, 296, 8},
    {hipDeviceAttributeMaxRegistersPerBlock, 272, 304, 4},
    {hipDeviceAttributeWarpSize, 276, 308, 4},
    {hipDeviceAttributeMaxPitch, -1, 312, 8},
    {hipDeviceAttributeMaxThreadsPerBlock, 280, 320, 4},
    {hipDeviceAttributeMaxBlockDimX, 284, 324, 4},
    {hipDeviceAttributeMaxBlockDimY, 288, 328, 4},
    {hipDeviceAttributeMaxBlockDimZ, 292, 332, 4},
    {hipDeviceAttributeMaxGridDimX, 296, 336, 4},
    {hipDeviceAttributeMaxGridDimY, 300, 340, 4},
    {hipDeviceAttributeMaxGridDimZ, 304, 344, 4},
    {hipDeviceAttributeClockRate, 308, 348, 4},
    {hipDeviceAttributeMemoryClockRate, 312, 608, 4},
    {hipDeviceAttributeMemoryBusWidth, 316, 612, 4},
    {hipDeviceAttributeTotalConstantMemory, 320, 352, 8},
    {hipDeviceAttributeComputeCapabilityMajor, 328, 360, 4},
    {hipDeviceAttributeComputeCapabilityMinor, 332, 364, 4},
    {hipDeviceAttributeTextureAlignment, -1, 368, 8},
    {hipDeviceAttributeMultiprocessorCount, 336, 388, 4},
    {hipDeviceAttributeCanMapHostMemory, 388, 400, 4},
    {hipDeviceAttributeConcurrentKernels, 360, 576, 4},
    {hipDeviceAttributePciBusId, 368, 584, 4},
    {hipDeviceAttributeAsyncEngineCount, -1, 600, 4},
    {hipDeviceAttributeUnifiedAddressing, -1, 604, 4},
    {hipDeviceAttributeL2CacheSize, 340, 616, 4},
    {hipDeviceAttributeMaxThreadsPerMultiProcessor, 344, 624, 4},
    {hipDeviceAttributeStreamPrioritiesSupported, -1, 628, 4},
    {hipDeviceAttributeSharedMemPerMultiprocessor, 376, 640, 8},
    {hipDeviceAttributeMaxRegistersPerMultiprocessor, -1, 648, 4},
    {hipDeviceAttributeManagedMemory, -1, 652, 4},
    {hipDeviceAttributeCooperativeLaunch, 656, 688, 4},
    {hipDeviceAttributeSharedMemPerBlockOptin, -1, 696, 8},
    {hipDeviceAttributeMaxBlocksPerMultiProcessor, -1, 712, 4},
    {hipDeviceAttributeMemoryPoolsSupported, -1, 744, 4},
    {hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, -1, 1416, 8},
};

static void write_fields(unsigned char *properties, int device, bool new) {
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
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
