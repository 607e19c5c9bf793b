// A picture of another size. The sampler interpolates: coordinates are from 0 to 1, and the centre of texel (x, y) of the result is at
// ((x + 0.5) / width, (y + 0.5) / height).
#include <metal_stdlib>
using namespace metal;

kernel void resize(texture2d<float, access::sample> source [[texture(0)]], sampler source_sampler [[sampler(0)]],
                   texture2d<float, access::write> result [[texture(1)]], constant int &width [[buffer(0)]],
                   constant int &height [[buffer(1)]], uint2 here [[thread_position_in_grid]])
{
    if (int(here.x) < width && int(here.y) < height)
        result.write(source.sample(source_sampler, float2((here.x + 0.5f) / width, (here.y + 0.5f) / height), level(0)), here);
}
