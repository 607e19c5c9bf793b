struct Sizes { heads: i32, head_size: i32 }

@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read> frequencies: array<f32>;
@group(0) @binding(2) var<storage, read> position: array<i32>;
@group(0) @binding(3) var<uniform> sizes: Sizes;

@compute @workgroup_size(64)
fn rope(@builtin(global_invocation_id) id: vec3u) {
    let i = i32(id.x);
    if i >= sizes.heads * sizes.head_size / 2 {
        return;
    }
    let angle = f32(position[0]) * frequencies[i % (sizes.head_size / 2)];
    let c = cos(angle);
    let s = sin(angle);
    let a = x[2 * i];
    let b = x[2 * i + 1];
    x[2 * i] = a * c - b * s;
    x[2 * i + 1] = a * s + b * c;
}
