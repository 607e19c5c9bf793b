#pragma once
typedef unsigned char __nv_fp4_storage_t;
typedef unsigned char __nv_fp4x2_storage_t;
typedef unsigned short __nv_fp4x4_storage_t;
struct __attribute__((aligned(1))) __nv_fp4_e2m1 { unsigned char bits; __nv_fp4_e2m1() = default; template <class T> __host__ __device__ constexpr __nv_fp4_e2m1(T) : bits() {} __host__ __device__ constexpr operator float() const { return 0; } };
struct __attribute__((aligned(1))) __nv_fp4x2_e2m1 { unsigned char bits; __nv_fp4x2_e2m1() = default; template <class T> __host__ __device__ constexpr __nv_fp4x2_e2m1(T) : bits() {} };
struct __attribute__((aligned(2))) __nv_fp4x4_e2m1 { unsigned short bits; __nv_fp4x4_e2m1() = default; template <class T> __host__ __device__ constexpr __nv_fp4x4_e2m1(T) : bits() {} };
