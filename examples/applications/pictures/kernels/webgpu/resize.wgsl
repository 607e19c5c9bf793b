// Resize a picture to width × height. The sampler interpolates.
#include "pictures.wgsl"
struct Size { width: i32, height: i32 }
@group(0) @binding(2) var result: texture_storage_2d<rgba8unorm, write>;
@group(0) @binding(3) var<uniform> size: Size;

@compute @workgroup_size(16, 16)
fn resize(@builtin(global_invocation_id) id: vec3u) {
    let at = vec2i(id.xy);
    if at.x < size.width && at.y < size.height {
        textureStore(result, at, texel(at, size.width, size.height));
    }
}
