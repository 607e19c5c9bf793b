#version 450
#include "pictures.glsl"
// Give each texel the luminance that the table has for its own.
layout(local_size_x = 16, local_size_y = 16) in;
layout(set = 0, binding = 0) uniform sampler2D source;
layout(set = 0, binding = 1, rgba8) uniform writeonly image2D result;
layout(set = 0, binding = 2) readonly buffer Table { float table[]; };
layout(push_constant) uniform Sizes { int width, height; };

void main()
{
    const ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    if (at.x >= width || at.y >= height)
        return;
    const vec4 color = texel(source, at.x, at.y, width, height);
    const float light = luminance(color);
    const float factor = table[int(light * 255 + 0.5)] / max(light, 1.0 / 255);
    imageStore(result, at, vec4(min(color.rgb * factor, 1), color.a));
}
