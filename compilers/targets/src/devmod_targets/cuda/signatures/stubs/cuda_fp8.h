#pragma once
typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
struct __attribute__((aligned(1))) __nv_fp8_e5m2 { unsigned char bits; __nv_fp8_e5m2() = default; template <class T> __host__ __device__ constexpr __nv_fp8_e5m2(T) : bits() {} };
struct __attribute__((aligned(2))) __nv_fp8x2_e5m2 { unsigned short bits; __nv_fp8x2_e5m2() = default; template <class T> __host__ __device__ constexpr __nv_fp8x2_e5m2(T) : bits() {} };
struct __attribute__((aligned(4))) __nv_fp8x4_e5m2 { unsigned int bits; __nv_fp8x4_e5m2() = default; template <class T> __host__ __device__ constexpr __nv_fp8x4_e5m2(T) : bits() {} };
struct __attribute__((aligned(1))) __nv_fp8_e4m3 { unsigned char bits; __nv_fp8_e4m3() = default; template <class T> __host__ __device__ constexpr __nv_fp8_e4m3(T) : bits() {} __host__ __device__ constexpr operator float() const { return 0; } };
struct __attribute__((aligned(2))) __nv_fp8x2_e4m3 { unsigned short bits; __nv_fp8x2_e4m3() = default; template <class T> __host__ __device__ constexpr __nv_fp8x2_e4m3(T) : bits() {} };
struct __attribute__((aligned(4))) __nv_fp8x4_e4m3 { unsigned int bits; __nv_fp8x4_e4m3() = default; template <class T> __host__ __device__ constexpr __nv_fp8x4_e4m3(T) : bits() {} };
struct __attribute__((aligned(1))) __nv_fp8_e8m0 { unsigned char bits; __nv_fp8_e8m0() = default; template <class T> __host__ __device__ constexpr __nv_fp8_e8m0(T) : bits() {} __host__ __device__ constexpr operator float() const { return 0; } };
struct __attribute__((aligned(2))) __nv_fp8x2_e8m0 { unsigned short bits; __nv_fp8x2_e8m0() = default; template <class T> __host__ __device__ constexpr __nv_fp8x2_e8m0(T) : bits() {} };
struct __attribute__((aligned(4))) __nv_fp8x4_e8m0 { unsigned int bits; __nv_fp8x4_e8m0() = default; template <class T> __host__ __device__ constexpr __nv_fp8x4_e8m0(T) : bits() {} };
struct __attribute__((aligned(1))) __nv_fp8_ue5m3 { unsigned char bits; __nv_fp8_ue5m3() = default; template <class T> __host__ __device__ constexpr __nv_fp8_ue5m3(T) : bits() {} __host__ __device__ constexpr operator float() const { return 0; } };
struct __attribute__((aligned(2))) __nv_fp8x2_ue5m3 { unsigned short bits; __nv_fp8x2_ue5m3() = default; template <class T> __host__ __device__ constexpr __nv_fp8x2_ue5m3(T) : bits() {} };
struct __attribute__((aligned(4))) __nv_fp8x4_ue5m3 { unsigned int bits; __nv_fp8x4_ue5m3() = default; template <class T> __host__ __device__ constexpr __nv_fp8x4_ue5m3(T) : bits() {} };
