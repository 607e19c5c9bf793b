#version 450
#include "pictures.glsl"
// Smooth a picture, and keep its edges: the mean of the neighbours with weights for their distance and for the difference of their colours.
layout(local_size_x = 16, local_size_y = 16) in;
layout(set = 0, binding = 0) uniform sampler2D source;
layout(set = 0, binding = 1, rgba8) uniform writeonly image2D result;
layout(push_constant) uniform Sizes { int width, height, radius; float space, range; };

void main()
{
    const ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    if (at.x >= width || at.y >= height)
        return;
    const vec4 center = texel(source, at.x, at.y, width, height);
    vec4 sum = vec4(0);
    float weights = 0;
    for (int dy = -radius; dy <= radius; dy++)
        for (int dx = -radius; dx <= radius; dx++) {
            const vec4 color = texel(source, at.x + dx, at.y + dy, width, height);
            const vec3 difference = color.rgb - center.rgb;
            const float weight = exp(-(dx * dx + dy * dy) / (2 * space * space) - dot(difference, difference) / (2 * range * range));
            sum += weight * color;
            weights += weight;
        }
    imageStore(result, at, sum / weights);
}
