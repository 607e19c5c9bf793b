// C = A · B, with A of m × k, B of k × n and C of m × n floats, row by row in memory.
// A workgroup of TILE × TILE threads computes TILE · ROWS rows and TILE columns of C, and a thread
// ROWS of its elements, at most four.
override TILE: i32 = 16;
override ROWS: i32 = 1;

struct Scalars { m: i32, n: i32, k: i32 }

@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@group(0) @binding(3) var<uniform> size: Scalars;

// The sizes of the largest tiles.
var<workgroup> tile_a: array<array<f32, 16>, 64>;
var<workgroup> tile_b: array<array<f32, 16>, 16>;

@compute @workgroup_size(TILE, TILE)
fn product(@builtin(local_invocation_id) local: vec3u, @builtin(workgroup_id) group: vec3u) {
    let tx = i32(local.x);
    let ty = i32(local.y);
    let column = i32(group.x) * TILE + tx;
    let first = i32(group.y) * TILE * ROWS + ty;

    var sums = array<f32, 4>();
    for (var start = 0; start < size.k; start += TILE) {
        // Beyond the edges a tile is filled with zeros.
        for (var r = 0; r < ROWS; r++) {
            let row = first + r * TILE;
            var from_a = 0.0;
            if row < size.m && start + tx < size.k {
                from_a = a[row * size.k + start + tx];
            }
            tile_a[r * TILE + ty][tx] = from_a;
        }
        var from_b = 0.0;
        if start + ty < size.k && column < size.n {
            from_b = b[(start + ty) * size.n + column];
        }
        tile_b[ty][tx] = from_b;
        workgroupBarrier();
        for (var i = 0; i < TILE; i++) {
            for (var r = 0; r < ROWS; r++) {
                sums[r] += tile_a[r * TILE + ty][i] * tile_b[i][tx];
            }
        }
        workgroupBarrier();
    }
    for (var r = 0; r < ROWS; r++) {
        let row = first + r * TILE;
        if row < size.m && column < size.n {
            c[row * size.n + column] = sums[r];
        }
    }
}
