#define WORDS table
#include "q4_0.wgsl"

struct Sizes { size: i32 }

@group(0) @binding(0) var<storage, read> table: array<u32>;
@group(0) @binding(1) var<storage, read> tokens: array<i32>;
@group(0) @binding(2) var<storage, read> position: array<i32>;
@group(0) @binding(3) var<storage, read_write> x: array<f32>;
@group(0) @binding(4) var<uniform> sizes: Sizes;

@compute @workgroup_size(64)
fn embed(@builtin(global_invocation_id) id: vec3u) {
    let i = i32(id.x);
    if i >= sizes.size {
        return;
    }
    let block = tokens[position[0]] * (sizes.size / 32) + i / 32;
    let byte = numbers_of(block, i % 16 / 4)[i % 4];
    x[i] = scale_of(block) * f32(i32(select(byte >> 4, byte & 15, i % 32 < 16)) - 8);
}
