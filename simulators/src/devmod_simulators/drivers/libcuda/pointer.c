/* What a pointer is: cuPointerGetAttribute(s). */
#include "cuda_standin.h"

#include <string.h>

static CUresult read_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    Block *block = arena_block(ptr, 1);
    bool host = !block && is_registered(ptr, 1);
    uint64_t address;
    CHECK(data, CUDA_ERROR_INVALID_VALUE);
    CHECK(block || host, CUDA_ERROR_INVALID_VALUE);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = block ? ((Context *)block->owner)->handle : NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data =
            host || block->kind == BLOCK_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        TRY(memory_device_address(ptr, &address));
        *(CUdeviceptr *)data = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        CHECK(host || block->kind != BLOCK_DEVICE, CUDA_ERROR_INVALID_VALUE);
        *(void **)data = (void *)(uintptr_t)ptr;
        if (block && block->mirror)
            *(void **)data = block->mirror + (ptr - block->start);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = block ? block->number : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned char *)data = block && block->kind == BLOCK_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = block ? block->device : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = block ? block->start : ptr;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = block ? block->size : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned char *)data = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned char *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(int *)data = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = block && block->pool ? block->pool->handle : NULL;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

FORWARD(cuPointerGetAttribute, CURRENT, read_attribute(data, attribute, ptr))

/* Unlike the function for one attribute, this one answers zeros for a pointer that CUDA does not
 * know. */
API_IF((numAttributes && attributes && data), cuPointerGetAttributes, READY) {
    bool known = arena_block(ptr, 1) || is_registered(ptr, 1);
    for (unsigned i = 0; i < numAttributes; i++) {
        if (known) {
            TRY(read_attribute(data[i], attributes[i], ptr));
            continue;
        }
        switch (attributes[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(unsigned *)data[i] = 0;
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_MAPPED:
            *(unsigned char *)data[i] = 0;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)data[i] = -2;
            break;
        default:
            memset(data[i], 0, sizeof(void *));
            break;
        }
    }
    return CUDA_SUCCESS;
}
