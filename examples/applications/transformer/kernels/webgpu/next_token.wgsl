#include "group.wgsl"

struct Sizes { size: i32, prompt: i32, context: i32 }

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> tokens: array<i32>;
@group(0) @binding(2) var<storage, read_write> position: array<i32>;
@group(0) @binding(3) var<uniform> sizes: Sizes;

var<workgroup> places: array<i32, THREADS>;

@compute @workgroup_size(THREADS)
fn next_token(@builtin(local_invocation_id) local: vec3u) {
    let thread = i32(local.x);

    // The first of the largest logits.
    var highest = logits[0];
    var place = 0;
    for (var i = thread; i < sizes.size; i += THREADS) {
        if logits[i] > highest {
            highest = logits[i];
            place = i;
        }
    }
    scratch[thread] = highest;
    places[thread] = place;
    workgroupBarrier();
    for (var stride = THREADS / 2; stride > 0; stride /= 2) {
        if thread < stride {
            let other = scratch[thread + stride];
            if other > scratch[thread] || (other == scratch[thread] && places[thread + stride] < places[thread]) {
                scratch[thread] = other;
                places[thread] = places[thread + stride];
            }
        }
        workgroupBarrier();
    }
    if thread == 0 {
        let next = position[0] + 1;
        if next >= sizes.prompt && next < sizes.context {
            tokens[next] = places[0];
        }
        position[0] = next;
    }
}
