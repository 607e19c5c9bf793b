// A Gaussian blur of a picture with 8 bits a channel, one u32 a pixel, red in the lowest byte. A Gaussian is separable: two passes,
// along the rows and along the columns, read 2 · (2 · radius + 1) pixels instead of (2 · radius + 1)². The picture between them is in
// floats. `weights` has the 2 · radius + 1 weights, whose sum is one. The pixel at an edge continues beyond it.
struct Scalars { radius: i32, width: i32, height: i32 }

// Both kernels use `between`: the first writes it, the second reads it.
@group(0) @binding(0) var<storage, read> picture: array<u32>;
@group(0) @binding(1) var<storage, read_write> between: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> blurred: array<u32>;
@group(0) @binding(3) var<storage, read> weights: array<f32>;
@group(0) @binding(4) var<uniform> size: Scalars;

@compute @workgroup_size(16, 16)
fn blur_rows(@builtin(global_invocation_id) id: vec3u) {
    let x = i32(id.x);
    let y = i32(id.y);
    if x >= size.width || y >= size.height {
        return;
    }
    var sum = vec4f();
    for (var i = -size.radius; i <= size.radius; i++) {
        let pixel = picture[y * size.width + clamp(x + i, 0, size.width - 1)];
        let levels = vec4f(vec4u(pixel, pixel >> 8, pixel >> 16, pixel >> 24) & vec4u(255));
        sum += weights[i + size.radius] * levels;
    }
    between[y * size.width + x] = sum;
}

@compute @workgroup_size(16, 16)
fn blur_columns(@builtin(global_invocation_id) id: vec3u) {
    let x = i32(id.x);
    let y = i32(id.y);
    if x >= size.width || y >= size.height {
        return;
    }
    var sum = vec4f();
    for (var i = -size.radius; i <= size.radius; i++) {
        sum += weights[i + size.radius] * between[clamp(y + i, 0, size.height - 1) * size.width + x];
    }
    let levels = vec4u(clamp(round(sum), vec4f(), vec4f(255)));
    blurred[y * size.width + x] = levels.r | (levels.g << 8) | (levels.b << 16) | 0xff000000;
}
