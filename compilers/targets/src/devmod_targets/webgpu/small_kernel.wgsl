@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(1) fn f() { x[0] = 1; }
