@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<uniform> n: i32;

@compute @workgroup_size(16)
fn spin(@builtin(global_invocation_id) id: vec3u) {
  var value = x[id.x];
  for (var i = 0i; i < n; i++) { value = value * 1664525u + 1013904223u; }
  x[id.x] = value;
}
