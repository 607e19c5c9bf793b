#version 450
#include "pictures.glsl"
// Resize a picture to width × height. The sampler interpolates.
layout(local_size_x = 16, local_size_y = 16) in;
layout(set = 0, binding = 0) uniform sampler2D source;
layout(set = 0, binding = 1, rgba8) uniform writeonly image2D result;
layout(push_constant) uniform Sizes { int width, height; };

void main()
{
    const ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    if (at.x < width && at.y < height)
        imageStore(result, at, texel(source, at.x, at.y, width, height));
}
