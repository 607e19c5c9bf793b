/* Tensor maps: the checks of cuTensorMapEncodeTiled. The descriptor has a layout of its own, which
 * the stand-in alone reads. */
#include "cuda_standin.h"

#include <string.h>

/* The 128 bytes of a descriptor. */
typedef struct {
    char magic[8];
    uint64_t address, size[5], stride[4];
    uint32_t type, rank;
    uint16_t box[5], element_stride[5];
    uint8_t interleave, swizzle, promotion, fill;
} Descriptor;

_Static_assert(sizeof(Descriptor) <= sizeof(CUtensorMap), "the descriptor is too large");

static unsigned element_size(CUtensorMapDataType type) {
    switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
        return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
        return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ:
        return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
        return 8;
    default:
        return 0;
    }
}

static bool is_float(CUtensorMapDataType type) {
    return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
    const cuuint32_t *boxDim, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
    ENTER(READY);
    unsigned element = element_size(tensorDataType);
    uint64_t address = (uintptr_t)globalAddress;
    bool wide = interleave == CU_TENSOR_MAP_INTERLEAVE_32B;
    CHECK(tensorMap && (uintptr_t)tensorMap % 64 == 0, CUDA_ERROR_INVALID_VALUE);
    CHECK(element && tensorRank >= 1 && tensorRank <= 5, CUDA_ERROR_INVALID_VALUE);
    CHECK(interleave <= CU_TENSOR_MAP_INTERLEAVE_32B &&
              (interleave == CU_TENSOR_MAP_INTERLEAVE_NONE || tensorRank >= 3),
          CUDA_ERROR_INVALID_VALUE);
    CHECK(address && address % (wide ? 32 : 16) == 0, CUDA_ERROR_INVALID_VALUE);
    CHECK(globalDim && boxDim && elementStrides && (globalStrides || tensorRank == 1),
          CUDA_ERROR_INVALID_VALUE);
    CHECK((unsigned)swizzle <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B &&
              (unsigned)l2Promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
              (unsigned)oobFill <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
          CUDA_ERROR_INVALID_VALUE);
    Descriptor descriptor = {.magic = "standin",
                             .address = address,
                             .type = tensorDataType,
                             .rank = tensorRank,
                             .interleave = (uint8_t)interleave,
                             .swizzle = (uint8_t)swizzle,
                             .promotion = (uint8_t)l2Promotion,
                             .fill = (uint8_t)oobFill};
    uint64_t extent = element;
    for (cuuint32_t i = 0; i < tensorRank; i++) {
        CHECK(globalDim[i] && globalDim[i] <= UINT64_C(1) << 31, CUDA_ERROR_INVALID_VALUE);
        CHECK(boxDim[i] && boxDim[i] <= 256 && elementStrides[i] && elementStrides[i] <= 8,
              CUDA_ERROR_INVALID_VALUE);
        if (i) {
            uint64_t stride = globalStrides[i - 1];
            CHECK(stride % (wide ? 32 : 16) == 0 && stride < UINT64_C(1) << 40,
                  CUDA_ERROR_INVALID_VALUE);
            CHECK(stride >= (i == 1 ? globalDim[0] * element : globalStrides[i - 2]),
                  CUDA_ERROR_INVALID_VALUE);
            descriptor.stride[i - 1] = stride;
            extent += (globalDim[i] - 1) * stride;
        } else {
            extent += (globalDim[0] - 1) * element;
        }
        descriptor.size[i] = globalDim[i];
        descriptor.box[i] = (uint16_t)boxDim[i];
        descriptor.element_stride[i] = (uint16_t)elementStrides[i];
    }
    CHECK(!wide || swizzle == CU_TENSOR_MAP_SWIZZLE_32B, CUDA_ERROR_INVALID_VALUE);
    CHECK(oobFill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE || is_float(tensorDataType),
          CUDA_ERROR_INVALID_VALUE);
    uint64_t inner = (uint64_t)boxDim[0] * element;
    CHECK(interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || inner % 16 == 0, CUDA_ERROR_INVALID_VALUE);
    CHECK(swizzle != CU_TENSOR_MAP_SWIZZLE_32B || inner <= 32, CUDA_ERROR_INVALID_VALUE);
    CHECK(swizzle != CU_TENSOR_MAP_SWIZZLE_64B || inner <= 64, CUDA_ERROR_INVALID_VALUE);
    CHECK(swizzle < CU_TENSOR_MAP_SWIZZLE_128B || inner <= 128, CUDA_ERROR_INVALID_VALUE);
    CHECK(arena_block(address, extent),
          CUDA_ERROR_INVALID_VALUE); /* the real driver does not look; a test wants to know */
    memset(tensorMap, 0, sizeof *tensorMap);
    memcpy(tensorMap, &descriptor, sizeof descriptor);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress) {
    ENTER(READY);
    Descriptor *descriptor = (Descriptor *)tensorMap;
    CHECK(tensorMap && (uintptr_t)globalAddress % 16 == 0 &&
              memcmp(descriptor->magic, "standin", 8) == 0,
          CUDA_ERROR_INVALID_VALUE);
    descriptor->address = (uintptr_t)globalAddress;
    return CUDA_SUCCESS;
}
