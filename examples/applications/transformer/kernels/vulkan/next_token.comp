#version 450
#include "group.glsl"

layout(set = 0, binding = 0) readonly buffer Logits { float logits[]; };
layout(set = 0, binding = 1) buffer Tokens { int tokens[]; };
layout(set = 0, binding = 2) buffer Position { int position[]; };
layout(push_constant) uniform Sizes { int size; int prompt; int context; };

shared int places[THREADS];

void main()
{
    const uint thread = gl_LocalInvocationID.x;

    // The first of the largest logits.
    float highest = logits[0];
    int place = 0;
    for (uint i = thread; i < size; i += THREADS)
        if (logits[i] > highest) {
            highest = logits[i];
            place = int(i);
        }
    scratch[thread] = highest;
    places[thread] = place;
    barrier();
    for (uint stride = THREADS / 2; stride > 0; stride /= 2) {
        if (thread < stride) {
            const float other = scratch[thread + stride];
            if (other > scratch[thread] || other == scratch[thread] && places[thread + stride] < places[thread]) {
                scratch[thread] = other;
                places[thread] = places[thread + stride];
            }
        }
        barrier();
    }
    if (thread == 0) {
        const int next = position[0] + 1;
        if (next >= prompt && next < context)
            tokens[next] = places[0];
        position[0] = next;
    }
}
