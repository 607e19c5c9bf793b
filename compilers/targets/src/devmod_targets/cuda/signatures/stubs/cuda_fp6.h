#pragma once
typedef unsigned char __nv_fp6_storage_t;
typedef unsigned short __nv_fp6x2_storage_t;
typedef unsigned int __nv_fp6x4_storage_t;
struct __attribute__((aligned(1))) __nv_fp6_e3m2 { unsigned char bits; __nv_fp6_e3m2() = default; template <class T> __host__ __device__ constexpr __nv_fp6_e3m2(T) : bits() {} };
struct __attribute__((aligned(2))) __nv_fp6x2_e3m2 { unsigned short bits; __nv_fp6x2_e3m2() = default; template <class T> __host__ __device__ constexpr __nv_fp6x2_e3m2(T) : bits() {} };
struct __attribute__((aligned(4))) __nv_fp6x4_e3m2 { unsigned int bits; __nv_fp6x4_e3m2() = default; template <class T> __host__ __device__ constexpr __nv_fp6x4_e3m2(T) : bits() {} };
struct __attribute__((aligned(1))) __nv_fp6_e2m3 { unsigned char bits; __nv_fp6_e2m3() = default; template <class T> __host__ __device__ constexpr __nv_fp6_e2m3(T) : bits() {} __host__ __device__ constexpr operator float() const { return 0; } };
struct __attribute__((aligned(2))) __nv_fp6x2_e2m3 { unsigned short bits; __nv_fp6x2_e2m3() = default; template <class T> __host__ __device__ constexpr __nv_fp6x2_e2m3(T) : bits() {} };
struct __attribute__((aligned(4))) __nv_fp6x4_e2m3 { unsigned int bits; __nv_fp6x4_e2m3() = default; template <class T> __host__ __device__ constexpr __nv_fp6x4_e2m3(T) : bits() {} };
