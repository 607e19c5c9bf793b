// The escape time of z → z² + c for the c of each pixel: the number of steps, with a fraction so that colours have no bands. It is 0
// for a c that has not escaped after `steps`.
struct Scalars { width: i32, height: i32, left: f32, top: f32, pixel: f32, steps: i32 }

@group(0) @binding(0) var<storage, read_write> escape: array<f32>;
@group(0) @binding(1) var<uniform> view: Scalars;

// WGSL lets a compiler contract a product and a sum into a fused multiply-add, which would change the counts near the border of the
// set. `min` keeps them apart; no product here is that large.
fn rounded(product: f32) -> f32 {
    return min(product, 3.0e38);
}

@compute @workgroup_size(16, 16)
fn mandelbrot(@builtin(global_invocation_id) id: vec3u) {
    let column = i32(id.x);
    let row = i32(id.y);
    if column >= view.width || row >= view.height {
        return;
    }
    let cx = view.left + rounded(f32(column) * view.pixel);
    let cy = view.top - rounded(f32(row) * view.pixel);
    var x = 0.0;
    var y = 0.0;
    var time = 0.0;
    for (var step = 1; step <= view.steps; step++) {
        let next_x = rounded(x * x) - rounded(y * y) + cx;
        y = rounded(2.0 * x * y) + cy;
        x = next_x;
        let square = rounded(x * x) + rounded(y * y);
        if square > 256.0 {
            time = f32(step) + 1.0 - log2(0.5 * log2(square));
            break;
        }
    }
    escape[row * view.width + column] = time;
}
