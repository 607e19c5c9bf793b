// Several kernels that share a helper; attributes behind, hints that bind nobody, options of the language.
float3 pull(float4 from, float4 to, float softening) {
  const float3 way = to.xyz - from.xyz;
  const float distance = dot(way, way) + softening;
  return way * to.w * rsqrt(distance * distance * distance);
}

__attribute__((work_group_size_hint(64, 1, 1), vec_type_hint(float4)))
__kernel void forces(__global const float4 *restrict bodies, __global float4 *restrict acceleration, __local float4 *tile, float softening, int count) {
  float3 sum = (float3)(0);
  for (int i = 0; i < count; ++i) sum += pull(bodies[get_global_id(0)], bodies[i], softening);
  acceleration[get_global_id(0)] = (float4)(sum, 0);
}

__kernel void move(__global float4 *restrict bodies, __global float4 *restrict velocity, __global const float4 *acceleration, float dt)
    __attribute__((reqd_work_group_size(2 * 32, 1, 1)));
__kernel void move(__global float4 *restrict bodies, __global float4 *restrict velocity, __global const float4 *acceleration, float dt) {
  velocity[get_global_id(0)] += acceleration[get_global_id(0)] * dt;
  bodies[get_global_id(0)].xyz += velocity[get_global_id(0)].xyz * dt;
}
