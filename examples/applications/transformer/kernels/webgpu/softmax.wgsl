#include "group.wgsl"

struct Sizes { rows: i32, context: i32 }

@group(0) @binding(0) var<storage, read_write> scores: array<f32>;
@group(0) @binding(1) var<storage, read> position: array<i32>;
@group(0) @binding(2) var<uniform> sizes: Sizes;

@compute @workgroup_size(THREADS)
fn softmax(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
           @builtin(local_invocation_id) local: vec3u) {
    let thread = i32(local.x);
    let count = position[0] + 1;
    for (var row = i32(group.x); row < sizes.rows; row += i32(groups.x)) {
        let first = row * sizes.context;
        var highest = scores[first];
        for (var i = thread; i < count; i += THREADS) {
            highest = max(highest, scores[first + i]);
        }
        highest = max_of_group(highest, thread);
        var sum = 0.0;
        for (var i = thread; i < count; i += THREADS) {
            let e = exp(scores[first + i] - highest);
            scores[first + i] = e;
            sum += e;
        }
        sum = sum_of_group(sum, thread);
        for (var i = thread; i < count; i += THREADS) {
            scores[first + i] /= sum;
        }
    }
}
