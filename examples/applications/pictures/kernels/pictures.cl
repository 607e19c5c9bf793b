// Five kernels of an image pipeline. A picture is an image of rgba8unorm; the sampler reads the texel at the edge beyond it.
// Coordinates are from 0 to 1, and the centre of texel (x, y) is at ((x + 0.5) / width, (y + 0.5) / height).

static float4 texel(read_only image2d_t source, sampler_t source_sampler, int x, int y, int width, int height)
{
    return read_imagef(source, source_sampler, (float2)((x + 0.5f) / width, (y + 0.5f) / height));
}

static float luminance(float4 color)
{
    return 0.2126f * color.x + 0.7152f * color.y + 0.0722f * color.z;
}

// Resize a picture to width × height. The sampler interpolates.
__kernel void resize(read_only image2d_t source, sampler_t source_sampler, write_only image2d_t result, int width, int height)
{
    const int x = get_global_id(0), y = get_global_id(1);
    if (x < width && y < height)
        write_imagef(result, (int2)(x, y), texel(source, source_sampler, x, y, width, height));
}

// Smooth a picture, and keep its edges: the mean of the neighbours with weights for their distance and for the difference of their colours.
__kernel void bilateral(read_only image2d_t source, sampler_t source_sampler, write_only image2d_t result, int width, int height,
                        int radius, float space, float range)
{
    const int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height)
        return;
    const float4 center = texel(source, source_sampler, x, y, width, height);
    float4 sum = 0.0f;
    float weights = 0.0f;
    for (int dy = -radius; dy <= radius; dy++)
        for (int dx = -radius; dx <= radius; dx++) {
            const float4 color = texel(source, source_sampler, x + dx, y + dy, width, height);
            const float3 difference = color.xyz - center.xyz;
            const float weight = exp(-(dx * dx + dy * dy) / (2 * space * space) - dot(difference, difference) / (2 * range * range));
            sum += weight * color;
            weights += weight;
        }
    write_imagef(result, (int2)(x, y), sum / weights);
}

// Count the texels of each of 256 levels of luminance. A block counts in its own memory first.
__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void histogram(read_only image2d_t source, sampler_t source_sampler, __global uint *counts, int width, int height)
{
    __local uint here[256];
    const int x = get_global_id(0), y = get_global_id(1), thread = get_local_id(1) * 16 + get_local_id(0);
    here[thread] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (x < width && y < height)
        atomic_inc(&here[(int)(luminance(texel(source, source_sampler, x, y, width, height)) * 255.0f + 0.5f)]);
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&counts[thread], here[thread]);
}

// Return the part of the texels that are as dark as each level, or darker: a running sum, in one block.
__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void mapping(__global const uint *counts, __global float *table, int texels)
{
    __local uint sums[256];
    const int level = get_local_id(0);
    sums[level] = counts[level];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int distance = 1; distance < 256; distance *= 2) {
        const uint other = level >= distance ? sums[level - distance] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        sums[level] += other;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    table[level] = (float)sums[level] / texels;
}

// Give each texel the luminance that the table has for its own.
__kernel void equalize(read_only image2d_t source, sampler_t source_sampler, write_only image2d_t result, __global const float *table,
                       int width, int height)
{
    const int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height)
        return;
    const float4 color = texel(source, source_sampler, x, y, width, height);
    const float light = luminance(color);
    const float factor = table[(int)(light * 255.0f + 0.5f)] / max(light, 1.0f / 255);
    write_imagef(result, (int2)(x, y), (float4)(min(color.xyz * factor, 1.0f), color.w));
}
