// Sum of n floats. Each workgroup adds the part that its threads stride over, and writes one partial sum. A second launch with one
// workgroup adds those.
struct Scalars { n: i32 }

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> partial: array<f32>;
@group(0) @binding(2) var<uniform> scalars: Scalars;

const THREADS = 128;
var<workgroup> scratch: array<f32, THREADS>;

@compute @workgroup_size(THREADS)
fn sum(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_id) local: vec3u,
) {
    let thread = i32(local.x);
    let stride = i32(groups.x) * THREADS;
    var own = 0.0;
    for (var i = i32(group.x) * THREADS + thread; i < scalars.n; i += stride) {
        own += x[i];
    }
    scratch[thread] = own;
    workgroupBarrier();
    for (var stride = THREADS / 2; stride > 0; stride /= 2) {
        if thread < stride {
            scratch[thread] += scratch[thread + stride];
        }
        workgroupBarrier();
    }
    if thread == 0 {
        partial[group.x] = scratch[0];
    }
}
