// Give each texel the luminance that the table has for its own.
#include "pictures.wgsl"
struct Size { width: i32, height: i32 }
@group(0) @binding(2) var result: texture_storage_2d<rgba8unorm, write>;
@group(0) @binding(3) var<storage, read> table: array<f32, 256>;
@group(0) @binding(4) var<uniform> size: Size;

@compute @workgroup_size(16, 16)
fn equalize(@builtin(global_invocation_id) id: vec3u) {
    let at = vec2i(id.xy);
    if at.x >= size.width || at.y >= size.height {
        return;
    }
    let color = texel(at, size.width, size.height);
    let light = luminance(color);
    let factor = table[i32(light * 255 + 0.5)] / max(light, 1.0 / 255);
    textureStore(result, at, vec4f(min(color.rgb * factor, vec3f(1)), color.a));
}
