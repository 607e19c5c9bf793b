// C = A · B, with A of m × k, B of k × n and C of m × n floats, row by row in memory.
// A workgroup of TILE × TILE threads computes one tile of C. It walks along k and keeps the two tiles that it needs in
// workgroup memory, so a workgroup reads each float from global memory once.
// f.specialize(TILE=8) sets tiles of 8 × 8; 16 is the largest size.
override TILE: i32 = 16;

struct Scalars { m: i32, n: i32, k: i32 }

@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@group(0) @binding(3) var<uniform> size: Scalars;

// The size of the largest tile: an override cannot set the size of an array of arrays.
var<workgroup> tile_a: array<array<f32, 16>, 16>;
var<workgroup> tile_b: array<array<f32, 16>, 16>;

@compute @workgroup_size(TILE, TILE)
fn matmul_tiled(@builtin(local_invocation_id) local: vec3u, @builtin(global_invocation_id) id: vec3u) {
    let tx = i32(local.x);
    let ty = i32(local.y);
    let column = i32(id.x);
    let row = i32(id.y);

    var sum = 0.0;
    for (var start = 0; start < size.k; start += TILE) {
        // Beyond the edges a tile is filled with zeros: m, n and k need not be multiples of TILE.
        var from_a = 0.0;
        var from_b = 0.0;
        if row < size.m && start + tx < size.k {
            from_a = a[row * size.k + start + tx];
        }
        if start + ty < size.k && column < size.n {
            from_b = b[(start + ty) * size.n + column];
        }
        tile_a[ty][tx] = from_a;
        tile_b[ty][tx] = from_b;
        workgroupBarrier();
        for (var i = 0; i < TILE; i++) {
            sum += tile_a[ty][i] * tile_b[i][tx];
        }
        workgroupBarrier();
    }
    if row < size.m && column < size.n {
        c[row * size.n + column] = sum;
    }
}
