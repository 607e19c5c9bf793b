#include "group.wgsl"

struct Sizes { heads: i32, kv_heads: i32, head_size: i32, context: i32 }

@group(0) @binding(0) var<storage, read> scores: array<f32>;
@group(0) @binding(1) var<storage, read> values: array<f32>;
@group(0) @binding(2) var<storage, read> position: array<i32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<uniform> sizes: Sizes;

@compute @workgroup_size(THREADS)
fn attention_values(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                    @builtin(local_invocation_id) local: vec3u) {
    let thread = i32(local.x);
    for (var head = i32(group.x); head < sizes.heads; head += i32(groups.x)) {
        for (var i = thread; i < sizes.head_size; i += THREADS) {
            var sum = 0.0;
            for (var at = 0; at <= position[0]; at++) {
                let v = (at * sizes.kv_heads + head / (sizes.heads / sizes.kv_heads)) * sizes.head_size;
                sum += scores[head * sizes.context + at] * values[v + i];
            }
            y[head * sizes.head_size + i] = sum;
        }
    }
}
