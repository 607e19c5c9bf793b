/* What a pointer is: cuPointerGetAttribute(s). */
#include "cuda_standin.h"

#include <string.h>

/* The bytes of each attribute that is known. */
static const unsigned char sizes[] = {
    [CU_POINTER_ATTRIBUTE_CONTEXT] = sizeof(CUcontext),
    [CU_POINTER_ATTRIBUTE_MEMORY_TYPE] = sizeof(unsigned),
    [CU_POINTER_ATTRIBUTE_DEVICE_POINTER] = sizeof(CUdeviceptr),
    [CU_POINTER_ATTRIBUTE_HOST_POINTER] = sizeof(void *),
    [CU_POINTER_ATTRIBUTE_BUFFER_ID] = sizeof(unsigned long long),
    [CU_POINTER_ATTRIBUTE_IS_MANAGED] = sizeof(char),
    [CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL] = sizeof(int),
    [CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE] = sizeof(char),
    [CU_POINTER_ATTRIBUTE_RANGE_START_ADDR] = sizeof(CUdeviceptr),
    [CU_POINTER_ATTRIBUTE_RANGE_SIZE] = sizeof(size_t),
    [CU_POINTER_ATTRIBUTE_MAPPED] = sizeof(char),
    [CU_POINTER_ATTRIBUTE_ACCESS_FLAGS] = sizeof(int),
    [CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE] = sizeof(CUmemoryPool),
};

static size_t known_size(CUpointer_attribute attribute) {
    return (size_t)attribute < sizeof sizes ? sizes[attribute] : 0;
}

/* Return an attribute of an address in a block, or of registered memory for NULL. */
static uint64_t attribute_at(const Block *block, CUpointer_attribute attribute, CUdeviceptr ptr) {
    static const Block registered = {.kind = BLOCK_HOST};
    const Context *owner = block ? block->owner : NULL;
    const Pool *pool = block ? block->pool : NULL;
    if (!block)
        block = &registered;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return owner ? (uintptr_t)owner->handle : 0;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return block->kind == BLOCK_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return block->mirror ? (uintptr_t)block->mirror + (ptr - block->start) : ptr;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        return block->number;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return block->kind == BLOCK_MANAGED;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return (uint64_t)block->device;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        return owner ? block->start : ptr;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        return block->size;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return 1;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return pool ? (uintptr_t)pool->handle : 0;
    default:
        return 0;
    }
}

static CUresult read_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    const Block *block = arena_block(ptr, 1);
    CHECK(data && (block || is_registered(ptr, 1)), CUDA_ERROR_INVALID_VALUE);
    CHECK(known_size(attribute), CUDA_ERROR_NOT_SUPPORTED);
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
        return memory_device_address(ptr, data);
    CHECK(attribute != CU_POINTER_ATTRIBUTE_HOST_POINTER || !block || block->kind != BLOCK_DEVICE,
          CUDA_ERROR_INVALID_VALUE);
    uint64_t value = attribute_at(block, attribute, ptr);
    memcpy(data, &value, known_size(attribute));
    return CUDA_SUCCESS;
}

FORWARD(cuPointerGetAttribute, CURRENT, read_attribute(data, attribute, ptr))

/* Unlike the function for one attribute, this one answers zeros for a pointer that CUDA does not
 * know. */
API_IF((numAttributes && attributes && data), cuPointerGetAttributes, READY) {
    bool known = arena_block(ptr, 1) || is_registered(ptr, 1);
    for (unsigned i = 0; i < numAttributes; i++) {
        if (known)
            TRY(read_attribute(data[i], attributes[i], ptr));
        else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)data[i] = CU_DEVICE_INVALID;
        else
            memset(data[i], 0,
                   known_size(attributes[i]) ? known_size(attributes[i]) : sizeof(void *));
    }
    return CUDA_SUCCESS;
}
