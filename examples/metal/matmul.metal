// C = A · B, with A of m × k, B of k × n and C of m × n floats, row by row in memory.
// A threadgroup of TILE × TILE threads computes one tile of C. It walks along k and keeps the two tiles that it needs in
// threadgroup memory, so a threadgroup reads each float from global memory once.
#include <metal_stdlib>
using namespace metal;

#ifndef TILE
#define TILE 16
#endif

kernel void matmul_tiled(device const float *a [[buffer(0)]], device const float *b [[buffer(1)]], device float *c [[buffer(2)]],
                         constant int &m [[buffer(3)]], constant int &n [[buffer(4)]], constant int &k [[buffer(5)]],
                         uint2 local [[thread_position_in_threadgroup]], uint2 place [[thread_position_in_grid]])
{
    threadgroup float tile_a[TILE][TILE];
    threadgroup float tile_b[TILE][TILE];
    const int tx = local.x, ty = local.y;
    const int column = place.x, row = place.y;

    float sum = 0.0f;
    for (int start = 0; start < k; start += TILE) {
        // Beyond the edges a tile is filled with zeros: m, n and k need not be multiples of TILE.
        tile_a[ty][tx] = row < m && start + tx < k ? a[row * k + start + tx] : 0.0f;
        tile_b[ty][tx] = start + ty < k && column < n ? b[(start + ty) * n + column] : 0.0f;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (int i = 0; i < TILE; i++)
            sum += tile_a[ty][i] * tile_b[i][tx];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}
