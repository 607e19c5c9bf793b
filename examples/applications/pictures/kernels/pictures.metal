// Five kernels of an image pipeline. A picture is an image of rgba8unorm; the sampler reads the texel at the edge beyond it.
// Coordinates are from 0 to 1, and the centre of texel (x, y) is at ((x + 0.5) / width, (y + 0.5) / height).
#include <metal_stdlib>
using namespace metal;

static float4 texel(texture2d<float, access::sample> source, sampler source_sampler, int x, int y, int width, int height)
{
    return source.sample(source_sampler, float2((x + 0.5f) / width, (y + 0.5f) / height), level(0));
}

static float luminance(float4 color)
{
    return dot(color.rgb, float3(0.2126f, 0.7152f, 0.0722f));
}

// Resize a picture to width × height. The sampler interpolates.
kernel void resize(texture2d<float, access::sample> source [[texture(0)]], sampler source_sampler [[sampler(0)]],
                   texture2d<float, access::write> result [[texture(1)]], constant int &width [[buffer(0)]],
                   constant int &height [[buffer(1)]], uint2 at [[thread_position_in_grid]])
{
    const int x = at.x, y = at.y;
    if (x < width && y < height)
        result.write(texel(source, source_sampler, x, y, width, height), at);
}

// Smooth a picture, and keep its edges: the mean of the neighbours with weights for their distance and for the difference of their colours.
kernel void bilateral(texture2d<float, access::sample> source [[texture(0)]], sampler source_sampler [[sampler(0)]],
                      texture2d<float, access::write> result [[texture(1)]], constant int &width [[buffer(0)]],
                      constant int &height [[buffer(1)]], constant int &radius [[buffer(2)]], constant float &space [[buffer(3)]],
                      constant float &range [[buffer(4)]], uint2 at [[thread_position_in_grid]])
{
    const int x = at.x, y = at.y;
    if (x >= width || y >= height)
        return;
    const float4 center = texel(source, source_sampler, x, y, width, height);
    float4 sum = 0;
    float weights = 0;
    for (int dy = -radius; dy <= radius; dy++)
        for (int dx = -radius; dx <= radius; dx++) {
            const float4 color = texel(source, source_sampler, x + dx, y + dy, width, height);
            const float3 difference = color.rgb - center.rgb;
            const float weight = exp(-(dx * dx + dy * dy) / (2 * space * space) - dot(difference, difference) / (2 * range * range));
            sum += weight * color;
            weights += weight;
        }
    result.write(sum / weights, at);
}

// Count the texels of each of 256 levels of luminance. A block counts in its own memory first.
kernel void histogram(texture2d<float, access::sample> source [[texture(0)]], sampler source_sampler [[sampler(0)]],
                      device atomic_uint *counts [[buffer(0)]], constant int &width [[buffer(1)]], constant int &height [[buffer(2)]],
                      uint2 at [[thread_position_in_grid]], uint index [[thread_index_in_threadgroup]])
{
    threadgroup atomic_uint here[256];
    const int x = at.x, y = at.y;
    atomic_store_explicit(&here[index], 0, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (x < width && y < height) {
        const int level = int(luminance(texel(source, source_sampler, x, y, width, height)) * 255 + 0.5f);
        atomic_fetch_add_explicit(&here[level], 1, memory_order_relaxed);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    atomic_fetch_add_explicit(&counts[index], atomic_load_explicit(&here[index], memory_order_relaxed), memory_order_relaxed);
}

// Return the part of the texels that are as dark as each level, or darker: a running sum, in one block.
kernel void mapping(device const uint *counts [[buffer(0)]], device float *table [[buffer(1)]], constant int &texels [[buffer(2)]],
                    uint level [[thread_index_in_threadgroup]])
{
    threadgroup uint sums[256];
    sums[level] = counts[level];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint distance = 1; distance < 256; distance *= 2) {
        const uint other = level >= distance ? sums[level - distance] : 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        sums[level] += other;
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    table[level] = float(sums[level]) / texels;
}

// Give each texel the luminance that the table has for its own.
kernel void equalize(texture2d<float, access::sample> source [[texture(0)]], sampler source_sampler [[sampler(0)]],
                     texture2d<float, access::write> result [[texture(1)]], device const float *table [[buffer(0)]],
                     constant int &width [[buffer(1)]], constant int &height [[buffer(2)]], uint2 at [[thread_position_in_grid]])
{
    const int x = at.x, y = at.y;
    if (x >= width || y >= height)
        return;
    const float4 color = texel(source, source_sampler, x, y, width, height);
    const float light = luminance(color);
    const float factor = table[int(light * 255 + 0.5f)] / max(light, 1.0f / 255);
    result.write(float4(min(color.rgb * factor, 1.0f), color.a), at);
}
