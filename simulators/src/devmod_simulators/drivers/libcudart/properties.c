/* The properties of a device, which CUDA 12 and 13 have in different structures. */
#include "runtime.h"

#include <string.h>

#define FIELD(field, attribute)                                                                    \
    {offsetof(struct cudaDeviceProp, field), sizeof((struct cudaDeviceProp *)NULL)->field,         \
     attribute}

/* The fields that are attributes of the driver: an int or a size_t. */
static const struct {
    size_t offset, size;
    CUdevice_attribute attribute;
} fields[] = {
#include "properties.h" /* a build writes it, of properties.txt */
};

ENTRY(cudaGetDeviceProperties) {
    int value;
    CHECK(prop, cudaErrorInvalidValue);
    TRY(runtime_start());
    memset(prop, 0, sizeof *prop);
    TRY(cuDeviceGetName(prop->name, sizeof prop->name, device));
    TRY(cuDeviceGetUuid_v2((CUuuid *)&prop->uuid, device));
    TRY(cuDeviceTotalMem(&prop->totalGlobalMem, device));
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        TRY(cuDeviceGetAttribute(&value, fields[i].attribute, device));
        void *field = (char *)prop + fields[i].offset;
        if (fields[i].size == sizeof(size_t))
            *(size_t *)field = (size_t)value;
        else
            *(int *)field = value;
    }
    return cudaSuccess;
}
