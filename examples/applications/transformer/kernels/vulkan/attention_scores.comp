#version 450
#include "group.glsl"

layout(set = 0, binding = 0) readonly buffer Query { float query[]; };
layout(set = 0, binding = 1) readonly buffer Keys { float keys[]; };
layout(set = 0, binding = 2) readonly buffer Position { int position[]; };
layout(set = 0, binding = 3) buffer Scores { float scores[]; };
layout(push_constant) uniform Sizes { int heads; int kv_heads; int head_size; int context; };

void main()
{
    for (uint head = gl_WorkGroupID.x; head < heads; head += gl_NumWorkGroups.x)
        for (uint at = gl_LocalInvocationID.x; at <= position[0]; at += THREADS) {
            const uint q = head * head_size, k = (at * kv_heads + head / (heads / kv_heads)) * head_size;
            float sum = 0.0;
            for (uint i = 0; i < head_size; i++)
                sum += query[q + i] * keys[k + i];
            scores[head * context + at] = sum * inversesqrt(float(head_size));
        }
}
