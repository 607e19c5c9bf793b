// Sum of n floats. Each block adds the part that its threads stride over, and writes one partial sum. A second launch with one block
// adds those. The lanes of a wave exchange their sums in registers, the waves of a block theirs in shared memory. A wave has 32 or 64
// lanes, depending on the processor.
#include <hip/hip_runtime.h>

#define THREADS 128

static __device__ float sum_of_wave(float value)
{
    for (int distance = warpSize / 2; distance > 0; distance /= 2)
        value += __shfl_down(value, distance);
    return value;
}

extern "C" __global__ void sum(const float *x, float *partial, const int n)
{
    __shared__ float of_waves[THREADS / 32];
    const int thread = threadIdx.x, waves = THREADS / warpSize;
    float own = 0;
    for (int i = blockIdx.x * THREADS + thread; i < n; i += gridDim.x * THREADS)
        own += x[i];
    own = sum_of_wave(own);
    if (thread % warpSize == 0)
        of_waves[thread / warpSize] = own;
    __syncthreads();
    if (thread < warpSize) {
        own = sum_of_wave(thread < waves ? of_waves[thread] : 0);
        if (thread == 0)
            partial[blockIdx.x] = own;
    }
}
