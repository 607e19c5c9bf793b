// C = A · B, with A of m × k, B of k × n and C of m × n floats, row by row in memory.
// A group of TILE × TILE threads computes TILE · ROWS rows and TILE columns of C, and a thread ROWS
// of its elements.
kernel void product(global const float *a, global const float *b, global float *c, int m, int n,
                    int k)
{
    local float tile_a[TILE * ROWS][TILE];
    local float tile_b[TILE][TILE];
    const int tx = get_local_id(0);
    const int ty = get_local_id(1);
    const int column = get_group_id(0) * TILE + tx;
    const int first = get_group_id(1) * TILE * ROWS + ty;

    float sums[ROWS];
    for (int r = 0; r < ROWS; r++)
        sums[r] = 0;
    for (int start = 0; start < k; start += TILE) {
        // Beyond the edges a tile is filled with zeros.
        for (int r = 0; r < ROWS; r++) {
            const int row = first + r * TILE;
            const bool inside = row < m && start + tx < k;
            tile_a[r * TILE + ty][tx] = inside ? a[row * k + start + tx] : 0;
        }
        const bool inside = start + ty < k && column < n;
        tile_b[ty][tx] = inside ? b[(start + ty) * n + column] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < TILE; i++)
            for (int r = 0; r < ROWS; r++)
                sums[r] += tile_a[r * TILE + ty][i] * tile_b[i][tx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int r = 0; r < ROWS; r++) {
        const int row = first + r * TILE;
        if (row < m && column < n)
            c[row * n + column] = sums[r];
    }
}
