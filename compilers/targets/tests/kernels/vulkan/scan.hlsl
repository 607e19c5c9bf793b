// A prefix sum in two passes, and a byte-address buffer: several entries of one file, each with what it uses.
struct Range { uint start; uint count; float2 weight; };
StructuredBuffer<float> values : register(t0);
RWStructuredBuffer<float> result : register(u1);
RWStructuredBuffer<float> sums : register(u2);
StructuredBuffer<Range> ranges : register(t3);
RWByteAddressBuffer raw : register(u4);
cbuffer Params : register(b5) { uint n; float3 scale; bool inclusive; };
[[vk::push_constant]] cbuffer Push { int shift; };
#ifdef NEVER
[numthreads(1, 1, 1)] void hidden() {}
#endif
#define GROUP 64
// [numthreads(1, 1, 1)] void commented() {}
groupshared float shared_[GROUP];

[numthreads(GROUP, 1, 1)]
void scan(uint3 id : SV_DispatchThreadID, uint3 local : SV_GroupThreadID, uint3 group : SV_GroupID)
{
    shared_[local.x] = id.x < n ? values[id.x] * scale.x : 0;
    GroupMemoryBarrierWithGroupSync();
    result[id.x] = shared_[local.x] + (inclusive ? 1 : 0);
    if (local.x == 0) sums[group.x] = shared_[0];
}

[numthreads(8, GROUP / 8, 1)]
void add(uint3 id : SV_DispatchThreadID)
{
    result[id.x] += sums[ranges[id.y].start] * ranges[id.y].weight.x;
    raw.Store(0, shift);
}
