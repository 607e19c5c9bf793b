/* Fills: cuMemset in one and two dimensions. */
#include "cuda_standin.h"

#define ROW(value, stream, async)                                                                  \
    submit_fill((Fill){dstDevice, 0, N, 1, sizeof value, value}, stream, async)
#define ROWS(value, stream, async)                                                                 \
    submit_fill((Fill){dstDevice, dstPitch, Width, Height, sizeof value, value}, stream, async)

FORWARD(cuMemsetD8, CURRENT, ROW(uc, NULL, false))
FORWARD(cuMemsetD8Async, CURRENT, ROW(uc, hStream, true))
FORWARD(cuMemsetD2D8, CURRENT, ROWS(uc, NULL, false))
FORWARD(cuMemsetD2D8Async, CURRENT, ROWS(uc, hStream, true))
FORWARD(cuMemsetD16, CURRENT, ROW(us, NULL, false))
FORWARD(cuMemsetD16Async, CURRENT, ROW(us, hStream, true))
FORWARD(cuMemsetD2D16, CURRENT, ROWS(us, NULL, false))
FORWARD(cuMemsetD2D16Async, CURRENT, ROWS(us, hStream, true))
FORWARD(cuMemsetD32, CURRENT, ROW(ui, NULL, false))
FORWARD(cuMemsetD32Async, CURRENT, ROW(ui, hStream, true))
FORWARD(cuMemsetD2D32, CURRENT, ROWS(ui, NULL, false))
FORWARD(cuMemsetD2D32Async, CURRENT, ROWS(ui, hStream, true))
FORWARD(cuMemsetD2D8_v2_ptds, CURRENT, ROWS(uc, CU_STREAM_PER_THREAD, false))
