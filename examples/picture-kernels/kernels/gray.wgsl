// The brightness of each pixel, 0 to 1, with the weights of ITU-R BT.709. A pixel is one u32, red in the lowest byte.
@group(0) @binding(0) var<storage, read> picture: array<u32>;
@group(0) @binding(1) var<storage, read_write> brightness: array<f32>;
@group(0) @binding(2) var<uniform> pixels: i32;

@compute @workgroup_size(64)
fn gray(@builtin(global_invocation_id) id: vec3u) {
    let i = i32(id.x);
    if i < pixels {
        let pixel = picture[i];
        let levels = vec3f(f32(pixel & 255), f32((pixel >> 8) & 255), f32((pixel >> 16) & 255));
        brightness[i] = dot(levels, vec3f(0.2126, 0.7152, 0.0722)) / 255;
    }
}
