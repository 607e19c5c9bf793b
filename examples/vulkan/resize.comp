#version 450
// A picture of another size. The sampler interpolates: coordinates are from 0 to 1, and the centre of texel (x, y) of the result is at
// ((x + 0.5) / width, (y + 0.5) / height). A sampler2D is an image with its sampler: a call takes `source` and `source_sampler`.
layout(local_size_x = 16, local_size_y = 16) in;

layout(set = 0, binding = 0) uniform sampler2D source;
layout(set = 0, binding = 1, rgba8) uniform writeonly image2D result;
layout(push_constant) uniform Sizes { int width, height; };

void main()
{
    const ivec2 here = ivec2(gl_GlobalInvocationID.xy);
    if (here.x < width && here.y < height)
        imageStore(result, here, textureLod(source, (vec2(here) + 0.5) / vec2(width, height), 0));
}
