#version 450

layout(local_size_x = 64) in;

layout(set = 0, binding = 0) buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer Frequencies { float frequencies[]; };
layout(set = 0, binding = 2) readonly buffer Position { int position[]; };
layout(push_constant) uniform Sizes { int heads; int head_size; };

void main()
{
    const uint i = gl_GlobalInvocationID.x;
    if (i >= heads * head_size / 2)
        return;
    const float angle = position[0] * frequencies[i % (head_size / 2)];
    const float c = cos(angle), s = sin(angle), a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * c - b * s;
    x[2 * i + 1] = a * s + b * c;
}
