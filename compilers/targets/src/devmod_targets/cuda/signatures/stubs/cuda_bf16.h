#pragma once
typedef struct __align__(2) { unsigned short x; } __nv_bfloat16_raw;
typedef struct __align__(4) { unsigned short x, y; } __nv_bfloat162_raw;
struct __attribute__((aligned(2))) __nv_bfloat16 { unsigned short bits; __nv_bfloat16() = default; template <class T> __host__ __device__ constexpr __nv_bfloat16(T) : bits() {} __host__ __device__ constexpr operator float() const { return 0; } };
struct __attribute__((aligned(4))) __nv_bfloat162 { unsigned int bits; __nv_bfloat162() = default; template <class T> __host__ __device__ constexpr __nv_bfloat162(T) : bits() {} };
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
