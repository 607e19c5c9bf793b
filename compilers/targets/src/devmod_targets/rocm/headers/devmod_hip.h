/* HIP for kernels, without ROCm: the keywords of the language, the ids of threads, vectors, barriers, shuffles, atomics and math.
 *
 * It uses clang's built-in functions of amdgcn. docs/rocm.md lists its functions, and the errors of the math functions.
 */
#pragma once
#pragma clang system_header /* a program has no warnings about it, as about the header that hipcc includes */
#include <float.h>
#include <limits.h>
#include <stddef.h>
#ifndef DEVMOD_OWN_INTEGERS /* the program defines int64_t and its like */
#include <stdint.h>
#endif

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#if !__has_feature(cuda_noinline_keyword) /* libc++ uses the attribute __noinline__ */
#define __noinline__ __attribute__((noinline))
#endif
#define __launch_bounds__(threads, ...) \
    __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define __HIP_DEVICE_COMPILE__ 1
#define __HIP_PLATFORM_AMD__ 1
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __managed__ __attribute__((device)) /* the host accesses it by its name alone */
#ifndef DEVMOD_WAVE /* the lanes of a wave, from the compiler's arguments: clang has no macro for them */
#define DEVMOD_WAVE 64
#endif
#ifdef DEVMOD_CUDA /* CUDA C++, whose warps have 32 threads: half a wave of 64 lanes is a warp */
#define __CUDACC__ 1
#define __CUDA_ARCH__ 600 /* AMD's processors have what CUDA's functions need up to it; 7.0 has tensor cores */
#define DEVMOD_WARP 32
typedef unsigned devmod_mask;
#else
#define DEVMOD_WARP DEVMOD_WAVE
typedef unsigned long devmod_mask;
#endif
#define devmod_function static __attribute__((device, always_inline, unused)) inline
#define devmod_both static __attribute__((host, device, always_inline, unused)) inline

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

/* -- vectors: structs with named members, as in HIP */

#define DEVMOD_VECTOR(type, name, alignment)                                                                     \
    struct name##1 { type x; };                                                                                  \
    struct __attribute__((aligned(2 * alignment))) name##2 { type x, y; };                                       \
    struct name##3 { type x, y, z; };                                                                            \
    struct __attribute__((aligned(4 * alignment > 16 ? 16 : 4 * alignment))) name##4 { type x, y, z, w; };       \
    devmod_both name##1 make_##name##1(type x) { return name##1{x}; }                                        \
    devmod_both name##2 make_##name##2(type x, type y) { return name##2{x, y}; }                             \
    devmod_both name##3 make_##name##3(type x, type y, type z) { return name##3{x, y, z}; }                  \
    devmod_both name##4 make_##name##4(type x, type y, type z, type w) { return name##4{x, y, z, w}; }
DEVMOD_VECTOR(char, char, 1)
DEVMOD_VECTOR(unsigned char, uchar, 1)
DEVMOD_VECTOR(short, short, 2)
DEVMOD_VECTOR(unsigned short, ushort, 2)
DEVMOD_VECTOR(int, int, 4)
DEVMOD_VECTOR(unsigned int, uint, 4)
DEVMOD_VECTOR(long, long, 8)
DEVMOD_VECTOR(unsigned long, ulong, 8)
DEVMOD_VECTOR(float, float, 4)
DEVMOD_VECTOR(double, double, 8)
#include "devmod_arithmetic.h"

struct dim3 {
    unsigned x, y, z;
    __attribute__((host, device)) constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

/* -- ids: objects whose members are built-in functions */

#define DEVMOD_ID(name, from_x, from_y, from_z)                                                                  \
    struct devmod_##name {                                                                                       \
        __declspec(property(get = get_x)) unsigned x;                                                            \
        __declspec(property(get = get_y)) unsigned y;                                                            \
        __declspec(property(get = get_z)) unsigned z;                                                            \
        static __device__ __forceinline__ unsigned get_x() { return from_x; }                                    \
        static __device__ __forceinline__ unsigned get_y() { return from_y; }                                    \
        static __device__ __forceinline__ unsigned get_z() { return from_z; }                                    \
        __device__ operator dim3() const { return dim3(get_x(), get_y(), get_z()); }                             \
    };                                                                                                           \
    extern const __device__ __attribute__((weak)) devmod_##name name;
/* The blocks of the grid are the first hidden arguments (code object version 5). */
devmod_function unsigned devmod_blocks(int axis)
{
    return ((const __attribute__((address_space(4))) unsigned *)__builtin_amdgcn_implicitarg_ptr())[axis];
}
DEVMOD_ID(threadIdx, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z())
DEVMOD_ID(blockIdx, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z())
DEVMOD_ID(blockDim, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(), __builtin_amdgcn_workgroup_size_z())
DEVMOD_ID(gridDim, devmod_blocks(0), devmod_blocks(1), devmod_blocks(2))
static __device__ constexpr int warpSize = DEVMOD_WARP; /* no macro: cudaDeviceProp has a member of this name */
#include "devmod_hip_indices.h"

/* -- barriers and fences */

devmod_function void __syncthreads()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
devmod_function void __syncwarp(unsigned long = ~0ul)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
devmod_function void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
devmod_function void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
devmod_function void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }

/* -- the lanes of a wave */

devmod_function unsigned devmod_lane()
{
    unsigned low = __builtin_amdgcn_mbcnt_lo(~0u, 0);
    return __builtin_amdgcn_wavefrontsize() == 64 ? __builtin_amdgcn_mbcnt_hi(~0u, low) : low;
}
/* The first lane of the warp in its wave: 0, but for the second warp of a wave of 64 lanes. */
devmod_function unsigned devmod_first_lane() { return DEVMOD_WARP < DEVMOD_WAVE ? devmod_lane() & DEVMOD_WARP : 0; }
devmod_function unsigned __lane_id() { return devmod_lane() - devmod_first_lane(); }
devmod_function devmod_mask __ballot(int predicate) { return (devmod_mask)(__builtin_amdgcn_uicmp(predicate, 0, 33) >> devmod_first_lane()); }
devmod_function int __any(int predicate) { return __ballot(predicate) != 0; }
devmod_function int __all(int predicate) { return __ballot(!predicate) == 0; }
devmod_function devmod_mask __activemask() { return __ballot(1); }
devmod_function int devmod_permute(int lane, int value) { return __builtin_amdgcn_ds_bpermute((lane + devmod_first_lane()) << 2, value); }
devmod_function int devmod_source(int lane, int width, bool is_inside) { return is_inside ? lane : (int)__lane_id(); }
#if DEVMOD_WARP == 64 && (defined(__GFX10__) || defined(__GFX11__))
#define DEVMOD_SHUFFLES 0
#else
#define DEVMOD_SHUFFLES 1
#endif
template <class T> devmod_function T devmod_shuffle(T value, int lane)
{
    static_assert(sizeof(T) && DEVMOD_SHUFFLES, "gfx10 and gfx11 have no shuffles in waves of 64 lanes: leave out -mwavefrontsize64");
    int words[(sizeof(T) + 3) / 4];
    __builtin_memcpy(words, &value, sizeof(T));
    for (int &word : words)
        word = devmod_permute(lane, word);
    __builtin_memcpy(&value, words, sizeof(T));
    return value;
}
/* A program may have its own template of this form: that is another function, and clang prefers this one. */
#define DEVMOD_GENERIC __attribute__((enable_if(true, "")))
#define DEVMOD_WIDTH                                                                                             \
    __attribute__((diagnose_if(width > DEVMOD_WARP, "the width of a shuffle is at most the number of lanes of a wave, which is 32 here", "error")))
template <class T> devmod_function T __shfl(T value, int source, int width = warpSize) DEVMOD_WIDTH DEVMOD_GENERIC
{
    int self = __lane_id();
    return devmod_shuffle(value, (source & (width - 1)) + (self & ~(width - 1)));
}
template <class T> devmod_function T __shfl_up(T value, unsigned delta, int width = warpSize) DEVMOD_WIDTH DEVMOD_GENERIC
{
    int self = __lane_id(), source = self - (int)delta;
    return devmod_shuffle(value, devmod_source(source, width, source >= (self & ~(width - 1))));
}
template <class T> devmod_function T __shfl_down(T value, unsigned delta, int width = warpSize) DEVMOD_WIDTH DEVMOD_GENERIC
{
    int self = __lane_id();
    return devmod_shuffle(value, devmod_source(self + (int)delta, width, (self & (width - 1)) + (int)delta < width));
}
template <class T> devmod_function T __shfl_xor(T value, int mask, int width = warpSize) DEVMOD_WIDTH DEVMOD_GENERIC
{
    int self = __lane_id(), source = self ^ mask;
    return devmod_shuffle(value, devmod_source(source, width, source < ((self + width) & ~(width - 1))));
}
template <class M, class T> devmod_function T __shfl_sync(M, T value, int source, int width = warpSize) DEVMOD_WIDTH DEVMOD_GENERIC { return __shfl(value, source, width); }
template <class M, class T> devmod_function T __shfl_up_sync(M, T value, unsigned delta, int width = warpSize) DEVMOD_WIDTH DEVMOD_GENERIC { return __shfl_up(value, delta, width); }
template <class M, class T> devmod_function T __shfl_down_sync(M, T value, unsigned delta, int width = warpSize) DEVMOD_WIDTH DEVMOD_GENERIC { return __shfl_down(value, delta, width); }
template <class M, class T> devmod_function T __shfl_xor_sync(M, T value, int mask, int width = warpSize) DEVMOD_WIDTH DEVMOD_GENERIC { return __shfl_xor(value, mask, width); }
/* -- atomics: relaxed, for the block, the device or the system. The second argument is converted to the type of the first.
 *
 * The overloads are those of AMD's header. The templates are for all other types, such as long long.
 */

template <class T> struct devmod_identity { typedef T type; };
#define DEVMOD_ATOMIC(name, operation, suffix, scope)                                                            \
    template <class T> devmod_function T name##suffix(T *address, typename devmod_identity<T>::type value)       \
    {                                                                                                            \
        return operation(address, value, __ATOMIC_RELAXED, scope);                                               \
    }
#define DEVMOD_OVERLOAD(T, name) devmod_function T name(T *address, T value) { return name<T>(address, value); }
#define DEVMOD_INTEGERS(name) DEVMOD_OVERLOAD(int, name) DEVMOD_OVERLOAD(unsigned, name) DEVMOD_OVERLOAD(unsigned long, name) DEVMOD_OVERLOAD(unsigned long long, name)
#define DEVMOD_FLOATS(name) DEVMOD_OVERLOAD(float, name) DEVMOD_OVERLOAD(double, name)
#define DEVMOD_NUMBERS(name) DEVMOD_INTEGERS(name) DEVMOD_FLOATS(name)
#define DEVMOD_CAS(T, name) devmod_function T name(T *address, T expected, T desired) { return name<T>(address, expected, desired); }
#define DEVMOD_ATOMICS(suffix, scope)                                                                            \
    DEVMOD_ATOMIC(atomicAdd, __hip_atomic_fetch_add, suffix, scope)                                              \
    DEVMOD_ATOMIC(atomicExch, __hip_atomic_exchange, suffix, scope)                                              \
    DEVMOD_ATOMIC(atomicMin, __hip_atomic_fetch_min, suffix, scope)                                              \
    DEVMOD_ATOMIC(atomicMax, __hip_atomic_fetch_max, suffix, scope)                                              \
    DEVMOD_ATOMIC(atomicAnd, __hip_atomic_fetch_and, suffix, scope)                                              \
    DEVMOD_ATOMIC(atomicOr, __hip_atomic_fetch_or, suffix, scope)                                                \
    DEVMOD_ATOMIC(atomicXor, __hip_atomic_fetch_xor, suffix, scope)                                              \
    template <class T> devmod_function T atomicSub##suffix(T *address, typename devmod_identity<T>::type value)  \
    {                                                                                                            \
        return atomicAdd##suffix(address, (T)-value);                                                            \
    }                                                                                                            \
    template <class T> devmod_function T atomicCAS##suffix(T *address, typename devmod_identity<T>::type expected, typename devmod_identity<T>::type desired) \
    {                                                                                                            \
        __hip_atomic_compare_exchange_strong(address, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED, scope); \
        return expected;                                                                                         \
    }                                                                                                            \
    DEVMOD_NUMBERS(atomicAdd##suffix) DEVMOD_NUMBERS(atomicSub##suffix) DEVMOD_NUMBERS(atomicExch##suffix) DEVMOD_NUMBERS(atomicMin##suffix) \
    DEVMOD_NUMBERS(atomicMax##suffix) DEVMOD_OVERLOAD(long long, atomicMin##suffix) DEVMOD_OVERLOAD(long long, atomicMax##suffix) \
    DEVMOD_INTEGERS(atomicAnd##suffix) DEVMOD_INTEGERS(atomicOr##suffix) DEVMOD_INTEGERS(atomicXor##suffix)      \
    DEVMOD_CAS(int, atomicCAS##suffix) DEVMOD_CAS(unsigned, atomicCAS##suffix) DEVMOD_CAS(unsigned short, atomicCAS##suffix) DEVMOD_CAS(float, atomicCAS##suffix) \
    DEVMOD_CAS(unsigned long, atomicCAS##suffix) DEVMOD_CAS(unsigned long long, atomicCAS##suffix) DEVMOD_CAS(double, atomicCAS##suffix) \
    devmod_function unsigned atomicInc##suffix(unsigned *address, unsigned limit)                                \
    {                                                                                                            \
        unsigned before = *address, seen;                                                                        \
        do {                                                                                                     \
            seen = before;                                                                                       \
            before = atomicCAS##suffix(address, seen, seen >= limit ? 0 : seen + 1);                             \
        } while (before != seen);                                                                                \
        return before;                                                                                           \
    }                                                                                                            \
    devmod_function unsigned atomicDec##suffix(unsigned *address, unsigned limit)                                \
    {                                                                                                            \
        unsigned before = *address, seen;                                                                        \
        do {                                                                                                     \
            seen = before;                                                                                       \
            before = atomicCAS##suffix(address, seen, seen == 0 || seen > limit ? limit : seen - 1);             \
        } while (before != seen);                                                                                \
        return before;                                                                                           \
    }
DEVMOD_ATOMICS(, __HIP_MEMORY_SCOPE_AGENT)
/* -- integers */

devmod_function int __popc(unsigned x) { return __builtin_popcount(x); }
devmod_function int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
devmod_function int __clz(int x) { return x ? __builtin_clz(x) : 32; }
devmod_function int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
devmod_function int __ffs(int x) { return __builtin_ffs(x); }
devmod_function unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
devmod_function unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
devmod_function int __mul24(int a, int b) { return (int)((unsigned)((int)((unsigned)a << 8) >> 8) * (unsigned)((int)((unsigned)b << 8) >> 8)); }
devmod_function int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
devmod_function unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
devmod_function int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
#define DEVMOD_LIMITS(type, of_a, of_b)                                                                          \
    devmod_both type min(of_a a, of_b b) { return (type)a < (type)b ? (type)a : (type)b; }                       \
    devmod_both type max(of_a a, of_b b) { return (type)a > (type)b ? (type)a : (type)b; }
DEVMOD_LIMITS(int, int, int)
DEVMOD_LIMITS(unsigned, unsigned, unsigned)
DEVMOD_LIMITS(long, long, long)
DEVMOD_LIMITS(unsigned, int, unsigned)
DEVMOD_LIMITS(unsigned, unsigned, int)
DEVMOD_LIMITS(unsigned long, unsigned long, unsigned long)
DEVMOD_LIMITS(long long, long long, long long)
DEVMOD_LIMITS(unsigned long long, unsigned long long, unsigned long long)
devmod_function int abs(int x) { return x < 0 ? -x : x; }
devmod_function long abs(long x) { return x < 0 ? -x : x; }
devmod_function long long abs(long long x) { return x < 0 ? -x : x; }
devmod_function int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
devmod_function unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
devmod_function float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
devmod_function float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }

#include "devmod_hip_math.h"
#ifdef DEVMOD_COMPLETE
#include "devmod_hip_complete.h"
#ifdef DEVMOD_CUDA /* nvcc includes it before each source */
#include <cuda_runtime.h>
#endif
#endif
