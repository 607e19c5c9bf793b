// A tiled matrix product. TILE is a define, and the tile's type is a header's.
#include "tile.h"

#ifndef TILE
#define TILE 16
#endif

extern "C" __global__ void matmul(const float *a, const float *b, float *c, unsigned int m, unsigned int n, unsigned int k) {
  __shared__ Tile<float, TILE> left, right;
  unsigned int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (unsigned int start = 0; start < k; start += TILE) {
    left.at[threadIdx.y][threadIdx.x] = row < m && start + threadIdx.x < k ? a[row * k + start + threadIdx.x] : 0.0f;
    right.at[threadIdx.y][threadIdx.x] = column < n && start + threadIdx.y < k ? b[(start + threadIdx.y) * n + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += left.at[threadIdx.y][i] * right.at[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
