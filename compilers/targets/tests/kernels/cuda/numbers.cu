// Arguments by value: every number of C++, vectors, typedefs, enums.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

typedef unsigned long long word_t;
using real = float;
using index_type = std::int32_t;
enum Plain { ZERO, ONE };
enum class Small : unsigned char { A, B };
enum Signed { NEGATIVE = -1, POSITIVE };

extern "C" __global__ void integers(bool b, char c, signed char sc, unsigned char uc, short s, unsigned short us, int i, unsigned u, long l,
                                    unsigned long ul, long long ll, unsigned long long ull, size_t size, std::uint16_t u16, int64_t i64,
                                    char16_t c16, char32_t c32, wchar_t w, int *out) {
  *out = b + c + sc + uc + s + us + i + u + l + ul + ll + ull + size + u16 + i64 + c16 + c32 + w;
}

extern "C" __global__ void floats(float f, double d, half h, __half h1, __nv_bfloat16 b, nv_bfloat16 b1, __nv_fp8_e4m3 e4, __nv_fp8_e5m2 e5,
                                  half2 h2, __nv_bfloat162 b2, float *out) {
  *out = f + d + __half2float(h) + __half2float(h1) + __bfloat162float(b) + __bfloat162float(b1) + float(e4) + float(e5) +
         __half2float(h2.x) + __bfloat162float(b2.y);
}

extern "C" __global__ void vectors(float4 f4, float3 f3, float2 f2, float1 f1, int4 i4, uint3 u3, uchar4 uc4, char3 c3, short2 s2, double2 d2,
                                   longlong2 ll2, ulong4 ul4, double4_32a d4, dim3 d, float *out) {
  *out = f4.w + f3.z + f2.y + f1.x + i4.w + u3.z + uc4.w + c3.z + s2.y + d2.y + ll2.y + ul4.w + d4.w + d.z;
}

extern "C" __global__ void names(word_t w, real r, index_type i, Plain p, Small s, Signed n, const int c, volatile float v, int *out) {
  *out = w + r + i + p + (int)s + n + c + v;
}

extern "C" __global__ void handles(cudaTextureObject_t texture, cudaSurfaceObject_t surface, void (*callback)(int), int *out) {
  *out = tex1Dfetch<int>(texture, 0);
  surf1Dwrite(1, surface, 0);
  callback(1);
}
