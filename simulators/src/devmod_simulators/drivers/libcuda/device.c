/* Devices: their number, architecture and limits. */
#include "cuda_standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int driver_version(void) {
    return (int)setting_number("driver_version", CUDA_VERSION);
}

int device_arch(int device) {
    char arch[8];
    device_setting("arch", device, "90", arch, sizeof arch);
    return atoi(arch);
}

static int shared_memory_optin(int arch) {
    switch (arch) {
    case 75:
        return 64 << 10;
    case 80:
    case 87:
        return 163 << 10;
    case 86:
    case 89:
    case 120:
    case 121:
        return 99 << 10;
    default:
        return arch >= 90 ? 227 << 10 : 96 << 10;
    }
}

/* The attributes that are the same for each device. Those that are missing are 0. */
static const int attributes[CU_DEVICE_ATTRIBUTE_MAX] = {
    [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024,
    [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X] = 1024,
    [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y] = 1024,
    [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z] = 64,
    [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X] = 2147483647,
    [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y] = 65535,
    [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z] = 65535,
    [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK] = 48 << 10,
    [CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK] = 1024,
    [CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY] = 64 << 10,
    [CU_DEVICE_ATTRIBUTE_WARP_SIZE] = 32,
    [CU_DEVICE_ATTRIBUTE_MAX_PITCH] = 2147483647,
    [CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK] = 65536,
    [CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR] = 65536,
    [CU_DEVICE_ATTRIBUTE_CLOCK_RATE] = 1000000,
    [CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE] = 1000000,
    [CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH] = 512,
    [CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE] = 32 << 20,
    [CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT] = 512,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH] = 1 << 28,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH] = 131072,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH] = 131072,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH] = 131072,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH] = 131072,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH] = 2097120,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT] = 65536,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT] = 65536,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT] = 65000,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH] = 32768,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH] = 32768,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH] = 32768,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT] = 32768,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH] = 32768,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH] = 32768,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT] = 32768,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH] = 16384,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT] = 16384,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH] = 16384,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH] = 16384,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT] = 16384,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH] = 16384,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS] = 2048,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS] = 2048,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS] = 2048,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS] = 2048,
    [CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT] = 32,
    [CU_DEVICE_ATTRIBUTE_GPU_OVERLAP] = 1,
    [CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT] = 2,
    [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] = 2048,
    [CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR] = 32,
    [CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY] = 1,
    [CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS] = 1,
    [CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING] = 1,
    [CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] = 1,
    [CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS] = 1,
    [CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH] = 1,
    [CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED] = 1,
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

CUresult CUDAAPI cuDeviceGetCount(int *count) {
    ENTER(READY);
    CHECK(count, CUDA_ERROR_INVALID_VALUE);
    *count = device_count();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
    ENTER(READY);
    CHECK(device, CUDA_ERROR_INVALID_VALUE);
    CHECK(device_valid(ordinal) && ordinal < device_count(), CUDA_ERROR_INVALID_DEVICE);
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int len, CUdevice dev) {
    ENTER(READY);
    CHECK(name && len > 0, CUDA_ERROR_INVALID_VALUE);
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    const char *text = setting("name");
    snprintf(name, (size_t)len, "%s", text ? text : "simulated GPU (devmod-simulators)");
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) {
    ENTER(READY);
    CHECK(uuid, CUDA_ERROR_INVALID_VALUE);
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    memcpy(uuid->bytes, "devmod stand-in", 16);
    uuid->bytes[15] = (char)physical_device(dev);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice dev) {
    ENTER(READY);
    CHECK(bytes, CUDA_ERROR_INVALID_VALUE);
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    *bytes = device_memory();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev) {
    ENTER(READY);
    CHECK(pi && attrib > 0 && attrib < CU_DEVICE_ATTRIBUTE_MAX, CUDA_ERROR_INVALID_VALUE);
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    *pi = device_attribute(dev, attrib);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice dev) {
    ENTER(READY);
    CHECK(major && minor, CUDA_ERROR_INVALID_VALUE);
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    *major = device_arch(dev) / 10;
    *minor = device_arch(dev) % 10;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev) {
    ENTER(READY);
    CHECK(pciBusId && len >= 13, CUDA_ERROR_INVALID_VALUE);
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    snprintf(pciBusId, (size_t)len, "0000:%02x:00.0", (unsigned)physical_device(dev) + 1);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId) {
    ENTER(READY);
    unsigned domain, bus;
    CHECK(dev && pciBusId, CUDA_ERROR_INVALID_VALUE);
    CHECK(sscanf(pciBusId, "%x:%x:", &domain, &bus) == 2, CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; !domain && i < DEVICES; i++) {
        if (!device_valid(i) || physical_device(i) + 1 != (int)bus)
            continue;
        *dev = i;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib,
                                         CUdevice srcDevice, CUdevice dstDevice) {
    ENTER(READY);
    CHECK(value && attrib >= CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK &&
              attrib <= CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED,
          CUDA_ERROR_INVALID_VALUE);
    CHECK(device_valid(srcDevice) && device_valid(dstDevice) && srcDevice != dstDevice,
          CUDA_ERROR_INVALID_DEVICE);
    *value = attrib != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK && setting_number("peers", 1);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev) {
    ENTER(READY);
    CHECK(canAccessPeer, CUDA_ERROR_INVALID_VALUE);
    CHECK(device_valid(dev) && device_valid(peerDev), CUDA_ERROR_INVALID_DEVICE);
    *canAccessPeer = dev != peerDev && setting_number("peers", 1);
    return CUDA_SUCCESS;
}
