// The sum of each row of a matrix. A block of BLOCK threads adds one row, and a thread ITEMS
// neighbours at a time.
extern "C" __global__ void row_sums(const float *x, float *sums, int rows, int columns)
{
    __shared__ float parts[BLOCK];
    const int thread = threadIdx.x;
    const int row = blockIdx.x;

    float own = 0;
    for (int start = thread * ITEMS; start < columns; start += BLOCK * ITEMS)
        for (int i = start; i < start + ITEMS && i < columns; i++)
            own += x[row * columns + i];
    parts[thread] = own;
    __syncthreads();
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            parts[thread] += parts[thread + stride];
        __syncthreads();
    }
    if (thread == 0)
        sums[row] = parts[0];
}
