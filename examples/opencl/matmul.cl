// C = A · B, with A of m × k, B of k × n and C of m × n floats, row by row in memory.
// A group of TILE × TILE threads computes one tile of C. It walks along k and keeps the two tiles that it needs in
// local memory, so a group reads each float from global memory once.
#ifndef TILE
#define TILE 16
#endif

__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void matmul_tiled(__global const float *a, __global const float *b, __global float *c, const int m, const int n, const int k)
{
    __local float tile_a[TILE][TILE];
    __local float tile_b[TILE][TILE];
    const int tx = get_local_id(0);
    const int ty = get_local_id(1);
    const int column = get_global_id(0);
    const int row = get_global_id(1);

    float sum = 0.0f;
    for (int start = 0; start < k; start += TILE) {
        // Beyond the edges a tile is filled with zeros: m, n and k need not be multiples of TILE.
        tile_a[ty][tx] = row < m && start + tx < k ? a[row * k + start + tx] : 0.0f;
        tile_b[ty][tx] = start + ty < k && column < n ? b[(start + ty) * n + column] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < TILE; i++)
            sum += tile_a[ty][i] * tile_b[i][tx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}
