// C = A · B, with A of m × k, B of k × n and C of m × n floats, row by row in memory.
// A block of TILE × TILE threads computes TILE · ROWS rows and TILE columns of C, and a thread ROWS
// of its elements.
extern "C" __global__ void product(const float *a, const float *b, float *c, int m, int n, int k)
{
    __shared__ float tile_a[TILE * ROWS][TILE];
    __shared__ float tile_b[TILE][TILE];
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int column = blockIdx.x * TILE + tx;
    const int first = blockIdx.y * TILE * ROWS + ty;

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
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            for (int r = 0; r < ROWS; r++)
                sums[r] += tile_a[r * TILE + ty][i] * tile_b[i][tx];
        __syncthreads();
    }
    for (int r = 0; r < ROWS; r++) {
        const int row = first + r * TILE;
        if (row < m && column < n)
            c[row * n + column] = sums[r];
    }
}
