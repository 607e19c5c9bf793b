// Softmax over the rows of a matrix. One group works on one row: each of its threads strides along the row, then the group reduces
// the results of its threads in `scratch`.
#define THREADS 64

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1)))
void softmax(__global const float *x, __global float *y, const int columns)
{
    __local float scratch[THREADS];
    const int thread = get_local_id(0);
    const size_t row = (size_t)get_group_id(0) * columns;

    // The row's maximum: exp(x - max) cannot overflow.
    float highest = -INFINITY;
    for (int i = thread; i < columns; i += THREADS)
        highest = fmax(highest, x[row + i]);
    scratch[thread] = highest;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] = fmax(scratch[thread], scratch[thread + stride]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    highest = scratch[0];
    barrier(CLK_LOCAL_MEM_FENCE); // all threads read it before one writes scratch again

    float sum = 0.0f;
    for (int i = thread; i < columns; i += THREADS) {
        const float e = exp(x[row + i] - highest);
        y[row + i] = e;
        sum += e;
    }
    scratch[thread] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] += scratch[thread + stride];
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    const float scale = 1.0f / scratch[0];
    for (int i = thread; i < columns; i += THREADS)
        y[row + i] *= scale;
}
