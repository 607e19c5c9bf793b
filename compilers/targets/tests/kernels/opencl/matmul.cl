#include "tile.h"
#include <shapes.h>
#include "tile.h"  // comes once: it has a guard

__kernel WORK_GROUP void matmul(__global const float *a, __global const float *b, __global float *c, shape_t shape) {
  __local float left[TILE][TILE], right[TILE][TILE];
  const uint x = get_local_id(0), y = get_local_id(1);
  float sum = 0;
  for (uint k = 0; k < shape.k; k += TILE) {
    left[y][x] = a[INDEX(get_global_id(1), k + x, shape.k)];
    right[y][x] = b[INDEX(k + y, get_global_id(0), shape.n)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < TILE; ++i) sum += left[y][i] * right[i][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[INDEX(get_global_id(1), get_global_id(0), shape.n)] = sum;
}
