// Softmax over the rows of a matrix. One group works on one row: its threads stride along the row, then add up
// what they found in `scratch`, which holds one float for each thread (pass devmod.Local(4 * threads)).
// The number of threads in a group is a power of two.
__kernel void softmax(__global const float *x, __global float *y, const int columns, __local float *scratch)
{
    const int thread = get_local_id(0);
    const int threads = get_local_size(0);
    const size_t row = (size_t)get_group_id(0) * columns;

    // The row's maximum: exp(x - max) cannot overflow.
    float highest = -INFINITY;
    for (int i = thread; i < columns; i += threads)
        highest = fmax(highest, x[row + i]);
    scratch[thread] = highest;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_of = threads / 2; half_of > 0; half_of /= 2) {
        if (thread < half_of)
            scratch[thread] = fmax(scratch[thread], scratch[thread + half_of]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    highest = scratch[0];
    barrier(CLK_LOCAL_MEM_FENCE); // everyone has read it before scratch is written again

    float sum = 0.0f;
    for (int i = thread; i < columns; i += threads) {
        const float e = exp(x[row + i] - highest);
        y[row + i] = e;
        sum += e;
    }
    scratch[thread] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_of = threads / 2; half_of > 0; half_of /= 2) {
        if (thread < half_of)
            scratch[thread] += scratch[thread + half_of];
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    const float scale = 1.0f / scratch[0];
    for (int i = thread; i < columns; i += threads)
        y[row + i] *= scale;
}
