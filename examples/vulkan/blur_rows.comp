#version 450
// The first pass of a Gaussian blur: along the rows. A pixel of the picture is a uint, red in the lowest byte.
#include "gaussian_blur.glsl"

layout(set = 0, binding = 0) readonly buffer Picture { uint picture[]; };
layout(set = 0, binding = 1) writeonly buffer Between { vec4 between[]; };

void main()
{
    const ivec2 here = ivec2(gl_GlobalInvocationID.xy);
    if (here.x >= width || here.y >= height)
        return;
    vec4 sum = vec4(0.0);
    for (int i = -radius; i <= radius; i++)
        sum += weights[i + radius] * (unpackUnorm4x8(picture[at(here.x + i, here.y)]) * 255.0);
    between[here.y * width + here.x] = sum;
}
