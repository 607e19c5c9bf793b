// The sum of each row of a matrix. A workgroup of BLOCK threads adds one row, and a thread ITEMS
// neighbours at a time.
override BLOCK: i32 = 128;
override ITEMS: i32 = 1;

struct Scalars { rows: i32, columns: i32 }

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;
@group(0) @binding(2) var<uniform> size: Scalars;

var<workgroup> parts: array<f32, 256>;

@compute @workgroup_size(BLOCK)
fn row_sums(@builtin(local_invocation_id) local: vec3u, @builtin(workgroup_id) group: vec3u) {
    let thread = i32(local.x);
    let row = i32(group.x);

    var own = 0.0;
    for (var start = thread * ITEMS; start < size.columns; start += BLOCK * ITEMS) {
        for (var i = start; i < min(start + ITEMS, size.columns); i++) {
            own += x[row * size.columns + i];
        }
    }
    parts[thread] = own;
    workgroupBarrier();
    for (var stride = BLOCK / 2; stride > 0; stride /= 2) {
        if thread < stride {
            parts[thread] += parts[thread + stride];
        }
        workgroupBarrier();
    }
    if thread == 0 {
        sums[row] = parts[0];
    }
}
