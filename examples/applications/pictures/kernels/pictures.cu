// Five kernels of an image pipeline. A texture object is an image with its sampler, and a call takes both: `source` and `source_sampler`.
// Coordinates are from 0 to 1, and the centre of texel (x, y) is at ((x + 0.5) / width, (y + 0.5) / height).

static __device__ float4 texel(cudaTextureObject_t source, int x, int y, int width, int height)
{
    return tex2D<float4>(source, (x + 0.5f) / width, (y + 0.5f) / height);
}

static __device__ float luminance(float4 color)
{
    return 0.2126f * color.x + 0.7152f * color.y + 0.0722f * color.z;
}

// A surface has no format: a write takes the bytes of a texel, and its x counts bytes.
static __device__ void store(cudaSurfaceObject_t result, int x, int y, float4 color)
{
    const uchar4 bytes = make_uchar4(rintf(__saturatef(color.x) * 255), rintf(__saturatef(color.y) * 255), rintf(__saturatef(color.z) * 255),
                                     rintf(__saturatef(color.w) * 255));
    surf2Dwrite(bytes, result, 4 * x, y);
}

// Resize a picture to width × height. The sampler interpolates.
extern "C" __global__ void resize(cudaTextureObject_t source, cudaSurfaceObject_t result, int width, int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height)
        store(result, x, y, texel(source, x, y, width, height));
}

// Smooth a picture, and keep its edges: the mean of the neighbours with weights for their distance and for the difference of their colours.
extern "C" __global__ void bilateral(cudaTextureObject_t source, cudaSurfaceObject_t result, int width, int height, int radius, float space,
                                     float range)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const float4 center = texel(source, x, y, width, height);
    float4 sum = make_float4(0, 0, 0, 0);
    float weights = 0;
    for (int dy = -radius; dy <= radius; dy++)
        for (int dx = -radius; dx <= radius; dx++) {
            const float4 color = texel(source, x + dx, y + dy, width, height);
            const float3 d = make_float3(color.x - center.x, color.y - center.y, color.z - center.z);
            const float difference = d.x * d.x + d.y * d.y + d.z * d.z;
            const float weight = expf(-(dx * dx + dy * dy) / (2 * space * space) - difference / (2 * range * range));
            sum = make_float4(sum.x + weight * color.x, sum.y + weight * color.y, sum.z + weight * color.z, sum.w + weight * color.w);
            weights += weight;
        }
    store(result, x, y, make_float4(sum.x / weights, sum.y / weights, sum.z / weights, sum.w / weights));
}

// Count the texels of each of 256 levels of luminance. A block counts in its own memory first.
extern "C" __global__ void histogram(cudaTextureObject_t source, unsigned *counts, int width, int height)
{
    __shared__ unsigned here[256];
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, thread = threadIdx.y * 16 + threadIdx.x;
    here[thread] = 0;
    __syncthreads();
    if (x < width && y < height)
        atomicAdd(&here[int(luminance(texel(source, x, y, width, height)) * 255 + 0.5f)], 1);
    __syncthreads();
    atomicAdd(&counts[thread], here[thread]);
}

// Return the part of the texels that are as dark as each level, or darker: a running sum, in one block.
extern "C" __global__ void mapping(const unsigned *counts, float *table, int texels)
{
    __shared__ unsigned sums[256];
    const int level = threadIdx.x;
    sums[level] = counts[level];
    __syncthreads();
    for (int distance = 1; distance < 256; distance *= 2) {
        const unsigned other = level >= distance ? sums[level - distance] : 0;
        __syncthreads();
        sums[level] += other;
        __syncthreads();
    }
    table[level] = float(sums[level]) / texels;
}

// Give each texel the luminance that the table has for its own.
extern "C" __global__ void equalize(cudaTextureObject_t source, cudaSurfaceObject_t result, const float *table, int width, int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const float4 color = texel(source, x, y, width, height);
    const float light = luminance(color);
    const float factor = table[int(light * 255 + 0.5f)] / fmaxf(light, 1.0f / 255);
    store(result, x, y, make_float4(color.x * factor, color.y * factor, color.z * factor, color.w));
}
