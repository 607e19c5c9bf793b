// The same in HIP: waves of 32 lanes, votes without a mask, shared memory, float16 and vectors with operators.
#include <hip/hip_cooperative_groups.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

namespace groups = cooperative_groups;

extern "C" __global__ void __launch_bounds__(128) warps(const float *x, float *sums, unsigned *votes, float *lanes, int n)
{
    HIP_DYNAMIC_SHARED(float, copy)
    int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x;
    copy[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    float value = copy[blockDim.x - 1 - threadIdx.x];
    unsigned vote = (unsigned)__ballot(value > 0.5f);
    auto tile = groups::tiled_partition<32>(groups::this_thread_block());
    float lane = tile.shfl_xor((float)(threadIdx.x % warpSize), 1);
    for (int distance = 16; distance; distance /= 2)
        value += __shfl_down(value, distance);
    value = __shfl(value, 0);
    if (i < n) {
        sums[i] = value;
        votes[i] = vote;
        lanes[i] = lane;
    }
}

__global__ void widen(const half *x, float *y, int n)
{
    int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x;
    if (i < n)
        y[i] = __half2float(x[i]) * 2;
}

template <class T> __global__ void scale(T *x, T factor, int n)
{
    int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x;
    if (i < n)
        x[i] *= factor;
}
