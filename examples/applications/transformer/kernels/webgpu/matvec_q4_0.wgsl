#include "group.wgsl"
#define WORDS weights
#include "q4_0.wgsl"

struct Sizes { rows: i32, columns: i32 }

@group(0) @binding(0) var<storage, read> weights: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> sizes: Sizes;

@compute @workgroup_size(THREADS)
fn matvec_q4_0(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
               @builtin(local_invocation_id) local: vec3u) {
    let thread = i32(local.x);
    for (var row = i32(group.x); row < sizes.rows; row += i32(groups.x)) {
        var sum = 0.0;
        // A thread takes four bytes, which are a quarter of a block.
        for (var i = thread; i < sizes.columns / 8; i += THREADS) {
            let block = row * (sizes.columns / 32) + i / 4;
            let low = i / 4 * 32 + i % 4 * 4;
            let high = low + 16;
            let numbers = numbers_of(block, i % 4);
            let part = dot(vec4f(x[low], x[low + 1], x[low + 2], x[low + 3]), vec4f(numbers & vec4u(15)) - 8)
                + dot(vec4f(x[high], x[high + 1], x[high + 2], x[high + 3]), vec4f(numbers >> vec4u(4)) - 8);
            sum += scale_of(block) * part;
        }
        sum = sum_of_group(sum, thread);
        if thread == 0 {
            y[row] = sum;
        }
    }
}
