/* Tensor maps: the checks of their encoding. The descriptor has a layout of its own, which
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

/* Return the bytes of an element, 0 for an unknown type. */
static unsigned element_size(CUtensorMapDataType type) {
    static const unsigned char sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    return (unsigned)type < sizeof sizes ? sizes[type] : 0;
}

static bool is_float(CUtensorMapDataType type) {
    return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

/* What all forms of tensor maps have. */
typedef struct {
    CUtensorMapDataType type;
    cuuint32_t rank;
    void *address;
    const cuuint64_t *sizes, *strides;
    const cuuint32_t *steps;
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
    CUtensorMapFloatOOBfill fill;
} Tensor;

#define TENSOR                                                                                     \
    {tensorDataType, tensorRank, globalAddress, globalDim,   globalStrides,                        \
     elementStrides, interleave, swizzle,       l2Promotion, oobFill}

static CUresult check_modes(const Tensor *tensor) {
    bool wide = tensor->interleave == CU_TENSOR_MAP_INTERLEAVE_32B;
    CHECK((unsigned)tensor->interleave <= CU_TENSOR_MAP_INTERLEAVE_32B, CUDA_ERROR_INVALID_VALUE);
    CHECK(tensor->interleave == CU_TENSOR_MAP_INTERLEAVE_NONE || tensor->rank >= 3,
          CUDA_ERROR_INVALID_VALUE);
    CHECK((unsigned)tensor->swizzle <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B &&
              (unsigned)tensor->promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
              (unsigned)tensor->fill <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
          CUDA_ERROR_INVALID_VALUE);
    CHECK(!wide || tensor->swizzle == CU_TENSOR_MAP_SWIZZLE_32B, CUDA_ERROR_INVALID_VALUE);
    CHECK(tensor->fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE || is_float(tensor->type),
          CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

/* Check the bytes of the innermost rows of a box. */
static CUresult check_inner(const Tensor *tensor, uint64_t inner) {
    static const unsigned spans[] = {[CU_TENSOR_MAP_SWIZZLE_32B] = 32,
                                     [CU_TENSOR_MAP_SWIZZLE_64B] = 64,
                                     [CU_TENSOR_MAP_SWIZZLE_128B] = 128,
                                     [CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B] = 128,
                                     [CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B] = 128,
                                     [CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B] = 128};
    CHECK(tensor->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || inner % 16 == 0,
          CUDA_ERROR_INVALID_VALUE);
    CHECK(!spans[tensor->swizzle] || inner <= spans[tensor->swizzle], CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult check_tensor(const CUtensorMap *map, const Tensor *tensor) {
    unsigned element = element_size(tensor->type);
    unsigned alignment = tensor->interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
    uint64_t address = (uintptr_t)tensor->address;
    /* CUDA asks for 64 bytes. The objects of cuda.core, which pass its tests on GPUs, have 16. */
    CHECK(map && (uintptr_t)map % 16 == 0, CUDA_ERROR_INVALID_VALUE);
    CHECK(element && tensor->rank >= 1 && tensor->rank <= 5, CUDA_ERROR_INVALID_VALUE);
    CHECK(address && address % alignment == 0, CUDA_ERROR_INVALID_VALUE);
    CHECK(tensor->sizes && tensor->steps && (tensor->strides || tensor->rank == 1),
          CUDA_ERROR_INVALID_VALUE);
    TRY(check_modes(tensor));
    uint64_t least = tensor->sizes[0] * element;
    for (cuuint32_t i = 0; i < tensor->rank; i++) {
        CHECK(tensor->sizes[i] && tensor->sizes[i] <= UINT64_C(1) << 31, CUDA_ERROR_INVALID_VALUE);
        CHECK(tensor->steps[i] && tensor->steps[i] <= 8, CUDA_ERROR_INVALID_VALUE);
        if (!i)
            continue;
        uint64_t stride = tensor->strides[i - 1];
        CHECK(stride % alignment == 0 && stride < UINT64_C(1) << 40, CUDA_ERROR_INVALID_VALUE);
        CHECK(stride >= least, CUDA_ERROR_INVALID_VALUE);
        least = stride;
    }
    return CUDA_SUCCESS;
}

/* Write a descriptor. As with the real driver the memory need not be there: a kernel's access is
 * checked. */
static void write_map(CUtensorMap *map, const Tensor *tensor, const char *magic,
                      const cuuint32_t *box) {
    Descriptor descriptor = {.address = (uintptr_t)tensor->address,
                             .type = tensor->type,
                             .rank = tensor->rank,
                             .interleave = (uint8_t)tensor->interleave,
                             .swizzle = (uint8_t)tensor->swizzle,
                             .promotion = (uint8_t)tensor->promotion,
                             .fill = (uint8_t)tensor->fill};
    strcpy(descriptor.magic, magic);
    for (cuuint32_t i = 0; i < tensor->rank; i++) {
        descriptor.size[i] = tensor->sizes[i];
        descriptor.element_stride[i] = (uint16_t)tensor->steps[i];
        if (box)
            descriptor.box[i] = (uint16_t)box[i];
        if (i)
            descriptor.stride[i - 1] = tensor->strides[i - 1];
    }
    memset(map, 0, sizeof *map);
    memcpy(map, &descriptor, sizeof descriptor);
}

API(cuTensorMapEncodeTiled, READY) {
    Tensor tensor = TENSOR;
    TRY(check_tensor(tensorMap, &tensor));
    CHECK(boxDim, CUDA_ERROR_INVALID_VALUE);
    for (cuuint32_t i = 0; i < tensorRank; i++)
        CHECK(boxDim[i] && boxDim[i] <= 256, CUDA_ERROR_INVALID_VALUE);
    TRY(check_inner(&tensor, (uint64_t)boxDim[0] * element_size(tensorDataType)));
    write_map(tensorMap, &tensor, "standin", boxDim);
    return CUDA_SUCCESS;
}

/* Check the columns of a map for convolutions, and write it. Kernels cannot use it yet. */
static CUresult encode_columns(CUtensorMap *map, const Tensor *tensor, cuuint32_t channels,
                               cuuint32_t pixels) {
    TRY(check_tensor(map, tensor));
    CHECK(tensor->rank >= 3, CUDA_ERROR_INVALID_VALUE);
    CHECK(channels && channels <= 256 && pixels && pixels <= 1024, CUDA_ERROR_INVALID_VALUE);
    TRY(check_inner(tensor, (uint64_t)channels * element_size(tensor->type)));
    write_map(map, tensor, "im2col", NULL);
    return CUDA_SUCCESS;
}

/* Return whether a corner of the box of pixels has offsets that a map can hold. */
static bool corner_fits(const int *corner, cuuint32_t rank) {
    static const int most[] = {[3] = 32767, [4] = 127, [5] = 15};
    for (cuuint32_t i = 0; i + 2 < rank; i++)
        if (corner[i] > most[rank] || corner[i] < -most[rank] - 1)
            return false;
    return true;
}

API(cuTensorMapEncodeIm2col, READY) {
    Tensor tensor = TENSOR;
    CHECK(tensorRank >= 3 && tensorRank <= 5 && pixelBoxLowerCorner && pixelBoxUpperCorner,
          CUDA_ERROR_INVALID_VALUE);
    CHECK(corner_fits(pixelBoxLowerCorner, tensorRank) &&
              corner_fits(pixelBoxUpperCorner, tensorRank),
          CUDA_ERROR_INVALID_VALUE);
    return encode_columns(tensorMap, &tensor, channelsPerPixel, pixelsPerColumn);
}

API(cuTensorMapEncodeIm2colWide, READY) {
    Tensor tensor = TENSOR;
    const int corners[] = {pixelBoxLowerCornerWidth, pixelBoxUpperCornerWidth};
    CHECK((unsigned)mode <= CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128, CUDA_ERROR_INVALID_VALUE);
    CHECK(corner_fits(&corners[0], 3) && corner_fits(&corners[1], 3), CUDA_ERROR_INVALID_VALUE);
    return encode_columns(tensorMap, &tensor, channelsPerPixel, pixelsPerColumn);
}

API(cuTensorMapReplaceAddress, READY) {
    Descriptor *descriptor = (Descriptor *)tensorMap;
    CHECK(
        tensorMap && (uintptr_t)globalAddress % 16 == 0 &&
            (strcmp(descriptor->magic, "standin") == 0 || strcmp(descriptor->magic, "im2col") == 0),
        CUDA_ERROR_INVALID_VALUE);
    descriptor->address = (uintptr_t)globalAddress;
    return CUDA_SUCCESS;
}
