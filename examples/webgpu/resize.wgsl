// A picture of another size. The sampler interpolates: coordinates are from 0 to 1, and the centre of texel (x, y) of the result is at
// ((x + 0.5) / width, (y + 0.5) / height).
struct Scalars { width: i32, height: i32 }

@group(0) @binding(0) var source: texture_2d<f32>;
@group(0) @binding(1) var source_sampler: sampler;
@group(0) @binding(2) var result: texture_storage_2d<rgba8unorm, write>;
@group(0) @binding(3) var<uniform> size: Scalars;

@compute @workgroup_size(16, 16)
fn resize(@builtin(global_invocation_id) id: vec3u) {
    let here = vec2i(id.xy);
    if here.x < size.width && here.y < size.height {
        let place = (vec2f(here) + 0.5) / vec2f(f32(size.width), f32(size.height));
        textureStore(result, here, textureSampleLevel(source, source_sampler, place, 0));
    }
}
