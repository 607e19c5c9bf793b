// A Gaussian blur of a picture with 8 bits a channel, one uint a pixel, red in the lowest byte. A Gaussian is separable: two passes,
// along the rows and along the columns, read 2 · (2 · radius + 1) pixels instead of (2 · radius + 1)². The picture between them is in
// floats. `weights` has the 2 · radius + 1 weights, whose sum is one. The pixel at an edge continues beyond it.
#include <metal_stdlib>
using namespace metal;

kernel void blur_rows(device const uint *picture [[buffer(0)]], device float4 *between [[buffer(1)]],
                      constant float *weights [[buffer(2)]], constant int &radius [[buffer(3)]], constant int &width [[buffer(4)]],
                      constant int &height [[buffer(5)]], uint2 place [[thread_position_in_grid]])
{
    const int x = place.x, y = place.y;
    if (x >= width || y >= height)
        return;
    float4 sum = 0.0f;
    for (int i = -radius; i <= radius; i++) {
        const uint pixel = picture[y * width + clamp(x + i, 0, width - 1)];
        sum += weights[i + radius] * float4(pixel & 255, pixel >> 8 & 255, pixel >> 16 & 255, pixel >> 24);
    }
    between[y * width + x] = sum;
}

kernel void blur_columns(device const float4 *between [[buffer(0)]], device uint *blurred [[buffer(1)]],
                         constant float *weights [[buffer(2)]], constant int &radius [[buffer(3)]], constant int &width [[buffer(4)]],
                         constant int &height [[buffer(5)]], uint2 place [[thread_position_in_grid]])
{
    const int x = place.x, y = place.y;
    if (x >= width || y >= height)
        return;
    float4 sum = 0.0f;
    for (int i = -radius; i <= radius; i++)
        sum += weights[i + radius] * between[clamp(y + i, 0, height - 1) * width + x];
    const uint4 level = uint4(rint(clamp(sum, 0.0f, 255.0f)));
    blurred[y * width + x] = level.x | level.y << 8 | level.z << 16 | 0xff000000;
}
