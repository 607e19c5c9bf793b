#pragma once
#include <stddef.h>
// The functions of <string.h> that NVRTC lacks.
static __host__ __device__ inline size_t strlen(const char *s) { size_t n = 0; while (s[n]) ++n; return n; }
static __host__ __device__ inline int strcmp(const char *a, const char *b) {
  for (; *a && *a == *b; ++a, ++b) {}
  return (int)(unsigned char)*a - (int)(unsigned char)*b;
}
static __host__ __device__ inline int memcmp(const void *a, const void *b, size_t n) {
  const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
  for (; n; ++x, ++y, --n) if (*x != *y) return (int)*x - (int)*y;
  return 0;
}
