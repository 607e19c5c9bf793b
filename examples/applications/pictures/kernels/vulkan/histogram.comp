#version 450
#include "pictures.glsl"
// Count the texels of each of 256 levels of luminance. A block counts in its own memory first.
layout(local_size_x = 16, local_size_y = 16) in;
layout(set = 0, binding = 0) uniform sampler2D source;
layout(set = 0, binding = 1) buffer Counts { uint counts[]; };
layout(push_constant) uniform Sizes { int width, height; };
shared uint here[256];

void main()
{
    const ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    const uint thread = gl_LocalInvocationIndex;
    here[thread] = 0;
    barrier();
    if (at.x < width && at.y < height)
        atomicAdd(here[int(luminance(texel(source, at.x, at.y, width, height)) * 255 + 0.5)], 1);
    barrier();
    atomicAdd(counts[thread], here[thread]);
}
