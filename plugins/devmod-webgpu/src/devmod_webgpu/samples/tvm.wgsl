@group(0) @binding(0) var<storage, read> source : array<f32>;
@group(0) @binding(1) var<storage, read_write> scaled : array<f32>;
struct PODArgs {
  by: f32,
  n: i32,
  packGridDimX: u32
}
@group(0) @binding(2) var<uniform> podArgs : PODArgs;

@compute @workgroup_size(4, 1, 1)
fn scale_kernel(
  @builtin(workgroup_id) blockIdx : vec3<u32>,
  @builtin(num_workgroups) gridDim : vec3<u32>,
  @builtin(local_invocation_id) threadIdx : vec3<u32>
) {
  if (blockIdx.z * gridDim.x + blockIdx.x > podArgs.packGridDimX) { return; }
  let i : i32 = i32(blockIdx.z * gridDim.x + blockIdx.x) * 4i + i32(threadIdx.x);
  if (i < podArgs.n) { scaled[i] = podArgs.by * source[i]; }
}
