// A Gaussian blur of a picture with 8 bits a channel, one uint a pixel, red in the lowest byte. A Gaussian is separable: two passes,
// along the rows and along the columns, read 2 · (2 · radius + 1) pixels instead of (2 · radius + 1)². The picture between them is in
// floats. `weights` has the 2 · radius + 1 weights, whose sum is one. The pixel at an edge continues beyond it.

__kernel void blur_rows(__global const uint *picture, __global float4 *between, __constant float *weights,
                        const int radius, const int width, const int height)
{
    const int x = get_global_id(0);
    const int y = get_global_id(1);
    if (x >= width || y >= height)
        return;
    float4 sum = 0.0f;
    for (int i = -radius; i <= radius; i++) {
        const uint pixel = picture[y * width + clamp(x + i, 0, width - 1)];
        sum += weights[i + radius] * convert_float4((uint4)(pixel, pixel >> 8, pixel >> 16, pixel >> 24) & 255u);
    }
    between[y * width + x] = sum;
}

__kernel void blur_columns(__global const float4 *between, __global uint *blurred, __constant float *weights,
                           const int radius, const int width, const int height)
{
    const int x = get_global_id(0);
    const int y = get_global_id(1);
    if (x >= width || y >= height)
        return;
    float4 sum = 0.0f;
    for (int i = -radius; i <= radius; i++)
        sum += weights[i + radius] * between[clamp(y + i, 0, height - 1) * width + x];
    const uint4 level = convert_uint4_rte(clamp(sum, 0.0f, 255.0f));
    blurred[y * width + x] = level.x | level.y << 8 | level.z << 16 | 255u << 24;
}
