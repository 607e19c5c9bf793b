// Arguments in memory: constness, qualifiers, elements, arrays, references.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

struct Point { float x, y; };
struct Opaque;
union Word { int number; float real; };
enum Color : short { RED };
typedef const float *__restrict__ input_t;
typedef float row_t[8];

extern "C" __global__ void qualifiers(const float *a, float const *b, float *const c, const float *const __restrict__ d, volatile int *e,
                                      const volatile int *f, float *__restrict__ g, input_t h, const void *i, void *j) {
  *c = *a + *b + *d + *e + *f + *g + *h + *(const int *)i;
  *(int *)j = 1;
}

extern "C" __global__ void elements(half *h, __nv_bfloat16 *b, __nv_fp8_e4m3 *e4, const __nv_fp8_e5m2 *e5, half2 *h2, float4 *f4, float3 *f3,
                                    const int3 *i3, uchar4 *uc4, bool *flags, Color *colors, char *text, unsigned long long *counts) {
  h[0] = h2[0].x;
  b[0] = __float2bfloat16(float(e5[0]));
  e4[0] = e4[1];
  f4[0].x = f3[0].x + i3[0].y + uc4[0].x + flags[0] + colors[0] + text[0] + counts[0];
}

extern "C" __global__ void structs(Point *p, const Point *q, Word *w, Opaque *o, float **rows, const float *const *fixed, Point **points) {
  p[0] = q[0];
  w[0].number = o != nullptr;
  rows[0][0] = fixed[0][0] + points[0]->x;
}

extern "C" __global__ void arrays(int a[16], const float b[], float m[][4], const row_t *rows, float (&r)[4], const Point &point, int n[2][3]) {
  a[0] = b[0] + m[1][2] + rows[1][2] + r[3] + point.x + n[1][2];
}
