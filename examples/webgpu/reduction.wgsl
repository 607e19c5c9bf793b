// Sum of n floats. Each workgroup adds up the part that its threads stride over and writes one partial sum; a second launch with a
// single workgroup adds those up.
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
    for (var half_of = THREADS / 2; half_of > 0; half_of /= 2) {
        if thread < half_of {
            scratch[thread] += scratch[thread + half_of];
        }
        workgroupBarrier();
    }
    if thread == 0 {
        partial[group.x] = scratch[0];
    }
}
