struct Sizes { size: i32 }

@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<uniform> sizes: Sizes;

@compute @workgroup_size(64)
fn accumulate(@builtin(global_invocation_id) id: vec3u) {
    let i = i32(id.x);
    if i < sizes.size {
        x[i] += y[i];
    }
}
