// Sum of n floats. Each block adds the part that its threads stride over, and writes one partial sum. A second launch with one block
// adds those. The threads of a warp exchange their sums in registers, the warps of a block theirs in shared memory.
#define THREADS 128
#define WARPS (THREADS / 32)

static __device__ float sum_of_warp(float value)
{
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_down_sync(0xffffffff, value, distance);
    return value;
}

extern "C" __global__ void sum(const float *x, float *partial, const int n)
{
    __shared__ float of_warps[WARPS];
    const int thread = threadIdx.x;
    float own = 0;
    for (int i = blockIdx.x * THREADS + thread; i < n; i += gridDim.x * THREADS)
        own += x[i];
    own = sum_of_warp(own);
    if (thread % 32 == 0)
        of_warps[thread / 32] = own;
    __syncthreads();
    if (thread < 32) {
        own = sum_of_warp(thread < WARPS ? of_warps[thread] : 0);
        if (thread == 0)
            partial[blockIdx.x] = own;
    }
}
