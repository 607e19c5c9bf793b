// The sum of each row of a matrix. A group of BLOCK threads adds one row, and a thread ITEMS
// neighbours at a time.
kernel void row_sums(global const float *x, global float *sums, int rows, int columns)
{
    local float parts[BLOCK];
    const int thread = get_local_id(0);
    const int row = get_group_id(0);

    float own = 0;
    for (int start = thread * ITEMS; start < columns; start += BLOCK * ITEMS)
        for (int i = start; i < start + ITEMS && i < columns; i++)
            own += x[row * columns + i];
    parts[thread] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            parts[thread] += parts[thread + stride];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (thread == 0)
        sums[row] = parts[0];
}
