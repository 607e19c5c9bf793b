/* The older bfloat16 of HIP, a struct with its bits in `data`. */
#pragma once
#include <devmod_hip.h>

struct hip_bfloat16 {
    unsigned short data;
    enum truncate_t { truncate };

    hip_bfloat16() = default;
    explicit constexpr __host__ __device__ hip_bfloat16(float x) : data(__builtin_bit_cast(unsigned short, (__bf16)x)) {}
    explicit constexpr __host__ __device__ hip_bfloat16(float x, truncate_t) : data((unsigned short)(__builtin_bit_cast(unsigned, x) >> 16)) {}
    constexpr __host__ __device__ operator float() const { return __builtin_bit_cast(float, (unsigned)data << 16); }
    __host__ __device__ hip_bfloat16 &operator=(float x) { return *this = hip_bfloat16(x); }
    static constexpr __host__ __device__ hip_bfloat16 round_to_bfloat16(float x) { return hip_bfloat16(x); }
    static constexpr __host__ __device__ hip_bfloat16 round_to_bfloat16(float x, truncate_t) { return hip_bfloat16(x, truncate); }
};
#define DEVMOD_BFLOAT16(symbol)                                                                                  \
    devmod_both hip_bfloat16 operator symbol(hip_bfloat16 a, hip_bfloat16 b) { return hip_bfloat16((float)a symbol (float)b); } \
    devmod_both hip_bfloat16 &operator symbol##=(hip_bfloat16 &a, hip_bfloat16 b) { return a = a symbol b; }
DEVMOD_BFLOAT16(+)
DEVMOD_BFLOAT16(-)
DEVMOD_BFLOAT16(*)
DEVMOD_BFLOAT16(/)
