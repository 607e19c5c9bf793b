#version 450
#include "group.glsl"

layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer Weight { float weight[]; };
layout(set = 0, binding = 2) buffer Y { float y[]; };
layout(push_constant) uniform Sizes { int size; float epsilon; };

void main()
{
    float squares = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < size; i += THREADS)
        squares += x[i] * x[i];
    const float scale = inversesqrt(sum_of_group(squares) / size + epsilon);
    for (uint i = gl_LocalInvocationID.x; i < size; i += THREADS)
        y[i] = x[i] * scale * weight[i];
}
