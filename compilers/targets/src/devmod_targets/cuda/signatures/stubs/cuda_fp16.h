#pragma once
typedef struct __align__(2) { unsigned short x; } __half_raw, __nv_half_raw;
typedef struct __align__(4) { unsigned short x, y; } __half2_raw, __nv_half2_raw;
struct __attribute__((aligned(2))) __half { unsigned short bits; __half() = default; template <class T> __host__ __device__ constexpr __half(T) : bits() {} __host__ __device__ constexpr operator float() const { return 0; } };
struct __attribute__((aligned(4))) __half2 { unsigned int bits; __half2() = default; template <class T> __host__ __device__ constexpr __half2(T) : bits() {} };
typedef __half half;
typedef __half nv_half;
typedef __half __nv_half;
typedef __half2 half2;
typedef __half2 nv_half2;
typedef __half2 __nv_half2;
