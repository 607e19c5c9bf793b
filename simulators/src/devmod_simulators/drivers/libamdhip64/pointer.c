/* What a pointer is. The numbers of the types of memory have changed with HIP 6, and the answer for an unknown pointer too. */
#include "hip_standin.h"

#include <string.h>

typedef struct {
    int type, device;
    void *devicePointer, *hostPointer;
    int isManaged;
    unsigned allocationFlags;
} Attributes;

typedef enum { TYPE_HOST, TYPE_DEVICE, TYPE_MANAGED } Type;

static int type_number(Type type)
{
    static const int old[] = {0, 1, 3}, new[] = {1, 2, 3};
    return hip_since(6) ? new[type] : old[type];
}

static Type type_of(const Block *block)
{
    return !block || block->kind == BLOCK_HOST ? TYPE_HOST : block->kind == BLOCK_MANAGED ? TYPE_MANAGED : TYPE_DEVICE;
}

HIP(hipPointerGetAttributes, CURRENT, (Attributes *attributes, const void *ptr), (attributes, ptr))
{
    enum { INVALID_DEVICE = -2 };
    Block *block = arena_block((uintptr_t)ptr, 1);
    CHECK(attributes && ptr, CODE_INVALID_VALUE);
    *attributes = (Attributes){.device = INVALID_DEVICE};
    if (!block && !is_registered((uintptr_t)ptr, 1))
        return hip_since(6) ? CODE_SUCCESS : CODE_INVALID_VALUE;
    bool host = !block || block->kind != BLOCK_DEVICE;
    *attributes = (Attributes){
        .type = type_number(type_of(block)), .device = block ? block->device : 0, .devicePointer = (void *)(uintptr_t)ptr,
        .hostPointer = host ? (void *)(uintptr_t)ptr : NULL, .isManaged = block && block->kind == BLOCK_MANAGED,
        .allocationFlags = block ? block->flags : 0,
    };
    return CODE_SUCCESS;
}

static int attribute(void *data, int attribute, uint64_t address)
{
    Block *block = arena_block(address, 1);
    CHECK(data, CODE_INVALID_VALUE);
    CHECK(block || is_registered(address, 1), CODE_INVALID_VALUE);
    switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_CONTEXT:
        *(hipCtx_t *)data = block ? ((Context *)block->owner)->handle : NULL;
        return CODE_SUCCESS;
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(int *)data = type_number(type_of(block));
        return CODE_SUCCESS;
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(void **)data = (void *)(uintptr_t)address;
        return CODE_SUCCESS;
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
        CHECK(!block || block->kind != BLOCK_DEVICE, CODE_INVALID_VALUE);
        *(void **)data = (void *)(uintptr_t)address;
        return CODE_SUCCESS;
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned *)data = block ? (unsigned)block->number : 0;
        return CODE_SUCCESS;
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
        *(bool *)data = block && block->kind == BLOCK_MANAGED;
        return CODE_SUCCESS;
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = block ? block->device : 0;
        return CODE_SUCCESS;
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(void **)data = (void *)(uintptr_t)(block ? block->start : address);
        return CODE_SUCCESS;
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = block ? block->size : 0;
        return CODE_SUCCESS;
    case HIP_POINTER_ATTRIBUTE_MAPPED:
        *(bool *)data = true;
        return CODE_SUCCESS;
    default:
        return CODE_NOT_SUPPORTED;
    }
}

HIP(hipPointerGetAttribute, CURRENT, (void *data, int attribute_, void *ptr), (data, attribute_, ptr))
{
    return attribute(data, attribute_, (uintptr_t)ptr);
}

/* Unlike the function for one attribute, this one answers zeros for a pointer that HIP does not know. */
HIP(hipDrvPointerGetAttributes, CURRENT, (unsigned numAttributes, int *attributes, void **data, void *ptr),
    (numAttributes, attributes, data, ptr))
{
    CHECK(numAttributes && attributes && data, CODE_INVALID_VALUE);
    bool known = arena_block((uintptr_t)ptr, 1) || is_registered((uintptr_t)ptr, 1);
    for (unsigned i = 0; i < numAttributes; i++) {
        if (known) {
            TRY(attribute(data[i], attributes[i], (uintptr_t)ptr));
            continue;
        }
        switch (attributes[i]) {
        case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE: *(int *)data[i] = 0; break;
        case HIP_POINTER_ATTRIBUTE_IS_MANAGED: case HIP_POINTER_ATTRIBUTE_MAPPED: *(bool *)data[i] = false; break;
        case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data[i] = -2; break;
        case HIP_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned *)data[i] = 0; break;
        default: memset(data[i], 0, sizeof(void *)); break;
        }
    }
    return CODE_SUCCESS;
}

HIP(hipPointerSetAttribute, CURRENT, (const void *value, int attribute_, void *ptr), (value, attribute_, ptr))
{
    CHECK(value && arena_block((uintptr_t)ptr, 1), CODE_INVALID_VALUE);
    return attribute_ == HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS ? CODE_SUCCESS : CODE_INVALID_VALUE;
}
