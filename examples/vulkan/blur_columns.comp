#version 450
// The second pass of a Gaussian blur: along the columns, and back to whole levels.
#include "gaussian_blur.glsl"

layout(set = 0, binding = 0) readonly buffer Between { vec4 between[]; };
layout(set = 0, binding = 1) writeonly buffer Blurred { uint blurred[]; };

void main()
{
    const ivec2 here = ivec2(gl_GlobalInvocationID.xy);
    if (here.x >= width || here.y >= height)
        return;
    vec4 sum = vec4(0.0);
    for (int i = -radius; i <= radius; i++)
        sum += weights[i + radius] * between[at(here.x, here.y + i)];
    const uvec4 level = uvec4(roundEven(clamp(sum, 0.0, 255.0)));
    blurred[here.y * width + here.x] = level.r | level.g << 8 | level.b << 16 | 255u << 24;
}
