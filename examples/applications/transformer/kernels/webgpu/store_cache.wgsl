struct Sizes { size: i32 }

@group(0) @binding(0) var<storage, read> key: array<f32>;
@group(0) @binding(1) var<storage, read> value: array<f32>;
@group(0) @binding(2) var<storage, read> position: array<i32>;
@group(0) @binding(3) var<storage, read_write> keys: array<f32>;
@group(0) @binding(4) var<storage, read_write> values: array<f32>;
@group(0) @binding(5) var<uniform> sizes: Sizes;

@compute @workgroup_size(64)
fn store_cache(@builtin(global_invocation_id) id: vec3u) {
    let i = i32(id.x);
    if i >= sizes.size {
        return;
    }
    keys[position[0] * sizes.size + i] = key[i];
    values[position[0] * sizes.size + i] = value[i];
}
