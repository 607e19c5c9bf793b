/* The properties of a device, which CUDA 12 and 13 have in different structures. */
#include "runtime.h"

#include <string.h>

static const Field property_fields[] = {
#include "properties.h" /* a build writes it, of properties.txt */
};

void runtime_set_field(void *structure, const Field *field, int value) {
    void *place = (char *)structure + field->offset;
    if (field->size == sizeof(size_t))
        *(size_t *)place = (size_t)value;
    else
        *(int *)place = value;
}

ENTRY(cudaGetDeviceProperties) {
    int value;
    CHECK(prop, cudaErrorInvalidValue);
    TRY(runtime_start());
    memset(prop, 0, sizeof *prop);
    TRY(cuDeviceGetName(prop->name, sizeof prop->name, device));
    TRY(cuDeviceGetUuid_v2((CUuuid *)&prop->uuid, device));
    TRY(cuDeviceTotalMem(&prop->totalGlobalMem, device));
    for (size_t i = 0; i < sizeof property_fields / sizeof property_fields[0]; i++) {
        TRY(cuDeviceGetAttribute(&value, (CUdevice_attribute)property_fields[i].attribute, device));
        runtime_set_field(prop, &property_fields[i], value);
    }
    return cudaSuccess;
}
