// C = A · B, with A of m × k, B of k × n and C of m × n floats, row by row in memory.
// A block of TILE × TILE threads computes one tile of C. It walks along k and keeps the two tiles that it needs in shared memory, so a
// block reads each float from global memory once.
#include <hip/hip_runtime.h>

#ifndef TILE
#define TILE 16
#endif

extern "C" __global__ void matmul_tiled(
    const float *a, const float *b, float *c, const int m, const int n, const int k)
{
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int column = blockIdx.x * TILE + tx, row = blockIdx.y * TILE + ty;

    float sum = 0;
    for (int start = 0; start < k; start += TILE) {
        // Beyond the edges a tile is filled with zeros: m, n and k need not be multiples of TILE.
        tile_a[ty][tx] = row < m && start + tx < k ? a[row * k + start + tx] : 0;
        tile_b[ty][tx] = start + ty < k && column < n ? b[(start + ty) * n + column] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += tile_a[ty][i] * tile_b[i][tx];
        __syncthreads();
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}
