#include <metal_stdlib>
using namespace metal;

kernel void sample_1d(texture1d<float> source [[texture(0)]], sampler source_sampler [[sampler(0)]], device const float *places [[buffer(0)]],
                      device float4 *result [[buffer(1)]], uint i [[thread_position_in_grid]])
{
    result[i] = source.sample(source_sampler, places[i]);
}

kernel void sample_2d(texture2d<float> source [[texture(0)]], sampler source_sampler [[sampler(0)]], device const float *places [[buffer(0)]],
                      device float4 *result [[buffer(1)]], uint i [[thread_position_in_grid]])
{
    result[i] = source.sample(source_sampler, float2(places[2 * i], places[2 * i + 1]));
}

kernel void sample_3d(texture3d<float> source [[texture(0)]], sampler source_sampler [[sampler(0)]], device const float *places [[buffer(0)]],
                      device float4 *result [[buffer(1)]], uint i [[thread_position_in_grid]])
{
    result[i] = source.sample(source_sampler, float3(places[3 * i], places[3 * i + 1], places[3 * i + 2]));
}

kernel void sample_2d_array(texture2d_array<float> source [[texture(0)]], sampler source_sampler [[sampler(0)]],
                            device const float *places [[buffer(0)]], device float4 *result [[buffer(1)]], uint i [[thread_position_in_grid]])
{
    result[i] = source.sample(source_sampler, float2(places[3 * i], places[3 * i + 1]), uint(places[3 * i + 2]));
}

kernel void write_floats(texture2d<float, access::write> destination [[texture(0)]], uint2 at [[thread_position_in_grid]])
{
    destination.write(float4(at.x, at.y, at.x + at.y, 255) / 255.0f, at);
}
