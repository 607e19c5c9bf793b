#include "group.wgsl"

struct Sizes { size: i32, epsilon: f32 }

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> weight: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> sizes: Sizes;

@compute @workgroup_size(THREADS)
fn rms_norm(@builtin(local_invocation_id) local: vec3u) {
    let thread = i32(local.x);
    var squares = 0.0;
    for (var i = thread; i < sizes.size; i += THREADS) {
        squares += x[i] * x[i];
    }
    let scale = inverseSqrt(sum_of_group(squares, thread) / f32(sizes.size) + sizes.epsilon);
    for (var i = thread; i < sizes.size; i += THREADS) {
        y[i] = x[i] * scale * weight[i];
    }
}
