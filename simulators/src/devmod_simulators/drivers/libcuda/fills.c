/* Fills: cuMemset in one and two dimensions. */
#include "cuda_standin.h"

#define FILL(bits, type)                                                                           \
    CUresult CUDAAPI cuMemsetD##bits##Async(CUdeviceptr dstDevice, type value, size_t N,           \
                                            CUstream hStream) {                                    \
        ENTER(CURRENT);                                                                            \
        return submit_fill((Fill){dstDevice, 0, N, 1, sizeof value, value}, hStream, true);        \
    }                                                                                              \
    CUresult CUDAAPI cuMemsetD2D##bits##Async(CUdeviceptr dstDevice, size_t dstPitch, type value,  \
                                              size_t Width, size_t Height, CUstream hStream) {     \
        ENTER(CURRENT);                                                                            \
        return submit_fill((Fill){dstDevice, dstPitch, Width, Height, sizeof value, value},        \
                           hStream, true);                                                         \
    }

FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned int)

#define FILL_NOW(name, name_2d, type)                                                              \
    CUresult CUDAAPI name(CUdeviceptr dstDevice, type value, size_t N) {                           \
        ENTER(CURRENT);                                                                            \
        return submit_fill((Fill){dstDevice, 0, N, 1, sizeof value, value}, NULL, false);          \
    }                                                                                              \
    CUresult CUDAAPI name_2d(CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width,     \
                             size_t Height) {                                                      \
        ENTER(CURRENT);                                                                            \
        return submit_fill((Fill){dstDevice, dstPitch, Width, Height, sizeof value, value}, NULL,  \
                           false);                                                                 \
    }

FILL_NOW(cuMemsetD8, cuMemsetD2D8, unsigned char)
FILL_NOW(cuMemsetD16, cuMemsetD2D16, unsigned short)
FILL_NOW(cuMemsetD32, cuMemsetD2D32, unsigned int)
