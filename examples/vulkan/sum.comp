#version 450
// Sum of n floats. Each group adds the part that its threads stride over, and writes one partial sum. A second launch with one
// group adds those.
layout(local_size_x = 128) in;

layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Partial { float partial[]; };
layout(push_constant) uniform Sizes { int n; };

shared float scratch[gl_WorkGroupSize.x];

void main()
{
    const uint thread = gl_LocalInvocationID.x;
    float own = 0.0;
    for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)
        own += x[i];
    scratch[thread] = own;
    barrier();
    for (uint stride = gl_WorkGroupSize.x / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] += scratch[thread + stride];
        barrier();
    }
    if (thread == 0)
        partial[gl_WorkGroupID.x] = scratch[0];
}
