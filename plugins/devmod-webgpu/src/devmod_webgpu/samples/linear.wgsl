struct Scalars { a: f32, n: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> scalars: Scalars;
@group(0) @binding(3) var<storage, read_write> counts: array<atomic<u32>>;
@group(0) @binding(4) var<storage, read> values: array<i32>;

@compute @workgroup_size(32)
fn axpy(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < scalars.n) { y[id.x] += scalars.a * x[id.x]; }
}

@compute @workgroup_size(8)
fn count(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < arrayLength(&values)) { atomicAdd(&counts[values[id.x] & 7], 1u); }
}
