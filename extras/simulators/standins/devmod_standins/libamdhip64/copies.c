/* Copies and fills. */
#include "hip_standin.h"

/* Set *sides to the sides that a kind says are memory of a device. */
static int sides_of(int kind, int *sides) {
    static const int known[] = {
        [hipMemcpyHostToHost] = 0,
        [hipMemcpyHostToDevice] = TO_DEVICE,
        [hipMemcpyDeviceToHost] = FROM_DEVICE,
        [hipMemcpyDeviceToDevice] = TO_DEVICE | FROM_DEVICE,
        [hipMemcpyDefault] = 0,
    };
    CHECK(kind >= 0 && kind <= hipMemcpyDefault, hipErrorInvalidMemcpyDirection);
    *sides = known[kind];
    return CODE_SUCCESS;
}

static int copy(void *dst, const void *src, size_t size, int kind, hipStream_t stream, bool async) {
    int sides;
    TRY(sides_of(kind, &sides));
    return copy_linear((uintptr_t)dst, (uintptr_t)src, size, stream, async, sides);
}

HIP_FORWARD(hipMemcpy, CURRENT, copy(dst, src, sizeBytes, kind, NULL, false))

#define COPY(name, kind)                                                                           \
    HIP_FORWARD(name, CURRENT, copy(dst, src, sizeBytes, kind, NULL, false))                       \
    HIP_FORWARD(name##Async, CURRENT, copy(dst, src, sizeBytes, kind, stream, true))

COPY(hipMemcpyHtoD, hipMemcpyHostToDevice)
COPY(hipMemcpyDtoH, hipMemcpyDeviceToHost)
COPY(hipMemcpyDtoD, hipMemcpyDeviceToDevice)

HIP(hipMemcpy2D, CURRENT) {
    int sides;
    TRY(sides_of(kind, &sides));
    CHECK(dpitch >= width && spitch >= width, CODE_INVALID_VALUE);
    Copy rows = {{(uintptr_t)dst, dpitch, 0}, {(uintptr_t)src, spitch, 0}, width, height, 1, NULL};
    return submit_copy(rows, NULL, false, sides);
}

/* ---- fills */

static int fill(void *dest, size_t count, size_t element, int value, hipStream_t stream,
                bool async) {
    Fill whole = {(uintptr_t)dest, 0, count, 1, element, (uint32_t)value};
    return submit_fill(whole, stream, async);
}

HIP_FORWARD(hipMemsetD8, CURRENT, fill(dest, count, 1, value, NULL, false))
HIP_FORWARD(hipMemsetD8Async, CURRENT, fill(dest, count, 1, value, stream, true))
HIP_FORWARD(hipMemsetD32, CURRENT, fill(dest, count, 4, value, NULL, false))
HIP_FORWARD(hipMemsetD32Async, CURRENT, fill(dst, count, 4, value, stream, true))
