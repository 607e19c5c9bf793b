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

HIP(hipMemcpy, CURRENT, (void *dst, const void *src, size_t sizeBytes, int kind),
    (dst, src, sizeBytes, kind)) {
    return copy(dst, src, sizeBytes, kind, NULL, false);
}

#define COPY(name, source, kind)                                                                   \
    HIP(name, CURRENT, (void *dst, source src, size_t sizeBytes), (dst, src, sizeBytes)) {         \
        return copy(dst, src, sizeBytes, kind, NULL, false);                                       \
    }                                                                                              \
    HIP(name##Async, CURRENT, (void *dst, source src, size_t sizeBytes, hipStream_t stream),       \
        (dst, src, sizeBytes, stream)) {                                                           \
        return copy(dst, src, sizeBytes, kind, stream, true);                                      \
    }

COPY(hipMemcpyHtoD, const void *, hipMemcpyHostToDevice)
COPY(hipMemcpyDtoH, void *, hipMemcpyDeviceToHost)
COPY(hipMemcpyDtoD, void *, hipMemcpyDeviceToDevice)

HIP(hipMemcpy2D, CURRENT,
    (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
     int kind),
    (dst, dpitch, src, spitch, width, height, kind)) {
    int sides;
    TRY(sides_of(kind, &sides));
    CHECK(dpitch >= width && spitch >= width, CODE_INVALID_VALUE);
    Copy rows = {{(uintptr_t)dst, dpitch, 0}, {(uintptr_t)src, spitch, 0}, width, height, 1, NULL};
    return submit_copy(rows, NULL, false, sides);
}

/* ---- fills
 * ------------------------------------------------------------------------------------------------------------------
 */

#define FILL(bits, type)                                                                           \
    HIP(hipMemsetD##bits, CURRENT, (void *dest, type value, size_t count), (dest, value, count)) { \
        return submit_fill((Fill){(uintptr_t)dest, 0, count, 1, sizeof value, (uint32_t)value},    \
                           NULL, false);                                                           \
    }                                                                                              \
    HIP(hipMemsetD##bits##Async, CURRENT,                                                          \
        (void *dest, type value, size_t count, hipStream_t stream),                                \
        (dest, value, count, stream)) {                                                            \
        return submit_fill((Fill){(uintptr_t)dest, 0, count, 1, sizeof value, (uint32_t)value},    \
                           stream, true);                                                          \
    }

FILL(8, unsigned char)
FILL(32, int)
