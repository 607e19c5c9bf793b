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

#define ATTRIBUTE(name, number, ...) {number, __VA_ARGS__},

static const struct {
    int attribute, value, old, new, size;
} fields[] = {
#include "attributes.h"
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
