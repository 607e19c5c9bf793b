/* Fills: cuMemset in one and two dimensions. They are asynchronous for device memory, in the legacy stream too. */
#include "cuda_standin.h"

#include <string.h>

typedef struct {
    uint64_t address;
    size_t pitch, width, height, element;
    uint32_t value;
} Fill;

static int run_fill(Op *op)
{
    Fill *fill = (Fill *)op->data;
    size_t row = fill->width * fill->element;
    unsigned char *to = memory_at(fill->address, (fill->height - 1) * fill->pitch + row);
    if (!to) {
        explain("a fill ran on memory that is not allocated: 0x%llx", (unsigned long long)fill->address);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    for (size_t y = 0; y < fill->height; y++)
        for (size_t x = 0; x < fill->width; x++)
            memcpy(to + y * fill->pitch + x * fill->element, &fill->value, fill->element);
    return 0;
}

static CUresult submit_fill(Fill fill, CUstream hStream, bool async)
{
    Stream *stream;
    TRY(stream_of(hStream, &stream));
    if (!fill.width || !fill.height)
        return CUDA_SUCCESS;
    CHECK(fill.address % fill.element == 0, CUDA_ERROR_INVALID_VALUE);
    CHECK(fill.height == 1 || (fill.pitch >= fill.width * fill.element && fill.pitch % fill.element == 0), CUDA_ERROR_INVALID_VALUE);
    size_t size = (fill.height - 1) * fill.pitch + fill.width * fill.element;
    TRY(check_range(current_context(), fill.address, size, "fill"));
    if (!async)
        TRY(refuse_in_capture());
    Op *op = op_make("fill", run_fill, NULL, sizeof fill);
    *(Fill *)op->data = fill;
    Block *block = arena_block(fill.address, 1);
    return submit_and(stream, op, !async && (!block || block->kind != BLOCK_DEVICE));
}

#define FILL(bits, type)                                                                                                             \
    CUresult CUDAAPI cuMemsetD##bits##Async(CUdeviceptr dstDevice, type value, size_t N, CUstream hStream)                           \
    {                                                                                                                                \
        ENTER(CURRENT);                                                                                                              \
        return submit_fill((Fill){dstDevice, 0, N, 1, sizeof value, value}, hStream, true);                                          \
    }                                                                                                                                \
    CUresult CUDAAPI cuMemsetD2D##bits##Async(CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height,       \
                                              CUstream hStream)                                                                      \
    {                                                                                                                                \
        ENTER(CURRENT);                                                                                                              \
        return submit_fill((Fill){dstDevice, dstPitch, Width, Height, sizeof value, value}, hStream, true);                          \
    }

FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned int)

#define FILL_NOW(name, name_2d, type)                                                                                   \
    CUresult CUDAAPI name(CUdeviceptr dstDevice, type value, size_t N)                                                  \
    {                                                                                                                   \
        ENTER(CURRENT);                                                                                                 \
        return submit_fill((Fill){dstDevice, 0, N, 1, sizeof value, value}, NULL, false);                               \
    }                                                                                                                   \
    CUresult CUDAAPI name_2d(CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height)           \
    {                                                                                                                   \
        ENTER(CURRENT);                                                                                                 \
        return submit_fill((Fill){dstDevice, dstPitch, Width, Height, sizeof value, value}, NULL, false);               \
    }

FILL_NOW(cuMemsetD8, cuMemsetD2D8, unsigned char)
FILL_NOW(cuMemsetD16, cuMemsetD2D16, unsigned short)
FILL_NOW(cuMemsetD32, cuMemsetD2D32, unsigned int)
