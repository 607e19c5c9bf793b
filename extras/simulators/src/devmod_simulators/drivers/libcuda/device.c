/* Devices: their number, architecture and limits. */
#include "cuda_standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int driver_version(void) {
    return (int)setting_number("driver_version", CUDA_VERSION);
}

/* Return the compute capability as major * 10 + minor. */
int device_arch(int device) {
    char arch[8];
    device_setting("arch", device, "90", arch, sizeof arch);
    return atoi(arch);
}

static int shared_memory_optin(int arch) {
    static const struct {
        int arch, kibibytes;
    } known[] = {{75, 64}, {80, 163}, {86, 99}, {87, 163}, {89, 99}, {120, 99}, {121, 99}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].arch == arch)
            return known[i].kibibytes << 10;
    return arch >= 90 ? 227 << 10 : 96 << 10;
}

/* The attributes that are the same for each device. Those that are missing are 0. */
static const int attributes[CU_DEVICE_ATTRIBUTE_MAX] = {
#include "attributes.h" /* a build writes it, of attributes.txt */
};

int device_attribute(int device, CUdevice_attribute attribute) {
    int arch = device_arch(device);
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return (int)setting_number("shared_memory", (uint64_t)shared_memory_optin(arch));
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return shared_memory_optin(arch) + 1024;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return (int)setting_number("multiprocessors", 16);
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return physical_device(device) + 1;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return arch / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return arch % 10;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
        return arch >= 90;
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
        return arch >= 90;
    default:
        return attributes[attribute];
    }
}

ANSWER(cuDeviceGetCount, READY, count, device_count())

API_IF(device, cuDeviceGet, READY) {
    CHECK(device_valid(ordinal) && ordinal < device_count(), CUDA_ERROR_INVALID_DEVICE);
    *device = ordinal;
    return CUDA_SUCCESS;
}

API_IF((name && len > 0), cuDeviceGetName, READY) {
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    const char *text = setting("name");
    snprintf(name, (size_t)len, "%s", text ? text : "simulated GPU (devmod-simulators)");
    return CUDA_SUCCESS;
}

API_IF(uuid, cuDeviceGetUuid, READY) {
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    memcpy(uuid->bytes, "devmod stand-in", 16);
    uuid->bytes[15] = (char)physical_device(dev);
    return CUDA_SUCCESS;
}

FORWARD(cuDeviceTotalMem, READY, GIVE_OF(dev, bytes, device_memory()))

FORWARD_IF((attrib > 0 && attrib < CU_DEVICE_ATTRIBUTE_MAX), cuDeviceGetAttribute, READY,
           GIVE_OF(dev, pi, device_attribute(dev, attrib)))

API_IF((major && minor), cuDeviceComputeCapability, READY) {
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    *major = device_arch(dev) / 10;
    *minor = device_arch(dev) % 10;
    return CUDA_SUCCESS;
}

API_IF((pciBusId && len >= 13), cuDeviceGetPCIBusId, READY) {
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    snprintf(pciBusId, (size_t)len, "0000:%02x:00.0", (unsigned)physical_device(dev) + 1);
    return CUDA_SUCCESS;
}

API_IF((dev && pciBusId), cuDeviceGetByPCIBusId, READY) {
    unsigned domain, bus;
    CHECK(sscanf(pciBusId, "%x:%x:", &domain, &bus) == 2, CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; !domain && i < DEVICES; i++) {
        if (!device_valid(i) || physical_device(i) + 1 != (int)bus)
            continue;
        *dev = i;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

API_IF((value && attrib >= CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK &&
        attrib <= CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED),
       cuDeviceGetP2PAttribute, READY) {
    CHECK(device_valid(srcDevice) && device_valid(dstDevice) && srcDevice != dstDevice,
          CUDA_ERROR_INVALID_DEVICE);
    *value = attrib != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK && setting_number("peers", 1);
    return CUDA_SUCCESS;
}

API_IF(canAccessPeer, cuDeviceCanAccessPeer, READY) {
    CHECK(device_valid(dev) && device_valid(peerDev), CUDA_ERROR_INVALID_DEVICE);
    *canAccessPeer = dev != peerDev && setting_number("peers", 1);
    return CUDA_SUCCESS;
}
