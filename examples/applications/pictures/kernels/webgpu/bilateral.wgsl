// Smooth a picture, and keep its edges: the mean of the neighbours with weights for their distance and for the difference of their colours.
#include "pictures.wgsl"
struct Filter { width: i32, height: i32, radius: i32, space: f32, range: f32 }
@group(0) @binding(2) var result: texture_storage_2d<rgba8unorm, write>;
@group(0) @binding(3) var<uniform> size: Filter;

@compute @workgroup_size(16, 16)
fn bilateral(@builtin(global_invocation_id) id: vec3u) {
    let at = vec2i(id.xy);
    if at.x >= size.width || at.y >= size.height {
        return;
    }
    let center = texel(at, size.width, size.height);
    var sum = vec4f();
    var weights = 0.0;
    for (var dy = -size.radius; dy <= size.radius; dy++) {
        for (var dx = -size.radius; dx <= size.radius; dx++) {
            let color = texel(at + vec2i(dx, dy), size.width, size.height);
            let difference = color.rgb - center.rgb;
            let distance = f32(dx * dx + dy * dy);
            let weight = exp(-distance / (2 * size.space * size.space) - dot(difference, difference) / (2 * size.range * size.range));
            sum += weight * color;
            weights += weight;
        }
    }
    textureStore(result, at, sum / weights);
}
