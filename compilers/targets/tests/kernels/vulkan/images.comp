#version 450
layout(local_size_x = 8, local_size_y = 8) in;
layout(binding = 0) uniform sampler2D picture;
layout(binding = 1, rgba8) uniform readonly image2D from;
layout(binding = 2, rgba8) uniform writeonly image2D to;
layout(binding = 3, r32ui) uniform uimage2D counts;
layout(binding = 4) uniform texture3D volume;
layout(binding = 5) uniform sampler how;
layout(binding = 6) uniform sampler2DArray layers[1];
layout(binding = 7) buffer Sum { float total; };
void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    imageStore(to, at, imageLoad(from, at) + texture(picture, vec2(at)) + texture(sampler3D(volume, how), vec3(0)) + texture(layers[0], vec3(0)));
    imageAtomicAdd(counts, at, 1u);
    total = 1.0;
}
