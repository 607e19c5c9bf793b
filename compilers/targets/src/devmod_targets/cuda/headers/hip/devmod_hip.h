/* What HIP has for kernels beside CUDA C++. devmod includes it before each HIP source. docs/cuda.md lists it. */
#pragma once
#define __HIPCC__ 1
#define __HIP_PLATFORM_NVIDIA__ 1
#ifdef __CUDA_ARCH__
#define __HIP_DEVICE_COMPILE__ 1
#endif
#include <hip/devmod_hip_names.h>

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#include <hip/devmod_hip_indices.h>

#define devmod_function __device__ __forceinline__
#define devmod_both __host__ __device__ __forceinline__
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1444 /* double4 is deprecated */
#include <hip/devmod_arithmetic.h>
#pragma nv_diagnostic pop

/* -- the lanes of a warp, without a mask: all threads that are active. NVIDIA's headers declare older functions of these names */

devmod_function unsigned devmod_lane_id()
{
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
devmod_function unsigned long long devmod_ballot(int predicate) { return __ballot_sync(__activemask(), predicate); }
devmod_function int devmod_any(int predicate) { return __any_sync(__activemask(), predicate); }
devmod_function int devmod_all(int predicate) { return __all_sync(__activemask(), predicate); }
template <class T> devmod_function unsigned long long devmod_match_any(T value) { return __match_any_sync(__activemask(), value); }
template <class T> devmod_function unsigned long long devmod_match_all(T value, int *is_equal)
{
    return __match_all_sync(__activemask(), value, is_equal);
}
/* No program has a definition: the call is an error of the build. PTX would ignore all but the last five bits of the width. NVRTC 13.0
   cannot tell whether a width is a constant: the launch fails then. */
extern "C" __device__ void devmod_a_shuffle_has_at_most_32_lanes();
#if __has_builtin(__builtin_constant_p)
#define devmod_is_constant(value) __builtin_constant_p(value)
#else
#define devmod_is_constant(value) false
#endif
devmod_function void devmod_check_width(int width)
{
    if (devmod_is_constant(width) && width > 32)
        devmod_a_shuffle_has_at_most_32_lanes();
    else if (width > 32)
        __trap();
}
template <class T> devmod_function T devmod_shfl(T value, int source, int width = 32)
{
    devmod_check_width(width);
    return __shfl_sync(__activemask(), value, source, width);
}
template <class T> devmod_function T devmod_shfl_up(T value, unsigned delta, int width = 32)
{
    devmod_check_width(width);
    return __shfl_up_sync(__activemask(), value, delta, width);
}
template <class T> devmod_function T devmod_shfl_down(T value, unsigned delta, int width = 32)
{
    devmod_check_width(width);
    return __shfl_down_sync(__activemask(), value, delta, width);
}
template <class T> devmod_function T devmod_shfl_xor(T value, int mask, int width = 32)
{
    devmod_check_width(width);
    return __shfl_xor_sync(__activemask(), value, mask, width);
}
#define __lane_id devmod_lane_id
#define __ballot devmod_ballot
#define __any devmod_any
#define __all devmod_all
#define __match_any devmod_match_any
#define __match_all devmod_match_all
#define __shfl devmod_shfl
#define __shfl_up devmod_shfl_up
#define __shfl_down devmod_shfl_down
#define __shfl_xor devmod_shfl_xor

/* -- atomics and clocks */

template <class T> struct devmod_identity { typedef T type; };
template <class T> devmod_function T unsafeAtomicAdd(T *address, typename devmod_identity<T>::type value) { return atomicAdd(address, value); }
template <class T> devmod_function T safeAtomicAdd(T *address, typename devmod_identity<T>::type value) { return atomicAdd(address, value); }
devmod_function long long wall_clock64()
{
    unsigned long long nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return (long long)nanoseconds;
}
