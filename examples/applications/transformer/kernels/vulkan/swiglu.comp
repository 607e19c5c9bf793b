#version 450

layout(local_size_x = 64) in;

layout(set = 0, binding = 0) buffer Gate { float gate[]; };
layout(set = 0, binding = 1) readonly buffer Up { float up[]; };
layout(push_constant) uniform Sizes { int size; };

void main()
{
    const uint i = gl_GlobalInvocationID.x;
    if (i < size)
        gate[i] = gate[i] / (1.0 + exp(-gate[i])) * up[i];
}
