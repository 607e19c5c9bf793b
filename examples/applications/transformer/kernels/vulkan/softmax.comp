#version 450
#include "group.glsl"

layout(set = 0, binding = 0) buffer Scores { float scores[]; };
layout(set = 0, binding = 1) readonly buffer Position { int position[]; };
layout(push_constant) uniform Sizes { int rows; int context; };

void main()
{
    const uint thread = gl_LocalInvocationID.x, count = position[0] + 1;
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
        const uint first = row * context;
        float highest = scores[first];
        for (uint i = thread; i < count; i += THREADS)
            highest = max(highest, scores[first + i]);
        highest = max_of_group(highest);
        float sum = 0.0;
        for (uint i = thread; i < count; i += THREADS) {
            const float e = exp(scores[first + i] - highest);
            scores[first + i] = e;
            sum += e;
        }
        sum = sum_of_group(sum);
        for (uint i = thread; i < count; i += THREADS)
            scores[first + i] /= sum;
    }
}
