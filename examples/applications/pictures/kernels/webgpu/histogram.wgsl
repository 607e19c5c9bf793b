// Count the texels of each of 256 levels of luminance. A block counts in its own memory first.
#include "pictures.wgsl"
struct Size { width: i32, height: i32 }
@group(0) @binding(2) var<storage, read_write> counts: array<atomic<u32>, 256>;
@group(0) @binding(3) var<uniform> size: Size;
var<workgroup> here: array<atomic<u32>, 256>;

@compute @workgroup_size(16, 16)
fn histogram(@builtin(global_invocation_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let at = vec2i(id.xy);
    atomicStore(&here[thread], 0u);
    workgroupBarrier();
    if at.x < size.width && at.y < size.height {
        atomicAdd(&here[i32(luminance(texel(at, size.width, size.height)) * 255 + 0.5)], 1u);
    }
    workgroupBarrier();
    atomicAdd(&counts[thread], atomicLoad(&here[thread]));
}
