RWStructuredBuffer<float4> y : register(u0);
[numthreads(32, 1, 1)] void main(uint3 id : SV_DispatchThreadID) { y[id.x] *= 2; }
