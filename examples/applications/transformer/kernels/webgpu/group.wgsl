// A workgroup of THREADS threads, and what it computes together. In a kernel with a workgroup for each row, the workgroup goes on with the
// row that is as many rows later as there are workgroups.
const THREADS = 64;

var<workgroup> scratch: array<f32, THREADS>;

// The sum of `value` over the threads of the workgroup.
fn sum_of_group(value: f32, thread: i32) -> f32 {
    scratch[thread] = value;
    workgroupBarrier();
    for (var stride = THREADS / 2; stride > 0; stride /= 2) {
        if thread < stride {
            scratch[thread] += scratch[thread + stride];
        }
        workgroupBarrier();
    }
    let sum = scratch[0];
    workgroupBarrier(); // all threads read it before one writes scratch again
    return sum;
}

// The maximum of `value` over the threads of the workgroup.
fn max_of_group(value: f32, thread: i32) -> f32 {
    scratch[thread] = value;
    workgroupBarrier();
    for (var stride = THREADS / 2; stride > 0; stride /= 2) {
        if thread < stride {
            scratch[thread] = max(scratch[thread], scratch[thread + stride]);
        }
        workgroupBarrier();
    }
    let highest = scratch[0];
    workgroupBarrier();
    return highest;
}
