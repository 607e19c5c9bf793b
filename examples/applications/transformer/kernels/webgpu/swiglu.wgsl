struct Sizes { size: i32 }

@group(0) @binding(0) var<storage, read_write> gate: array<f32>;
@group(0) @binding(1) var<storage, read> up: array<f32>;
@group(0) @binding(2) var<uniform> sizes: Sizes;

@compute @workgroup_size(64)
fn swiglu(@builtin(global_invocation_id) id: vec3u) {
    let i = i32(id.x);
    if i < sizes.size {
        gate[i] = gate[i] / (1.0 + exp(-gate[i])) * up[i];
    }
}
