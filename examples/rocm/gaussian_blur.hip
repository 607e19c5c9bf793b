// A Gaussian blur of a picture with 8 bits a channel, one uint a pixel, red in the lowest byte. A Gaussian is separable: two passes,
// along the rows and along the columns, read 2 · (2 · radius + 1) pixels instead of (2 · radius + 1)². The picture between them is in
// floats. `weights` has the 2 · radius + 1 weights, whose sum is one. The pixel at an edge continues beyond it.
#include <hip/hip_runtime.h>

static __device__ int inside(int i, int length)
{
    return min(max(i, 0), length - 1);
}

static __device__ unsigned level(float sum)
{
    return (unsigned)rintf(fminf(fmaxf(sum, 0), 255));
}

extern "C" __global__ void blur_rows(
    const unsigned *picture, float4 *between, const float *weights, const int radius, const int width, const int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float4 sum = {0, 0, 0, 0};
    for (int i = -radius; i <= radius; i++) {
        const unsigned pixel = picture[y * width + inside(x + i, width)];
        const float4 channels = {(float)(pixel & 255), (float)(pixel >> 8 & 255), (float)(pixel >> 16 & 255), (float)(pixel >> 24)};
        sum += weights[i + radius] * channels;
    }
    between[y * width + x] = sum;
}

extern "C" __global__ void blur_columns(
    const float4 *between, unsigned *blurred, const float *weights, const int radius, const int width, const int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float4 sum = {0, 0, 0, 0};
    for (int i = -radius; i <= radius; i++)
        sum += weights[i + radius] * between[inside(y + i, height) * width + x];
    blurred[y * width + x] = level(sum.x) | level(sum.y) << 8 | level(sum.z) << 16 | 255u << 24;
}
