// A picture of another size. The sampler interpolates: coordinates are from 0 to 1, and the centre of texel (x, y) of the result is at
// ((x + 0.5) / width, (y + 0.5) / height).

__kernel void resize(read_only image2d_t source, sampler_t source_sampler, write_only image2d_t result, const int width, const int height)
{
    const int x = get_global_id(0);
    const int y = get_global_id(1);
    if (x < width && y < height)
        write_imagef(result, (int2)(x, y), read_imagef(source, source_sampler, (float2)((x + 0.5f) / width, (y + 0.5f) / height)));
}
