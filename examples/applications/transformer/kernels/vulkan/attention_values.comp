#version 450
#include "group.glsl"

layout(set = 0, binding = 0) readonly buffer Scores { float scores[]; };
layout(set = 0, binding = 1) readonly buffer Values { float values[]; };
layout(set = 0, binding = 2) readonly buffer Position { int position[]; };
layout(set = 0, binding = 3) buffer Y { float y[]; };
layout(push_constant) uniform Sizes { int heads; int kv_heads; int head_size; int context; };

void main()
{
    for (uint head = gl_WorkGroupID.x; head < heads; head += gl_NumWorkGroups.x)
        for (uint i = gl_LocalInvocationID.x; i < head_size; i += THREADS) {
            float sum = 0.0;
            for (uint at = 0; at <= position[0]; at++)
                sum += scores[head * context + at] * values[(at * kv_heads + head / (heads / kv_heads)) * head_size + i];
            y[head * head_size + i] = sum;
        }
}
