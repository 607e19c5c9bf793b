// A Gaussian blur of a picture, 8 bits a channel, a u32 for each pixel with red in its lowest byte. A Gaussian is separable:
// blurring along the rows and then along the columns costs 2 · (2 · radius + 1) reads a pixel instead of (2 · radius + 1)². Between
// the two the picture is kept in floats. `weights` holds the 2 · radius + 1 weights, which sum to one. Beyond its edges the picture
// goes on with the pixel at the edge.
struct Scalars { radius: i32, width: i32, height: i32 }

@group(0) @binding(0) var<storage, read> picture: array<u32>;
@group(0) @binding(1) var<storage, read_write> between: array<vec4f>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
@group(0) @binding(3) var<uniform> size: Scalars;

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

// The second kernel has bindings of its own: what it reads is what the first has written.
@group(0) @binding(0) var<storage, read> blurred_rows: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> blurred: array<u32>;

@compute @workgroup_size(16, 16)
fn blur_columns(@builtin(global_invocation_id) id: vec3u) {
    let x = i32(id.x);
    let y = i32(id.y);
    if x >= size.width || y >= size.height {
        return;
    }
    var sum = vec4f();
    for (var i = -size.radius; i <= size.radius; i++) {
        sum += weights[i + size.radius] * blurred_rows[clamp(y + i, 0, size.height - 1) * size.width + x];
    }
    let levels = vec4u(clamp(round(sum), vec4f(), vec4f(255)));
    blurred[y * size.width + x] = levels.r | (levels.g << 8) | (levels.b << 16) | 0xff000000;
}
