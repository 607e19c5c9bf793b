// A Gaussian blur of a picture with 8 bits a channel, one uint a pixel, red in the lowest byte. A Gaussian is separable: two passes,
// along the rows and along the columns, read 2 · (2 · radius + 1) pixels instead of (2 · radius + 1)². The picture between them is in
// floats. `weights` has the 2 · radius + 1 weights, whose sum is one. The pixel at an edge continues beyond it.

static __device__ int inside(int i, int length)
{
    return min(max(i, 0), length - 1);
}

static __device__ unsigned level(float sum)
{
    return __float2uint_rn(fminf(fmaxf(sum, 0), 255));
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
        const float weight = weights[i + radius];
        sum.x += weight * (pixel & 255);
        sum.y += weight * (pixel >> 8 & 255);
        sum.z += weight * (pixel >> 16 & 255);
        sum.w += weight * (pixel >> 24);
    }
    between[y * width + x] = sum;
}

extern "C" __global__ void blur_columns(
    const float4 *between, unsigned *blurred, const float *weights, const int radius, const int width, const int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float red = 0, green = 0, blue = 0;
    for (int i = -radius; i <= radius; i++) {
        const float4 pixel = between[inside(y + i, height) * width + x];
        const float weight = weights[i + radius];
        red += weight * pixel.x;
        green += weight * pixel.y;
        blue += weight * pixel.z;
    }
    blurred[y * width + x] = level(red) | level(green) << 8 | level(blue) << 16 | 255u << 24;
}
