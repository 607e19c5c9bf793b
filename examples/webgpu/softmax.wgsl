// Softmax over the rows of a matrix. One workgroup works on one row: each of its threads strides along the row, then the
// workgroup reduces the results of its threads in `scratch`.
struct Scalars { columns: i32 }

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> scalars: Scalars;

const THREADS = 64;
var<workgroup> scratch: array<f32, THREADS>;

@compute @workgroup_size(THREADS)
fn softmax(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u) {
    let thread = i32(local.x);
    let row = i32(group.x) * scalars.columns;

    // The row's maximum: exp(x - max) cannot overflow.
    var highest = x[row];
    for (var i = thread; i < scalars.columns; i += THREADS) {
        highest = max(highest, x[row + i]);
    }
    scratch[thread] = highest;
    workgroupBarrier();
    for (var stride = THREADS / 2; stride > 0; stride /= 2) {
        if thread < stride {
            scratch[thread] = max(scratch[thread], scratch[thread + stride]);
        }
        workgroupBarrier();
    }
    highest = scratch[0];
    workgroupBarrier(); // all threads read it before one writes scratch again

    var sum = 0.0;
    for (var i = thread; i < scalars.columns; i += THREADS) {
        let e = exp(x[row + i] - highest);
        y[row + i] = e;
        sum += e;
    }
    scratch[thread] = sum;
    workgroupBarrier();
    for (var stride = THREADS / 2; stride > 0; stride /= 2) {
        if thread < stride {
            scratch[thread] += scratch[thread + stride];
        }
        workgroupBarrier();
    }

    let scale = 1.0 / scratch[0];
    for (var i = thread; i < scalars.columns; i += THREADS) {
        y[row + i] *= scale;
    }
}
