// Softmax over the rows of a matrix. One block works on one row: each of its threads strides along the row, then the block reduces
// the results of its threads in `scratch`.
#include <hip/hip_runtime.h>

#define THREADS 64

extern "C" __global__ void softmax(const float *x, float *y, const int columns)
{
    __shared__ float scratch[THREADS];
    const int thread = threadIdx.x;
    x += (size_t)blockIdx.x * columns;
    y += (size_t)blockIdx.x * columns;

    // The row's maximum: exp(x - max) cannot overflow.
    float highest = -INFINITY;
    for (int i = thread; i < columns; i += THREADS)
        highest = fmaxf(highest, x[i]);
    scratch[thread] = highest;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] = fmaxf(scratch[thread], scratch[thread + stride]);
        __syncthreads();
    }
    highest = scratch[0];
    __syncthreads(); // all threads read it before one writes scratch again

    float sum = 0;
    for (int i = thread; i < columns; i += THREADS) {
        const float e = expf(x[i] - highest);
        y[i] = e;
        sum += e;
    }
    scratch[thread] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] += scratch[thread + stride];
        __syncthreads();
    }

    const float scale = 1 / scratch[0];
    for (int i = thread; i < columns; i += THREADS)
        y[i] *= scale;
}
