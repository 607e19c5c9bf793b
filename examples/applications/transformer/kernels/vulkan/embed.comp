#version 450

layout(local_size_x = 64) in;

layout(set = 0, binding = 0) readonly buffer Table { uint table[]; };
layout(set = 0, binding = 1) readonly buffer Tokens { int tokens[]; };
layout(set = 0, binding = 2) readonly buffer Position { int position[]; };
layout(set = 0, binding = 3) buffer X { float x[]; };
layout(push_constant) uniform Sizes { int size; };

#define WORDS table
#include "q4_0.glsl"

void main()
{
    const uint i = gl_GlobalInvocationID.x;
    if (i >= size)
        return;
    const uint block = tokens[position[0]] * (size / 32) + i / 32;
    const uint number = numbers_of(block, i % 16 / 4)[i % 4];
    x[i] = scale_of(block) * (int(i % 32 < 16 ? number & 15 : number >> 4) - 8);
}
