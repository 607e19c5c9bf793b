#version 450
#include "group.glsl"

layout(set = 0, binding = 0) readonly buffer Weights { uint weights[]; };
layout(set = 0, binding = 1) readonly buffer X { float x[]; };
layout(set = 0, binding = 2) buffer Y { float y[]; };
layout(push_constant) uniform Sizes { int rows; int columns; };

#define WORDS weights
#include "q4_0.glsl"

void main()
{
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
        float sum = 0.0;
        // A thread takes four bytes, which are a quarter of a block.
        for (uint i = gl_LocalInvocationID.x; i < columns / 8; i += THREADS) {
            const uint block = row * (columns / 32) + i / 4, low = i / 4 * 32 + i % 4 * 4, high = low + 16;
            const uvec4 numbers = numbers_of(block, i % 4);
            float part = dot(vec4(x[low], x[low + 1], x[low + 2], x[low + 3]), vec4(numbers & 15) - 8);
            part += dot(vec4(x[high], x[high + 1], x[high + 2], x[high + 3]), vec4(numbers >> 4) - 8);
            sum += scale_of(block) * part;
        }
        sum = sum_of_group(sum);
        if (gl_LocalInvocationID.x == 0)
            y[row] = sum;
    }
}
