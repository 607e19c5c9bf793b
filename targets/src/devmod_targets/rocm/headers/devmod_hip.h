/* HIP for kernels, without ROCm: the keywords of the language, the ids of threads, vectors, barriers, shuffles, atomics and math.
 *
 * It uses clang's built-in functions of amdgcn. docs/rocm.md lists its functions, and the errors of the math functions.
 */
#pragma once
#include <float.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

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
#define __managed__ __attribute__((managed))
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
#define DEVMOD_ARITHMETIC(name, symbol)                                                                          \
    devmod_both name##2 operator symbol(name##2 a, name##2 b) { return name##2{a.x symbol b.x, a.y symbol b.y}; } \
    devmod_both name##3 operator symbol(name##3 a, name##3 b) { return name##3{a.x symbol b.x, a.y symbol b.y, a.z symbol b.z}; } \
    devmod_both name##4 operator symbol(name##4 a, name##4 b) { return name##4{a.x symbol b.x, a.y symbol b.y, a.z symbol b.z, a.w symbol b.w}; } \
    devmod_both name##2 operator symbol(name##2 a, name b) { return a symbol name##2{b, b}; }                \
    devmod_both name##2 operator symbol(name a, name##2 b) { return name##2{a, a} symbol b; }                \
    devmod_both name##3 operator symbol(name##3 a, name b) { return a symbol name##3{b, b, b}; }             \
    devmod_both name##3 operator symbol(name a, name##3 b) { return name##3{a, a, a} symbol b; }             \
    devmod_both name##4 operator symbol(name##4 a, name b) { return a symbol name##4{b, b, b, b}; }          \
    devmod_both name##4 operator symbol(name a, name##4 b) { return name##4{a, a, a, a} symbol b; }          \
    devmod_both name##2 &operator symbol##=(name##2 &a, name##2 b) { return a = a symbol b; }                \
    devmod_both name##3 &operator symbol##=(name##3 &a, name##3 b) { return a = a symbol b; }                \
    devmod_both name##4 &operator symbol##=(name##4 &a, name##4 b) { return a = a symbol b; }
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
DEVMOD_ARITHMETIC(float, +)
DEVMOD_ARITHMETIC(float, -)
DEVMOD_ARITHMETIC(float, *)
DEVMOD_ARITHMETIC(float, /)
DEVMOD_ARITHMETIC(double, +)
DEVMOD_ARITHMETIC(double, -)
DEVMOD_ARITHMETIC(double, *)
DEVMOD_ARITHMETIC(double, /)
DEVMOD_ARITHMETIC(int, +)
DEVMOD_ARITHMETIC(int, -)
DEVMOD_ARITHMETIC(int, *)

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
#define warpSize __builtin_amdgcn_wavefrontsize()
#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z

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
/* One number of the block's threads, of which the first one clears it. */
#define DEVMOD_SYNC(name, start, operation)                                                                      \
    devmod_function int name(int predicate)                                                                      \
    {                                                                                                            \
        static __shared__ int total;                                                                             \
        if (threadIdx.x + threadIdx.y + threadIdx.z == 0)                                                        \
            total = start;                                                                                       \
        __syncthreads();                                                                                         \
        operation(&total, predicate != 0, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);                       \
        __syncthreads();                                                                                         \
        int result = total;                                                                                      \
        __syncthreads();                                                                                         \
        return result;                                                                                           \
    }
DEVMOD_SYNC(__syncthreads_count, 0, __hip_atomic_fetch_add)
DEVMOD_SYNC(__syncthreads_and, 1, __hip_atomic_fetch_and)
DEVMOD_SYNC(__syncthreads_or, 0, __hip_atomic_fetch_or)
devmod_function void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
devmod_function void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
devmod_function void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }

/* -- the lanes of a wave */

devmod_function unsigned __lane_id()
{
    unsigned low = __builtin_amdgcn_mbcnt_lo(~0u, 0);
    return __builtin_amdgcn_wavefrontsize() == 64 ? __builtin_amdgcn_mbcnt_hi(~0u, low) : low;
}
devmod_function unsigned long __ballot(int predicate) { return __builtin_amdgcn_uicmp(predicate, 0, 33); }
devmod_function int __any(int predicate) { return __ballot(predicate) != 0; }
devmod_function int __all(int predicate) { return __ballot(!predicate) == 0; }
devmod_function unsigned long __activemask() { return __ballot(1); }
devmod_function int devmod_permute(int lane, int value) { return __builtin_amdgcn_ds_bpermute(lane << 2, value); }
devmod_function int devmod_source(int lane, int width, bool is_inside) { return is_inside ? lane : (int)__lane_id(); }
template <class T> devmod_function T devmod_shuffle(T value, int lane)
{
    int words[(sizeof(T) + 3) / 4];
    __builtin_memcpy(words, &value, sizeof(T));
    for (int &word : words)
        word = devmod_permute(lane, word);
    __builtin_memcpy(&value, words, sizeof(T));
    return value;
}
template <class T> devmod_function T __shfl(T value, int source, int width = warpSize)
{
    int self = __lane_id();
    return devmod_shuffle(value, (source & (width - 1)) + (self & ~(width - 1)));
}
template <class T> devmod_function T __shfl_up(T value, unsigned delta, int width = warpSize)
{
    int self = __lane_id(), source = self - (int)delta;
    return devmod_shuffle(value, devmod_source(source, width, source >= (self & ~(width - 1))));
}
template <class T> devmod_function T __shfl_down(T value, unsigned delta, int width = warpSize)
{
    int self = __lane_id();
    return devmod_shuffle(value, devmod_source(self + (int)delta, width, (self & (width - 1)) + (int)delta < width));
}
template <class T> devmod_function T __shfl_xor(T value, int mask, int width = warpSize)
{
    int self = __lane_id(), source = self ^ mask;
    return devmod_shuffle(value, devmod_source(source, width, source < ((self + width) & ~(width - 1))));
}
template <class M, class T> devmod_function T __shfl_sync(M, T value, int source, int width = warpSize) { return __shfl(value, source, width); }
template <class M, class T> devmod_function T __shfl_up_sync(M, T value, unsigned delta, int width = warpSize) { return __shfl_up(value, delta, width); }
template <class M, class T> devmod_function T __shfl_down_sync(M, T value, unsigned delta, int width = warpSize) { return __shfl_down(value, delta, width); }
template <class M, class T> devmod_function T __shfl_xor_sync(M, T value, int mask, int width = warpSize) { return __shfl_xor(value, mask, width); }
/* The mask of the _sync forms is that of the lanes that take part: those of the others do not call them. */
template <class M> devmod_function unsigned long __ballot_sync(M mask, int predicate) { return __ballot(predicate) & mask; }
template <class M> devmod_function int __any_sync(M mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
template <class M> devmod_function int __all_sync(M mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
template <class T> devmod_function T devmod_first(T value)
{
    int words[(sizeof(T) + 3) / 4];
    __builtin_memcpy(words, &value, sizeof(T));
    for (int &word : words)
        word = __builtin_amdgcn_readfirstlane(word);
    __builtin_memcpy(&value, words, sizeof(T));
    return value;
}
template <class T> devmod_function unsigned long __match_any(T value)
{
    for (;;)
        if (devmod_first(value) == value)
            return __ballot(1); /* the lanes that leave the loop together */
}
template <class T> devmod_function unsigned long __match_all(T value, int *is_equal)
{
    *is_equal = __all(devmod_first(value) == value);
    return *is_equal ? __ballot(1) : 0;
}
template <class M, class T> devmod_function unsigned long __match_any_sync(M mask, T value) { return __match_any(value) & mask; }
template <class M, class T> devmod_function unsigned long __match_all_sync(M mask, T value, int *is_equal) { return __match_all(value, is_equal) & mask; }
/* Visits the lanes of the mask in turn: a reduction of any subset of the wave. */
#define DEVMOD_REDUCE(name, expression)                                                                          \
    template <class M, class T> devmod_function T name(M mask, T value)                                          \
    {                                                                                                            \
        unsigned long rest = mask & __ballot(1);                                                                 \
        T a = __shfl(value, __builtin_ctzl(rest));                                                               \
        while (rest &= rest - 1) {                                                                               \
            T b = __shfl(value, __builtin_ctzl(rest));                                                           \
            a = expression;                                                                                      \
        }                                                                                                        \
        return a;                                                                                                \
    }
DEVMOD_REDUCE(__reduce_add_sync, a + b)
DEVMOD_REDUCE(__reduce_min_sync, a < b ? a : b)
DEVMOD_REDUCE(__reduce_max_sync, a > b ? a : b)
DEVMOD_REDUCE(__reduce_and_sync, a & b)
DEVMOD_REDUCE(__reduce_or_sync, a | b)
DEVMOD_REDUCE(__reduce_xor_sync, a ^ b)

/* -- loads and stores with hints for the cache, and clocks */

#define DEVMOD_LOAD(name, expression) template <class T> devmod_function T name(const T *address) { return expression; }
#define DEVMOD_STORE(name) template <class T> devmod_function void name(T *address, typename devmod_identity<T>::type value) { *address = value; }
template <class T> struct devmod_identity { typedef T type; };
DEVMOD_LOAD(__ldg, *address)
DEVMOD_LOAD(__ldca, *address)
DEVMOD_LOAD(__ldcg, *address)
DEVMOD_LOAD(__ldcs, *address)
DEVMOD_LOAD(__ldlu, *address)
DEVMOD_LOAD(__ldcv, __builtin_nontemporal_load(address))
DEVMOD_STORE(__stwb)
DEVMOD_STORE(__stcg)
DEVMOD_STORE(__stcs)
DEVMOD_STORE(__stwt)
devmod_function long long clock64() { return (long long)__builtin_readcyclecounter(); }
devmod_function long clock() { return (long)__builtin_readcyclecounter(); }
devmod_function long long wall_clock64() { return (long long)__builtin_readsteadycounter(); }
devmod_function void __nanosleep(unsigned) { __builtin_amdgcn_s_sleep(1); }

/* -- atomics: relaxed, for the block, the device or the system. The second argument is converted to the type of the first. */

#define DEVMOD_ATOMIC(name, operation, suffix, scope)                                                            \
    template <class T> devmod_function T name##suffix(T *address, typename devmod_identity<T>::type value)       \
    {                                                                                                            \
        return operation(address, value, __ATOMIC_RELAXED, scope);                                               \
    }
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
DEVMOD_ATOMICS(_block, __HIP_MEMORY_SCOPE_WORKGROUP)
DEVMOD_ATOMICS(_system, __HIP_MEMORY_SCOPE_SYSTEM)
template <class T> devmod_function T unsafeAtomicAdd(T *address, typename devmod_identity<T>::type value) { return atomicAdd(address, value); }
template <class T> devmod_function T safeAtomicAdd(T *address, typename devmod_identity<T>::type value) { return atomicAdd(address, value); }

#include "devmod_hip_integer.h"
#include "devmod_hip_math.h"
